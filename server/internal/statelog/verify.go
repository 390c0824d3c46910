package statelog

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"

	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/server/internal/transparency"
)

// Inventory is what a file of records holds and what of it is damaged.
type Inventory struct {
	Bytes   int64    `json:"bytes"`
	Runs    int64    `json:"runs"`
	Records int64    `json:"records"`
	Forks   int64    `json:"forks"` // kept as evidence
	Damage  []string `json:"damage"`
}

// maxDamage is how many faults an inventory names.
const maxDamage = 1_000

// Inspect counts the records of a file that a server may be using. With whole set
// every signature, hash and link is checked, so that damage by the disk and
// changes by a person are found alike. There may be no file.
func Inspect(ctx context.Context, path string, whole bool, done func(bytes int64)) (*Inventory, error) {
	i := &Inventory{Damage: []string{}}
	if whole {
		if err := i.compare(ctx, path); err != nil {
			return nil, err
		}
	}
	info, err := os.Stat(path)
	if os.IsNotExist(err) {
		return i, nil
	}
	if err != nil {
		return nil, fmt.Errorf("inspect the state records: %w", err)
	}
	i.Bytes = info.Size()
	db, err := connect(path, looking)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM records), (SELECT count(*) FROM records WHERE fork = 1)`).Scan(&i.Runs, &i.Records, &i.Forks)
	if err == nil && whole {
		err = i.verify(ctx, db, done)
	}
	if err != nil {
		i.add("state records: %v", err)
	}
	return i, ctx.Err()
}

func (i *Inventory) add(format string, args ...any) {
	if len(i.Damage) < maxDamage {
		i.Damage = append(i.Damage, fmt.Sprintf(format, args...))
	}
}

// compare names where the file and its mirror disagree. It leaves out the one change
// that a crash may have cost the file, and what a server writes meanwhile.
func (i *Inventory) compare(ctx context.Context, path string) error {
	h, err := heal(ctx, path, true, slog.New(slog.DiscardHandler))
	if err != nil {
		i.add("state records: %v", err)
		return ctx.Err()
	}
	if h.Rebuilt != "" {
		i.add("state records: %s; the next start and `kymogram data repair` make them anew from their mirror", h.Rebuilt)
	}
	if h.CaughtUp > 1 {
		i.add("state records: %d changes are missing; the next start and `kymogram data repair` take them from their mirror", h.CaughtUp)
	}
	for _, text := range h.Lost {
		i.add("mirror of the state records: %s", text)
	}
	if h.Renewed != "" && len(h.Lost) == 0 {
		i.add("mirror of the state records: %s; the next start and `kymogram data repair` make it anew", h.Renewed)
	}
	return nil
}

func (i *Inventory) verify(ctx context.Context, db *sql.DB, done func(int64)) error {
	var fault string
	if err := db.QueryRowContext(ctx, `PRAGMA integrity_check(1)`).Scan(&fault); err != nil {
		return err
	}
	if fault != "ok" {
		i.add("state records: %s", fault)
	}
	if err := i.counts(ctx, db); err != nil {
		return err
	}
	if err := i.links(ctx, db, done); err != nil {
		return err
	}
	return i.leaves(ctx, db)
}

// counts finds records that are gone: the newest of a run, or any of a project.
func (i *Inventory) counts(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, `SELECT 'the newest record of run ' || hex(u.run) || ' is missing' FROM runs u
		LEFT JOIN records r ON r.project = u.project AND r.idx = u.idx AND r.run = u.run WHERE r.id IS NULL
		UNION ALL SELECT 'project ' || workspace || '/' || project || ' has ' || n || ' records of ' || size FROM
		(SELECT p.workspace, p.project, p.size, (SELECT count(*) FROM records r WHERE r.project = p.id) AS n FROM projects p) WHERE n <> size`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var fault string
		if err := rows.Scan(&fault); err != nil {
			return err
		}
		i.add("state records: %s", fault)
	}
	return rows.Err()
}

// links checks every record and that each follows the one before. Rows that
// cannot be read are named and passed.
func (i *Inventory) links(ctx context.Context, db *sql.DB, done func(int64)) error {
	rows, err := db.QueryContext(ctx, `SELECT `+columns+` FROM records ORDER BY run, fork, sequence`)
	if err != nil {
		return err
	}
	defer rows.Close()
	var before *state.Entry
	for rows.Next() {
		e, err := read(rows)
		if err != nil {
			i.add("%v", err)
			before = nil
			continue
		}
		if e.Fork { // evidence follows anything
			before = nil
		}
		if fault := check(e, before); fault != nil {
			i.add("state record %d of run %s: %v", e.Index, e.Run, fault)
		}
		before = e
		done(int64(len(e.Record) + len(e.Payload)))
	}
	return rows.Err()
}

// check verifies one record and its link to the one before, nil for none known.
func check(e, before *state.Entry) error {
	record, err := e.Authentic()
	switch {
	case err != nil:
		return err
	case e.Digest != e.Envelope.Hash():
		return fmt.Errorf("its hash is not %s", e.Digest)
	case record.Sequence != e.Sequence:
		return fmt.Errorf("it is kept under sequence %d and signed as %d", e.Sequence, record.Sequence)
	case before != nil && before.RunID == e.RunID && record.Previous != before.Digest:
		return fmt.Errorf("it does not follow record %d", before.Index)
	}
	return nil
}

// leaves checks that the tree has the records as its leaves.
func (i *Inventory) leaves(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, `SELECT r.idx, r.record, n.hash FROM nodes n LEFT JOIN records r ON r.project = n.project AND r.idx = n.idx WHERE n.level = 0`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var index sql.NullInt64
		var record, hash []byte
		if err := rows.Scan(&index, &record, &hash); err != nil {
			return err
		}
		if !bytes.Equal(transparency.Leaf(record), hash) {
			i.add("state record %d is not the leaf of the Merkle log that it was", index.Int64)
		}
	}
	return rows.Err()
}
