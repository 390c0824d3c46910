package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/catalog/postgres"
	"github.com/kymogram/kymogram/server/internal/catalog/sqlite"
	"github.com/kymogram/kymogram/server/internal/catalog/tables"
	"github.com/kymogram/kymogram/server/internal/progress"
	"github.com/kymogram/kymogram/server/internal/psql"
	"github.com/kymogram/kymogram/server/internal/table"
)

// A catalog moves in steps, each durable before the next. After each of them at most one of
// folder and database is served, by what the two files say (see elsewhere.go):
//
//	                                        the folder has        the database has
//	to a database  1 all rows are copied    catalog.db            a copy
//	               2 the place is noted     both files            a copy
//	               3 catalog.db goes aside  catalog.elsewhere     a copy, which a server takes
//	               4 the database is taken  catalog.elsewhere     the catalog
//	back           1 all rows are copied    catalog.elsewhere     a copy, which a server takes
//	               2 catalog.db appears     both files            a copy
//	               3 the note goes          catalog.db            a copy
//
// Whoever is killed in between does the same again.

// Migration says what is to move.
type Migration struct {
	// Catalog is the address of a database.
	Catalog string
	// Back moves from there into the folder.
	Back bool
	// Owner is what a server of the folder calls itself there.
	Owner func() (string, error)
	Log   *slog.Logger
	// Shown gets the progress.
	Shown io.Writer

	owner string
}

// Migrated is what a move came to.
type Migrated struct {
	Data    string         `json:"data"`
	From    string         `json:"from"`
	To      string         `json:"to"`
	Already bool           `json:"already"` // it was there, or but for the last step
	Tables  []tables.Moved `json:"tables"`
	Rows    int64          `json:"rows"`
	Aside   string         `json:"aside,omitempty"` // the folder's old files
	Seconds float64        `json:"seconds"`
	serve   string
}

// Migrate moves the catalog of a folder that no server uses into a database, or back.
func (f Folder) Migrate(ctx context.Context, m Migration) (*Migrated, error) {
	began := time.Now()
	if err := f.StoreElsewhere(); err != nil {
		return nil, err
	}
	if file, noted, err := f.whereabouts(); err != nil || !file && !noted {
		return nil, errors.Join(err, model.Errorf(model.CodeNotFound, "%s is no data folder of a server: it has no %s", string(f), CatalogFile).
			WithHint("Give the folder that `kymogram serve --data` uses. A new folder needs no move: `kymogram serve --catalog` makes its catalog in the database."))
	}
	lock, err := f.Lock()
	if errors.Is(err, wal.ErrLocked) {
		return nil, model.Errorf(model.CodeUnavailable, "the data folder %s is in use by another process", string(f)).
			WithHint("Stop the server first; start it after the move.")
	}
	if err != nil {
		return nil, Explain(string(f), err)
	}
	defer lock.Close()
	if err := f.Live(m.Log); err != nil {
		return nil, err
	}
	if m.owner, err = m.Owner(); err != nil {
		return nil, err
	}
	out, move := f.migrated(&m), f.moveOut
	if m.Back {
		move = f.moveIn
	}
	if err := move(ctx, &m, out); err != nil {
		return nil, Explain(string(f), err)
	}
	out.count()
	out.Seconds = time.Since(began).Seconds()
	return out, nil
}

// migrated is a move that is to be made.
func (f Folder) migrated(m *Migration) *Migrated {
	place := psql.Named(m.Catalog)
	if m.Back {
		return &Migrated{Data: string(f), From: place, To: f.Catalog(), Tables: []tables.Moved{}, serve: fmt.Sprintf("kymogram serve --data %s", string(f))}
	}
	return &Migrated{Data: string(f), From: f.Catalog(), To: place, Tables: []tables.Moved{}, serve: fmt.Sprintf("kymogram serve --data %s --catalog postgres://…", string(f))}
}

// count adds up the rows of the tables.
func (m *Migrated) count() {
	for _, t := range m.Tables {
		m.Rows += t.Rows
	}
}

