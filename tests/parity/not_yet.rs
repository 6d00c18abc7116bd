//! The debts of parity: cases that do not pass yet. The list only shrinks, for a case on it that passes fails the test.

/// Their names.
pub(super) const NOT_YET: &[&str] = &[
    // A date is a number of days to Debezium, which it takes for a partition.
    "routes-partition-of-date",
    // Rows of a table that inherits from the outbox come under its own name, which is that of no outbox.
    "streams-inheritance",
    // Debezium goes on under the new name of a table; here an outbox that is gone ends the relay.
    "streams-table-moved-to-schema",
    "streams-table-renamed",
    // Debezium takes an update of a primary key for a delete and an insert, and publishes the latter; here updates are not published.
    "streams-message-key-columns",
    "streams-unavailable-value-in-header",
    "streams-update-key-of-primary",
    "streams-update-of-composite-primary-key",
    "streams-update-of-primary-key-extended-headers",
    "streams-update-of-primary-key-fatal",
    "streams-update-of-primary-key-json-headers",
    "streams-update-of-primary-key-json-headers-off",
    "streams-update-of-primary-key-string-headers",
    "streams-update-of-primary-key-updates-skipped",
    "streams-update-of-replica-identity-index",
    "streams-update-of-toasted-row-primary-key",
];
