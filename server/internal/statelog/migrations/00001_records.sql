-- +goose Up
-- The tables of state.db, see docs/format/state.md. Whoever writes to a project locks its row first.
CREATE TABLE state_projects (
	id        BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	workspace TEXT NOT NULL,
	project   TEXT NOT NULL,
	size      BIGINT NOT NULL DEFAULT 0,
	tree_size BIGINT NOT NULL DEFAULT 0,
	UNIQUE (workspace, project)
);

CREATE TABLE state_records (
	project     BIGINT NOT NULL,
	idx         BIGINT NOT NULL,
	run         BYTEA NOT NULL,
	sequence    BIGINT NOT NULL,
	hash        BYTEA NOT NULL,
	received_ns BIGINT NOT NULL,
	fork        INTEGER NOT NULL, -- 1: a second record with its sequence
	record      BYTEA NOT NULL,
	signature   BYTEA NOT NULL,
	payload     BYTEA,
	PRIMARY KEY (project, idx)
);
CREATE INDEX state_records_by_run ON state_records (run, sequence, idx);
CREATE UNIQUE INDEX state_records_first ON state_records (run, sequence) WHERE fork = 0;
CREATE INDEX state_records_forked ON state_records (project, idx) WHERE fork = 1;

CREATE TABLE state_runs (
	run           BYTEA PRIMARY KEY,
	project       BIGINT NOT NULL,
	idx           BIGINT NOT NULL,
	role          TEXT NOT NULL,
	netuid        INTEGER NOT NULL,
	hotkey        BYTEA NOT NULL,
	records       BIGINT NOT NULL,
	forks         BIGINT NOT NULL,
	payload_bytes BIGINT NOT NULL,
	kept_from     BIGINT NOT NULL
);
CREATE INDEX state_runs_by_project ON state_runs (project, idx);
CREATE INDEX state_runs_by_hotkey ON state_runs (project, hotkey);

CREATE TABLE state_nodes (
	project BIGINT NOT NULL,
	level   INTEGER NOT NULL,
	idx     BIGINT NOT NULL,
	hash    BYTEA NOT NULL,
	PRIMARY KEY (project, level, idx)
);

CREATE TABLE state_heads (
	project   BIGINT NOT NULL,
	size      BIGINT NOT NULL,
	root      BYTEA NOT NULL,
	time_ms   BIGINT NOT NULL,
	signature BYTEA NOT NULL,
	PRIMARY KEY (project, size)
);

CREATE TABLE state_cosignatures (
	project   BIGINT NOT NULL,
	size      BIGINT NOT NULL,
	hotkey    BYTEA NOT NULL,
	signature BYTEA NOT NULL,
	PRIMARY KEY (project, size, hotkey)
);

-- The key that signs heads, of all servers.
CREATE TABLE state_key (
	id   INTEGER PRIMARY KEY CHECK (id = 0),
	seed BYTEA NOT NULL CHECK (length(seed) = 32)
);
