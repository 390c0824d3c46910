package data

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/data/points"
	"github.com/kymogram/kymogram/server/internal/progress"
	"github.com/kymogram/kymogram/server/internal/psql"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/cluster"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/ledger"
	"github.com/kymogram/kymogram/server/internal/store/local"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
	"github.com/kymogram/kymogram/server/internal/table"
)

// Points move into a shared store in steps, each durable before the next. At most one of folder
// and store is served after each of them: servers refuse a store whose ledger says that it moves.
//
//	                                    the folder has            the store
//	to a store  1 it is reserved        store/VERSION             moves
//	            2 runs are copied       store/VERSION             moves; often, while the folder is served
//	            3 the catalog moves     store/VERSION             moves; see migrate.go
//	            4 the place is noted    both                      moves: neither is served
//	            5 signed records move   both                      moves
//	            6 store/ goes aside     store.elsewhere           moves
//	            7 it is released        store.elsewhere           is served
//	back        1 it is reserved        store.elsewhere           moves
//	            2 runs are copied       both                      moves: neither is served
//	            3 the catalog moves     both                      moves; signed records, too
//	            4 the note goes         store/VERSION             moves, for ever
//
// Whoever is killed in between does the same again.

// Why servers refuse a store.
const (
	movingOut  = "are on their way from a data folder"
	movingBack = "are on their way into a data folder"
	movedBack  = "were moved back into a data folder"
)

// Move says what is to move: the points, and the catalog with them.
type Move struct {
	Migration
	// Store is the address of ClickHouse, Password that of an address that has none. The ledger
	// is in the catalog's database.
	Store, Password string
	// Blob is a bucket for files; empty leaves them in the folder.
	Blob string
	// Secret is that of the folder, which it makes where there is none.
	Secret func() ([]byte, error)
	// Owners derives from a secret what a store calls itself.
	Owners func(secret []byte) (Owners, error)

	owners Owners
}

// Owners are the names of a store: of its points, and of whose its catalog and bucket are.
type Owners struct {
	Points          []byte
	Catalog, Bucket string
}

// Moved is what a move of points came to.
type Moved struct {
	Data    string        `json:"data"`
	Store   string        `json:"store"`
	Back    bool          `json:"back"`
	Final   bool          `json:"final"`   // false: a server of the folder goes on, and so will another move
	Already bool          `json:"already"` // all of it was there
	Copied  points.Copied `json:"copied"`
	Catalog *Migrated     `json:"catalog,omitempty"`
	Files   *Files        `json:"files,omitempty"`
	Records *Records      `json:"records,omitempty"`
	Aside   string        `json:"aside,omitempty"` // the folder's old points
	Seconds float64       `json:"seconds"`
	next    string
}

// Move moves the points and the catalog of a folder into a store, or back. Beside a server of the
// folder it copies what there is, and a later move copies the rest.
func (f Folder) Move(ctx context.Context, m Move) (*Moved, error) {
	began := time.Now()
	out := &Moved{Data: string(f), Store: cluster.Named(m.Store), Back: m.Back}
	move := f.pointsOut
	if m.Back {
		move = f.pointsBack
	}
	if err := move(ctx, &m, out); err != nil {
		return nil, Explain(string(f), err)
	}
	out.Seconds = time.Since(began).Seconds()
	return out, nil
}

// pointsAt says whether the folder has points, and whether it names a store that has them.
func (f Folder) pointsAt() (own, noted bool, err error) {
	if own, err = exists(filepath.Join(f.Store(), "VERSION")); err == nil {
		noted, err = exists(f.storeElsewhere())
	}
	return own, noted, err
}

