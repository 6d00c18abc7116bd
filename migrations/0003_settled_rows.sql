-- What a table of checkpoints lacks that was made before relays took slots over in the middle of a transaction.
-- Applied by `walpost init` where walpost.checkpoint exists without these columns.
ALTER TABLE walpost.checkpoint
    ADD COLUMN IF NOT EXISTS settled_commit_lsn pg_lsn,
    ADD COLUMN IF NOT EXISTS settled_through    pg_lsn;
