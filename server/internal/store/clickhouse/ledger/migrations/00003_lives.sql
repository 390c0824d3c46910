-- +goose Up
-- A row of ledger_nodes is a life of a server: its name is made at each start, so no two have one.
ALTER TABLE ledger_nodes ADD COLUMN folder BYTEA; -- names its data folder; null in rows of before

CREATE INDEX ledger_updates_run ON ledger_updates (run, position);

-- Whose points and runs these are.
CREATE TABLE ledger_store (
	id     SMALLINT PRIMARY KEY CHECK (id = 0),
	secret BYTEA NOT NULL, -- all its servers have it
	marked BOOLEAN NOT NULL DEFAULT FALSE, -- the table of points has the store's name
	files  TEXT -- the place of its files, null until a server named it
);