// mover opens the store for a move. Secret is nil for that of the store.
func (m *Move) mover(ctx context.Context, secret []byte) (*clickhouse.Engine, error) {
	e, err := clickhouse.OpenMover(ctx, clickhouse.Config{Points: m.Store, Password: m.Password, Ledger: m.Catalog, Node: "move", Logger: m.Log}, secret)
	if err != nil {
		return nil, err
	}
	if err := m.settle(ctx, e, secret); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// settle checks whose store it is, and that no server uses it.
func (m *Move) settle(ctx context.Context, e *clickhouse.Engine, secret []byte) error {
	if secret != nil && !bytes.Equal(secret, e.Secret()) {
		return model.Errorf(model.CodeConflict, "%s has the store of another data folder", psql.Named(m.Catalog)).
			WithHint("Look at both addresses, or name empty databases. A folder and the store that its points move into have one secret, blob.key.")
	}
	var err error
	if m.owners, err = m.Owners(e.Secret()); err != nil {
		return err
	}
	m.owner = m.owners.Catalog
	if err := e.Claim(ctx, m.owners.Points); err != nil {
		return err
	}
	n, err := e.Ledger().Others(ctx)
	if err == nil && n > 0 {
		err = model.Errorf(model.CodeConflict, "%d servers use the store %s", n, cluster.Named(m.Store)).WithHint("Stop the servers of the store, and run this again.")
	}
	return err
}

// pointsOut moves into a store.
func (f Folder) pointsOut(ctx context.Context, m *Move, out *Moved) (err error) {
	own, noted, err := f.pointsAt()
	if err == nil && !own && !noted {
		err = model.Errorf(model.CodeNotFound, "%s is no data folder of a server: it has no points", string(f)).
			WithHint("Give the folder that `kymogram serve --data` uses. A new store needs no move: `kymogram serve --store` makes it.")
	}
	if err == nil {
		err = os.MkdirAll(f.Store(), 0o700) // it went aside
	}
	if err != nil {
		return err
	}
	lock, err := f.Lock()
	out.Final = !errors.Is(err, wal.ErrLocked)
	if err != nil && out.Final {
		return err
	}
	if out.Final {
		defer lock.Close()
		if err := f.Live(m.Log); err != nil {
			return err
		}
	}
	secret, err := m.Secret()
	if err != nil {
		return err
	}
	to, err := m.mover(ctx, secret)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, to.Ledger().Leave(context.WithoutCancel(ctx)), to.Close())
	}()
	out.next = fmt.Sprintf("kymogram serve --data %s --store clickhouse://… --catalog postgres://…", string(f))
	if out.Already = !own; out.Already {
		return to.Ledger().SetMoving(ctx, "")
	}
	err = f.copyPoints(ctx, m, to, out)
	if err == nil && m.Blob != "" {
		err = f.copyFiles(ctx, m, out)
	}
	if err != nil || !out.Final {
		out.next = "stop the server of this folder, and run the same command again: it copies what is new by then"
		return err
	}
	return f.handOver(ctx, m, to, out)
}

// copyPoints copies what is new.
func (f Folder) copyPoints(ctx context.Context, m *Move, to *clickhouse.Engine, out *Moved) error {
	why, err := to.Ledger().Moving(ctx)
	if err != nil {
		return err
	}
	if runs, _, _, err := to.Ledger().Count(ctx); err != nil || why == "" && runs > 0 || why == movingBack {
		return errors.Join(err, model.Errorf(model.CodeConflict, "the store %s is in use: it has %d runs", out.Store, runs).
			WithHint("This folder has older points. Name empty databases to move it elsewhere, or serve the store with another folder."))
	}
	if err := to.Ledger().SetMoving(ctx, movingOut); err != nil {
		return err
	}
	folder, err := local.OpenFolder(ctx, wal.Looking{}, f.Store(), f.Marks())
	if err != nil {
		return err
	}
	defer folder.Close()
	from, err := folder.Moment(ctx, !out.Final)
	if err != nil {
		return err
	}
	if err := to.Ledger().Pass(ctx, from.Last()); err != nil {
		return err
	}
	total := int64(0)
	for _, id := range from.Runs() {
		total += int64(from.Head(id).Points)
	}
	bar := progress.Points(m.Shown, total)
	defer bar.End()
	if out.Copied, err = points.Out(ctx, from, to, bar.Done); err != nil || !out.Final {
		return err
	}
	var pending []ledger.Update
	for _, p := range from.Pending() {
		pending = append(pending, ledger.Update{Position: p.LSN, Run: p.Run, Writer: p.Writer, Doc: p.Doc})
	}
	out.Copied.Updates = len(pending)
	return to.Ledger().PutUpdates(ctx, pending)
}

// handOver does what comes after all points are there.
func (f Folder) handOver(ctx context.Context, m *Move, to *clickhouse.Engine, out *Moved) error {
	if err := f.catalogIs(m); err != nil {
		return err
	}
	if err := f.moveCatalog(ctx, m, out, f.moveOut); err != nil {
		return err
	}
	if err := f.SetStoreElsewhere(out.Store); err != nil {
		return err
	}
	if err := f.recordsOut(ctx, m, out); err != nil {
		return err
	}
	var err error
	if out.Files != nil {
		if out.Files.Aside, err = f.setFilesAside(); err != nil {
			return err
		}
	}
	if out.Aside, err = f.setStoreAside(); err != nil {
		return err
	}
	return to.Ledger().SetMoving(ctx, "")
}

