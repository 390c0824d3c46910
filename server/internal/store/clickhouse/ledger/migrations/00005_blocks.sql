-- +goose Up
-- Points that are in the log and not yet in the table of points, a row for each block of the log.
-- Number 0: the block was given up, since no commit had it in time. None can have it any more.
CREATE TABLE ledger_blocks (
	id     BYTEA PRIMARY KEY,
	number BIGINT NOT NULL, -- of ledger_positions; of one run they rise
	shard  INTEGER NOT NULL,
	runs   BYTEA[] NOT NULL, -- those whose points count
	at     TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX ledger_blocks_number ON ledger_blocks (shard, number);

-- The last block with points of the run, 0 for none.
ALTER TABLE ledger_runs ADD COLUMN logged BIGINT NOT NULL DEFAULT 0;

-- Who drains the log into a shard. Of each row, the inserts 1…last count, and none after. A row
-- that was merged with those before it begins at epoch 0.
CREATE TABLE ledger_drains (
	epoch BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	first BIGINT NOT NULL,
	last  BIGINT NOT NULL DEFAULT 0,
	shard INTEGER NOT NULL,
	node  BYTEA NOT NULL,
	ended TIMESTAMPTZ -- no insert counts that is committed later
);

-- Which log the servers of this store write to, null for none.
ALTER TABLE ledger_store ADD COLUMN log TEXT;
