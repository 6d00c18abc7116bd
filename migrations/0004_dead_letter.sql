-- The rows that a relay set aside: bad ones, and those that wait behind one of their key.
-- Applied by `walpost init` where the configuration lets a relay set rows aside. It lies in the database whose log it speaks of, so a copy that
-- is restored to an older state holds no letter of a later one.
CREATE SCHEMA IF NOT EXISTS walpost;

CREATE TABLE IF NOT EXISTS walpost.dead_letter (
    -- The order in which letters were set aside, and so the order of each key.
    id                bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    relay             text        NOT NULL,
    -- Which row: of this cluster and timeline, in the transaction that commits here, the insert of this number. Unsigned,
    -- and as large as 2^64 - 1.
    system_identifier numeric(20) NOT NULL,
    timeline          bigint      NOT NULL,
    commit_lsn        pg_lsn      NOT NULL,
    ordinal           bigint      NOT NULL,
    commit_time       timestamptz NOT NULL,
    outbox_schema     text        NOT NULL,
    outbox_table      text        NOT NULL,
    event_id          text,
    -- The texts of the row that choose its topic and its key. What a text cannot hold is written as \xHH, a backslash as \\.
    route             text        COLLATE "C",
    key               text        COLLATE "C",
    -- Whose order is kept: the SHA-256 of outbox, route and key. NULL has no order to keep.
    queue             bytea,
    -- waiting: for an operator, or for the letters of its key in front of it. replay, drop: an operator asked for it and the relay has still to do it;
    -- replay also where it goes by itself. sent, dropped: ended.
    state             text        NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'replay', 'drop', 'sent', 'dropped')),
    -- row: it is bad. route: its topic is missing or forbidden. parked: it lies there only because of its key, and goes by itself as soon as nothing of that
    -- stands in front of it.
    cause             text        NOT NULL CHECK (cause IN ('row', 'route', 'parked')),
    reason            text        CHECK (reason IS NOT NULL OR cause = 'parked'),
    attempts          integer     NOT NULL DEFAULT 1,
    first_at          timestamptz NOT NULL DEFAULT now(),
    last_at           timestamptz NOT NULL DEFAULT now(),
    -- The record, where routing got as far as to make one.
    topic             text        COLLATE "C",
    partition         integer,
    record_key        bytea,
    -- [["name", "value"], ...] in order; null is the null value, {"bytea": "\\x..."} one that is no text.
    headers           json,
    timestamp_ms      bigint,
    -- The record's value, unless it is a column of the row as it came: then the number of that column, from 0.
    payload           bytea,
    payload_column    integer,
    -- The row as pgoutput told it.
    relation_message  bytea       NOT NULL,
    insert_message    bytea       NOT NULL,
    -- Where the letter keeps a reference to its row: the SHA-256 of the whole message, of which the one above has the key alone.
    row_sha256        bytea,
    -- Who asked for replay or drop or took that back, and when. One that goes by itself has no time.
    marked_by         text,
    marked_at         timestamptz,
    -- Whether replay means the row as it is by then, where the letter keeps a reference and the row was changed.
    accepts_changed   boolean     NOT NULL DEFAULT false,
    -- When it was sent or dropped.
    ended_at          timestamptz,
    UNIQUE (relay, system_identifier, timeline, commit_lsn, ordinal)
);

-- PostgreSQL compresses some 10 MB a second by default: a large row would take longer than a relay waits.
ALTER TABLE walpost.dead_letter ALTER payload SET STORAGE EXTERNAL, ALTER insert_message SET STORAGE EXTERNAL;

-- The heads and the tails of the queues, without reading what waits between them.
CREATE INDEX IF NOT EXISTS dead_letter_open ON walpost.dead_letter (relay, queue, id) WHERE state IN ('waiting', 'replay', 'drop');
-- What the relay has to do. Nearly always empty.
CREATE INDEX IF NOT EXISTS dead_letter_marked ON walpost.dead_letter (relay, queue, id) WHERE state IN ('replay', 'drop');
-- What has been kept for long enough.
CREATE INDEX IF NOT EXISTS dead_letter_ended ON walpost.dead_letter (relay, ended_at) WHERE state IN ('sent', 'dropped');

COMMENT ON TABLE walpost.dead_letter IS 'The rows that walpost relays set aside. Look at them and mark them by walpost dlq.';
