-- Where each relay keeps how far it got: one row a relay.
-- Applied by `walpost init` where the checkpoint is kept in the source database (checkpoint.store = "postgres").
CREATE SCHEMA IF NOT EXISTS walpost;

CREATE TABLE IF NOT EXISTS walpost.checkpoint (
    relay             text        PRIMARY KEY,
    format_version    integer     NOT NULL,
    -- Unsigned, and as large as 2^64 - 1.
    system_identifier numeric(20) NOT NULL,
    timeline          bigint      NOT NULL,
    database          text        NOT NULL,
    slot              text        NOT NULL,
    -- Everything before it is settled.
    position          pg_lsn      NOT NULL,
    -- When the last settled transaction committed.
    commit_time       timestamptz,
    -- Of the transaction after it that commits here, the rows up to there are settled too: what another relay published
    -- before this one took its slot over.
    settled_commit_lsn pg_lsn,
    settled_through    pg_lsn,
    -- Rises with each start of the relay; a writer with another one is fenced.
    epoch             bigint      NOT NULL,
    updated_at        timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50); -- Updated every second: room for updates that touch no index.

COMMENT ON TABLE walpost.checkpoint IS 'How far each walpost relay got. Change it by walpost checkpoint only.';