// moveOut moves the catalog into the database.
func (f Folder) moveOut(ctx context.Context, m *Migration, out *Migrated) (err error) {
	db, err := postgres.Open(ctx, m.Catalog, postgres.Options{Logger: m.Log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	file, _, err := f.whereabouts()
	if err != nil {
		return err
	}
	if out.Already = !file; file {
		if err := f.copyOut(ctx, m, db, out); err != nil {
			return err
		}
	}
	return db.Claim(ctx, postgres.Options{Owner: m.owner, Known: true}, psql.Named(m.Catalog))
}

// copyOut does all but the last step.
func (f Folder) copyOut(ctx context.Context, m *Migration, db *postgres.DB, out *Migrated) (err error) {
	file, err := sqlite.OpenWith(ctx, f.Catalog(), sqlite.Options{Mark: f.CatalogMark(), Logger: m.Log})
	if err != nil {
		return err
	}
	place := psql.Named(m.Catalog)
	err = file.Hold(ctx, func(from tables.Source) error {
		err := db.Arrive(ctx, m.owner, place, func(to tables.Target, all []tables.Table) (err error) {
			out.Tables, err = m.move(ctx, from, to, all)
			return err
		})
		if err == nil { // while the file is held: a command that makes a key sees it
			err = f.SetElsewhere(place)
		}
		return err
	})
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	out.Aside, err = f.setCatalogAside()
	return err
}

// move copies all rows and shows it.
func (m *Migration) move(ctx context.Context, from tables.Source, to tables.Target, all []tables.Table) ([]tables.Moved, error) {
	total := int64(0)
	for _, t := range all {
		n, err := from.Count(ctx, t)
		if err != nil {
			return nil, err
		}
		total += n
	}
	bar := progress.Count(m.Shown, 2*total, "rows") // copied, and compared
	defer bar.End()
	return tables.Move(ctx, from, to, all, bar.Done)
}

// setCatalogAside moves the catalog's files into a folder, the catalog itself as the last.
func (f Folder) setCatalogAside() (to string, err error) {
	to = filepath.Join(string(f), "catalog.moved-"+time.Now().UTC().Format("20060102T150405.000000000"))
	if err := os.MkdirAll(to, 0o700); err != nil {
		return "", err
	}
	for _, path := range []string{f.CatalogMark(), f.Catalog() + "-mirror", f.Catalog() + "-shm", f.Catalog() + "-wal", f.Catalog()} {
		err := os.Rename(path, filepath.Join(to, filepath.Base(path)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("set the catalog aside: %w", err)
		}
	}
	return to, errors.Join(wal.OS{}.SyncDir(to), wal.OS{}.SyncDir(string(f)))
}

// moveIn moves the catalog into the folder.
func (f Folder) moveIn(ctx context.Context, m *Migration, out *Migrated) (err error) {
	file, noted, err := f.whereabouts()
	if err != nil {
		return err
	}
	if out.Already = file; file && !noted {
		return f.settle(ctx)
	}
	db, err := postgres.Open(ctx, m.Catalog, postgres.Options{Logger: m.Log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if file {
		copied, err := db.Copied(ctx, m.owner)
		if err == nil && !copied {
			err = model.Errorf(model.CodeConflict, "%s has a catalog, and %s does not have its copy", string(f), psql.Named(m.Catalog)).
				WithHint("Look at the address. If a server used the database since, move catalog.db away and run this again.")
		}
		if err != nil {
			return err
		}
	} else if err := f.copyIn(ctx, m, db, out); err != nil {
		return err
	}
	if err := os.Remove(f.elsewhere()); err != nil {
		return err
	}
	return errors.Join(wal.OS{}.SyncDir(string(f)), f.settle(ctx))
}

// copyIn makes catalog.db.
func (f Folder) copyIn(ctx context.Context, m *Migration, db *postgres.DB, out *Migrated) error {
	made := f.Catalog() + ".arriving"
	defer os.Remove(made) // fails once it has its name
	err := db.Depart(ctx, m.owner, psql.Named(m.Catalog), func(from tables.Source, all []tables.Table) error {
		return sqlite.Make(ctx, made, func(to tables.Target) (err error) {
			out.Tables, err = m.move(ctx, from, to, all)
			return err
		})
	})
	if err != nil {
		return err
	}
	// A log, a mirror or a mark of an earlier catalog is of another history.
	for _, path := range []string{f.CatalogMark(), f.Catalog() + "-mirror", f.Catalog() + "-shm", f.Catalog() + "-wal"} {
		if there, err := exists(path); err != nil {
			return err
		} else if there {
			if out.Aside, err = f.setCatalogAside(); err != nil {
				return err
			}
			break
		}
	}
	if err := os.Rename(made, f.Catalog()); err != nil {
		return err
	}
	return wal.OS{}.SyncDir(string(f))
}

// settle opens the file as a server does, which makes its mirror.
func (f Folder) settle(ctx context.Context) error {
	quiet := slog.New(slog.DiscardHandler) // that the mirror is missing is no news
	file, err := sqlite.OpenWith(ctx, f.Catalog(), sqlite.Options{Mark: f.CatalogMark(), Logger: quiet})
	if err != nil {
		return err
	}
	return file.Close()
}

// Print writes it for a person.
func (m *Migrated) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, table.Printable(fmt.Sprintf(format, args...)))
	}
	if m.Already {
		line("catalog", "it is in %s already", m.To)
	} else {
		line("moved", "%d rows of %d tables in %.1f s; each table was read again and compared", m.Rows, len(m.Tables), m.Seconds)
		line("from", "%s", m.From)
		line("to", "%s", m.To)
	}
	if m.Aside != "" {
		line("kept", "the old files in %s; delete them when all is well", m.Aside)
	}
	line("next", "%s", m.serve)
	return w.Flush()
}
