package statelog

import (
	"context"
	"database/sql"

	"github.com/kymogram/kymogram/internal/model"
)

// version is the schema's number, in the file's user_version.
const version = 2

// A project's records are numbered from 0 in idx. runs holds the newest record of
// each run and what its limits need. nodes are hashes of the Merkle log, heads
// those that were signed.
const schema = `
CREATE TABLE projects (
	id INTEGER PRIMARY KEY,
	workspace TEXT NOT NULL,
	project TEXT NOT NULL,
	size INTEGER NOT NULL DEFAULT 0,
	tree_size INTEGER NOT NULL DEFAULT 0,
	UNIQUE (workspace, project)
);
CREATE TABLE records (
	id INTEGER PRIMARY KEY,
	project INTEGER NOT NULL,
	idx INTEGER NOT NULL,
	run BLOB NOT NULL,
	sequence INTEGER NOT NULL,
	hash BLOB NOT NULL,
	received_ns INTEGER NOT NULL,
	fork INTEGER NOT NULL,
	record BLOB NOT NULL,
	signature BLOB NOT NULL,
	payload BLOB,
	UNIQUE (project, idx)
);
CREATE INDEX records_by_run ON records (run, sequence, idx);
CREATE INDEX records_forked ON records (project, idx) WHERE fork = 1;
CREATE TABLE runs (
	run BLOB PRIMARY KEY,
	project INTEGER NOT NULL,
	idx INTEGER NOT NULL,
	role TEXT NOT NULL,
	netuid INTEGER NOT NULL,
	hotkey BLOB NOT NULL,
	records INTEGER NOT NULL,
	forks INTEGER NOT NULL,
	payload_bytes INTEGER NOT NULL,
	kept_from INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX runs_by_project ON runs (project, idx);
CREATE INDEX runs_by_hotkey ON runs (project, hotkey);
CREATE TABLE nodes (
	project INTEGER NOT NULL,
	level INTEGER NOT NULL,
	idx INTEGER NOT NULL,
	hash BLOB NOT NULL,
	PRIMARY KEY (project, level, idx)
) WITHOUT ROWID;
CREATE TABLE heads (
	project INTEGER NOT NULL,
	size INTEGER NOT NULL,
	root BLOB NOT NULL,
	time_ms INTEGER NOT NULL,
	signature BLOB NOT NULL,
	PRIMARY KEY (project, size)
) WITHOUT ROWID;
CREATE TABLE cosignatures (
	project INTEGER NOT NULL,
	size INTEGER NOT NULL,
	hotkey BLOB NOT NULL,
	signature BLOB NOT NULL,
	PRIMARY KEY (project, size, hotkey)
) WITHOUT ROWID;
`

// mirroredFrom marks a file that has a mirror; one of before has the same tables.
const mirroredFrom = `PRAGMA user_version = 2`

func migrate(ctx context.Context, db *sql.DB) error {
	var have int
	if err := db.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&have); err != nil {
		return err
	}
	switch {
	case have > version:
		return errNewer(have)
	case have == version:
		return nil
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if have == 0 {
		if _, err := tx.ExecContext(ctx, schema); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, mirroredFrom); err != nil {
		return err
	}
	return tx.Commit()
}

func errNewer(have int) error {
	return model.Errorf(model.CodeConflict, "the state records have version %d, this program knows %d", have, version).
		WithHint("Start the version of kymogram that wrote this data folder, or a newer one.")
}
