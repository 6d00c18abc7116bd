-- The reference outbox table, with the columns that Debezium documents for its Outbox Event Router.
-- Applied by `walpost init --with-outbox`, under the name that the configuration gives, where that table does not exist.
CREATE TABLE IF NOT EXISTS "public"."outbox" (
    -- The event's id: consumers find repeats by it.
    id            uuid         PRIMARY KEY DEFAULT gen_random_uuid(),
    -- Chooses the topic.
    aggregatetype varchar(255) NOT NULL,
    -- The record's key: events of one aggregate keep their order.
    aggregateid   varchar(255) NOT NULL,
    -- What happened.
    type          varchar(255) NOT NULL,
    -- The record's value, byte for byte; NULL is a tombstone.
    payload       jsonb,
    -- For whoever prunes the table; not published.
    created_at    timestamptz  NOT NULL DEFAULT now()
);