// catalogIs fails where the catalog is in another database than the points' ledger.
func (f Folder) catalogIs(m *Move) error {
	place, err := os.ReadFile(f.elsewhere())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if is := strings.TrimSpace(string(place)); err == nil && is != psql.Named(m.Catalog) {
		err = model.Errorf(model.CodeConflict, "the catalog of %s is in %s, not in %s", string(f), is, psql.Named(m.Catalog)).
			WithHint("Name that database with --catalog: the decisions about points lie there, too.")
	}
	return err
}

func (f Folder) moveCatalog(ctx context.Context, m *Move, out *Moved, move func(context.Context, *Migration, *Migrated) error) error {
	out.Catalog = f.migrated(&m.Migration)
	if err := move(ctx, &m.Migration, out.Catalog); err != nil {
		return err
	}
	out.Catalog.count()
	return nil
}

// setStoreAside moves the folder's points away, and what tells that their files are all there.
func (f Folder) setStoreAside() (to string, err error) {
	to = f.Store() + ".moved-" + time.Now().UTC().Format("20060102T150405.000000000")
	if err := os.Rename(f.Store(), to); err != nil {
		return "", fmt.Errorf("set the points aside: %w", err)
	}
	for _, name := range []string{"TIP", "LIST"} {
		if err := os.Remove(filepath.Join(f.Marks(), name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("set the marks of points aside: %w", err)
		}
	}
	return to, wal.OS{}.SyncDir(string(f))
}

// pointsBack moves out of a store.
func (f Folder) pointsBack(ctx context.Context, m *Move, out *Moved) (err error) {
	out.Final, out.next = true, fmt.Sprintf("kymogram serve --data %s", string(f))
	if err := errors.Join(Claim(string(f)), os.MkdirAll(f.Store(), 0o700)); err != nil {
		return err
	}
	own, noted, err := f.pointsAt()
	if err != nil {
		return err
	}
	from, err := m.mover(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, from.Ledger().Leave(context.WithoutCancel(ctx)), from.Close())
	}()
	secret, err := m.Secret()
	if err == nil && !bytes.Equal(secret, from.Secret()) {
		err = f.takeSecret(own, from.Secret())
	}
	if err != nil {
		return err
	}
	why, err := from.Ledger().Moving(ctx)
	switch {
	case err != nil:
		return err
	case own && !noted && why == movedBack:
		out.Already = true
		return nil
	case why == "" && !known(ctx, from):
		return model.Errorf(model.CodeNotFound, "the store %s has no runs", out.Store).WithHint("Look at both addresses.")
	case own && !noted:
		return model.Errorf(model.CodeConflict, "%s has points of its own", string(f)).WithHint("Name a new folder with --data: it is made.")
	case why == movingOut:
		return model.Errorf(model.CodeConflict, "the points of %s %s", out.Store, why).WithHint("Finish that move first. Until then the folder that they come from has all of them.")
	}
	return f.takeBack(ctx, m, from, out)
}

func known(ctx context.Context, store *clickhouse.Engine) bool {
	runs, _, _, err := store.Ledger().Count(ctx)
	return err != nil || runs > 0
}

// takeSecret gives the folder the secret of the store: signed addresses of files hold, and the
// catalog is the folder's.
func (f Folder) takeSecret(own bool, secret []byte) error {
	if own {
		return model.Errorf(model.CodeConflict, "%s is the folder of another store", string(f)).WithHint("Name a new folder with --data: it is made.")
	}
	return replace(filepath.Join(string(f), BlobKeyFile), secret)
}

// takeBack fills the folder, and gives the store up.
func (f Folder) takeBack(ctx context.Context, m *Move, from *clickhouse.Engine, out *Moved) error {
	if err := f.SetStoreElsewhere(out.Store); err != nil {
		return err
	}
	if err := from.Ledger().SetMoving(ctx, movingBack); err != nil {
		return err
	}
	if err := f.fill(ctx, m, from, out); err != nil {
		return err
	}
	if file, _, err := f.whereabouts(); err != nil {
		return err
	} else if !file {
		if err := f.SetElsewhere(psql.Named(m.Catalog)); err != nil {
			return err
		}
	}
	if err := f.moveCatalog(ctx, m, out, f.moveIn); err != nil {
		return err
	}
	if err := f.recordsBack(ctx, m, out); err != nil {
		return err
	}
	if err := from.Ledger().SetMoving(ctx, movedBack); err != nil {
		return err
	}
	if err := os.Remove(f.storeElsewhere()); err != nil {
		return err
	}
	return wal.OS{}.SyncDir(string(f))
}

