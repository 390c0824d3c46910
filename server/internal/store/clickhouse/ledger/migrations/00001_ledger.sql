-- +goose Up
-- Order of commits. Of one run they rise: they are taken while its row is locked.
CREATE SEQUENCE ledger_positions;

CREATE TABLE ledger_runs (
	id       BYTEA PRIMARY KEY,
	epoch    BIGINT NOT NULL DEFAULT 0, -- fencing token: only its holder commits
	holder   BYTEA,
	taken    TIMESTAMPTZ NOT NULL DEFAULT '-infinity',
	deleted  BOOLEAN NOT NULL DEFAULT FALSE,
	freed    BOOLEAN NOT NULL DEFAULT FALSE, -- no points of a deleted run are left
	arrivals BIGINT NOT NULL DEFAULT 0,
	points   BIGINT NOT NULL DEFAULT 0,
	top      BIGINT -- the highest step of any point
);
CREATE INDEX ledger_unfreed ON ledger_runs (id) WHERE deleted AND NOT freed;

-- Of each epoch, the numbers 1…last are committed. A span that was merged with those before it
-- begins at epoch 0: nothing is there that does not count.
CREATE TABLE ledger_spans (
	run   BYTEA NOT NULL,
	epoch BIGINT NOT NULL,
	last  BIGINT NOT NULL,
	first BIGINT NOT NULL, -- epoch
	PRIMARY KEY (run, epoch)
);

CREATE TABLE ledger_attempts (
	run         BYTEA NOT NULL,
	number      BIGINT NOT NULL,
	precedence  BIGINT NOT NULL,
	opened      BIGINT NOT NULL,
	resume_from BIGINT,
	PRIMARY KEY (run, number)
);

-- Numbers without a sign are stored as the signed ones of the same bits.
CREATE TABLE ledger_writers (
	run      BYTEA NOT NULL,
	place    BIGINT NOT NULL,
	id       BYTEA NOT NULL,
	attempt  BIGINT NOT NULL,
	logger   BIGINT,
	repinned BOOLEAN NOT NULL, -- the logger changed since the writer was made
	refused  BIGINT NOT NULL,
	PRIMARY KEY (run, place)
);

-- Marks outlive their runs.
CREATE TABLE ledger_marks (
	writer BYTEA PRIMARY KEY,
	run    BYTEA NOT NULL,
	mark   BIGINT NOT NULL
);
CREATE INDEX ledger_marks_run ON ledger_marks (run);

CREATE TABLE ledger_series (
	run     BYTEA NOT NULL,
	id      BIGINT NOT NULL,
	kind    SMALLINT NOT NULL,
	key     BYTEA NOT NULL,
	plain   BOOLEAN NOT NULL,
	writer  BIGINT NOT NULL,  -- place of the one writer of a plain series
	attempt BIGINT NOT NULL,  -- its one attempt
	PRIMARY KEY (run, id),
	UNIQUE (run, key)
);

CREATE TABLE ledger_starts (
	run      BYTEA NOT NULL,
	writer   BIGINT NOT NULL,
	series   BIGINT NOT NULL,
	episodic BOOLEAN NOT NULL,
	episode  BIGINT NOT NULL,
	at       BIGINT NOT NULL,
	PRIMARY KEY (run, writer, series, episodic, episode)
);

CREATE TABLE ledger_skipped (
	run    BYTEA NOT NULL,
	number BIGINT GENERATED ALWAYS AS IDENTITY,
	first  BIGINT NOT NULL,
	last   BIGINT NOT NULL,
	reason BYTEA NOT NULL,
	points BIGINT NOT NULL,
	PRIMARY KEY (run, number)
);

-- Updates that the catalog has not confirmed.
CREATE TABLE ledger_updates (
	position BIGINT PRIMARY KEY,
	node     BYTEA NOT NULL,
	run      BYTEA NOT NULL,
	lsn      BIGINT NOT NULL,
	writer   BYTEA NOT NULL,
	doc      BYTEA NOT NULL
);
CREATE INDEX ledger_updates_node ON ledger_updates (node, position);
CREATE INDEX ledger_updates_lsn ON ledger_updates (run, lsn);

CREATE TABLE ledger_nodes (
	name BYTEA PRIMARY KEY,
	seen TIMESTAMPTZ NOT NULL
);
