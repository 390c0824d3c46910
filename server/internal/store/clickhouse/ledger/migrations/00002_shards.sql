-- +goose Up
-- Where the run's points lie: the number of a shard.
ALTER TABLE ledger_runs ADD COLUMN shard INTEGER NOT NULL DEFAULT 1;

-- When the points of a deleted run are looked for next.
ALTER TABLE ledger_runs ADD COLUMN due TIMESTAMPTZ NOT NULL DEFAULT '-infinity';
DROP INDEX ledger_unfreed;
CREATE INDEX ledger_unfreed ON ledger_runs (due) WHERE deleted AND NOT freed;
