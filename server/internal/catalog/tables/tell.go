package tables

import "github.com/kymogram/kymogram/internal/model"

// Telling is a transaction of a database that several servers share. Once it is committed, and
// only then, it tells the others of what they may keep and act on.
type Telling interface {
	// TellKey says that a key was stored or revoked.
	TellKey(id string) error
	// TellRun says that a run went into the trash, came out of it or was purged.
	TellRun(run model.RunID) error
}

func tellKey(tx Tx, id string) error {
	if t, ok := tx.(Telling); ok {
		return t.TellKey(id)
	}
	return nil
}

func tellRun(tx Tx, run model.RunID) error {
	if t, ok := tx.(Telling); ok {
		return t.TellRun(run)
	}
	return nil
}

// Moved says that runs were deleted, restored or purged, here or by another server.
func (d *DB) Moved() { d.deletions.Add(1) }
