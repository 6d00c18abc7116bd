//! Real servers, fault scripts, sinks and the checker for walpost's tests.