// fillBytes is how much the folder's engine holds while it is filled.
const fillBytes = 64 << 20

// fill copies all runs into the folder's engine, and compares what then is in its files.
func (f Folder) fill(ctx context.Context, m *Move, from *clickhouse.Engine, out *Moved) error {
	position, err := from.Ledger().LastPosition(ctx)
	if err == nil {
		err = local.Reserve(f.Store(), position)
	}
	if err != nil {
		return err
	}
	_, _, total, err := from.Ledger().Count(ctx)
	if err != nil {
		return err
	}
	bar := progress.Points(m.Shown, 2*int64(total)) // copied, and compared
	defer bar.End()
	to, err := local.Open(ctx, local.Config{Dir: f.Store(), Marks: f.Marks(), SeriesPerRunLimit: 1 << 30, MemoryBytes: fillBytes, Logger: m.Log})
	if err != nil {
		return err
	}
	err = working(ctx, to, func(ctx context.Context) (err error) {
		if out.Copied, err = points.Back(ctx, from, to, bar.Done); err != nil {
			return err
		}
		out.Copied.Updates, err = takeUpdates(ctx, from, to)
		return err
	})
	if err = errors.Join(err, to.Close()); err != nil {
		return err
	}
	folder, err := local.OpenFolder(ctx, wal.Looking{}, f.Store(), f.Marks())
	if err != nil {
		return err
	}
	defer folder.Close()
	filled, err := folder.Moment(ctx, false)
	if err != nil {
		return err
	}
	return points.Compare(ctx, filled, from, bar.Done)
}

// working does something while an engine does its background work.
func working(ctx context.Context, e *local.Engine, do func(context.Context) error) error {
	group, working := errgroup.WithContext(ctx)
	background, stop := context.WithCancel(working)
	group.Go(func() error { return e.Run(background) })
	group.Go(func() error {
		defer stop()
		return do(working)
	})
	return group.Wait()
}

// takeUpdates takes updates that the catalog may not have.
func takeUpdates(ctx context.Context, from *clickhouse.Engine, to *local.Engine) (int, error) {
	list, err := from.Ledger().Updates(ctx)
	if err != nil {
		return 0, err
	}
	var last uint64
	var positions []uint64
	for _, u := range list {
		rec := &record.Batch{Run: u.Run, Writer: u.Writer, Doc: u.Doc}
		run, _ := to.Head(u.Run)
		for _, w := range run.Writers {
			if w.ID == u.Writer {
				rec.Attempt = w.Attempt
			}
		}
		if last, err = to.Take(ctx, rec); err != nil {
			return 0, err
		}
		positions = append(positions, u.Position)
	}
	if err := to.Settle(ctx, last); err != nil {
		return 0, err
	}
	return len(list), from.Ledger().Forget(ctx, positions)
}

// Print writes it for a person.
func (m *Moved) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, table.Printable(fmt.Sprintf(format, args...)))
	}
	switch {
	case m.Already:
		line("points", "they are at the new place already")
	default:
		line("copied", "%d points of %d runs in %.1f s; each series was added up on both sides and compared", m.Copied.Points, m.Copied.Changed, m.Seconds)
		line("runs", "%d, of which %d had nothing new", m.Copied.Runs, m.Copied.Runs-m.Copied.Changed)
		line("store", "%s", m.Store)
	}
	if m.Catalog != nil && !m.Catalog.Already {
		line("catalog", "%d rows of %d tables, each read again and compared", m.Catalog.Rows, len(m.Catalog.Tables))
	}
	if m.Records != nil && m.Records.Records > 0 {
		line("signed records", "%d, each read again and compared", m.Records.Records)
	}
	if m.Files != nil {
		line("files", "%d, %s, are in the bucket", m.Files.Files, table.Bytes(m.Files.Bytes))
	}
	if !m.Final {
		line("not done", "the server of this folder goes on, and may have new points by now")
	}
	if m.Aside != "" {
		line("kept", "the old points in %s; delete them when all is well", m.Aside)
	}
	line("next", "%s", m.next)
	return w.Flush()
}
