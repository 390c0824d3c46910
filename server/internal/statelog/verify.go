package statelog

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
)

// Inventory is what a file of records holds and what of it is damaged.
type Inventory struct {
	Bytes   int64    `json:"bytes"`
	Runs    int64    `json:"runs"`
	Records int64    `json:"records"`
	Forks   int64    `json:"forks"` // kept as evidence
	Damage  []string `json:"damage"`
	more    int      // faults that are not named
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
	before := *i
	err = looking(path, func(db *sql.DB) error {
		*i = before
		return i.read(ctx, db, whole, done)
	})
	if err != nil {
		i.add("state records: %v", err)
	}
	if i.more > 0 {
		i.Damage = append(i.Damage, fmt.Sprintf("state records: %d more faults", i.more))
	}
	return i, ctx.Err()
}

func (i *Inventory) read(ctx context.Context, db *sql.DB, whole bool, done func(bytes int64)) error {
	err := i.count(ctx, db)
	if err == nil && whole {
		err = i.verify(ctx, db, done)
	}
	return err
}

func (i *Inventory) count(ctx context.Context, q querier) error {
	return q.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM records), (SELECT count(*) FROM records WHERE fork = 1)`).Scan(&i.Runs, &i.Records, &i.Forks)
}

// Verify recomputes all that follows from the records, wherever they lie, while nobody writes.
func (l *Log) Verify(ctx context.Context) (*Inventory, error) {
	i := &Inventory{Damage: []string{}}
	err := i.count(ctx, l.base)
	if err == nil {
		err = i.histories(ctx, l.base, func(int64) {})
	}
	if err == nil {
		err = i.trees(ctx, l.base)
	}
	return i, l.failure("verify the records", err)
}

func (i *Inventory) add(format string, args ...any) {
	if len(i.Damage) == maxDamage {
		i.more++
		return
	}
	i.Damage = append(i.Damage, fmt.Sprintf(format, args...))
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

// verify recomputes all that follows from the records, as of one moment.
func (i *Inventory) verify(ctx context.Context, db *sql.DB, done func(int64)) error {
	var fault string
	if err := db.QueryRowContext(ctx, `PRAGMA integrity_check(1)`).Scan(&fault); err != nil {
		return err
	}
	if fault != "ok" {
		i.add("state records: %s", fault)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := i.histories(ctx, tx, done); err != nil {
		return err
	}
	return i.trees(ctx, tx)
}
