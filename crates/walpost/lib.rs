//! walpost, the program.
