package statelog

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"

	driver "modernc.org/sqlite"
	sqlitelib "modernc.org/sqlite/lib"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/platform"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/server/internal/catalog/mirror"
	"github.com/kymogram/kymogram/server/internal/catalog/still"
)

// file is the place of records in a SQLite file, with a mirror of it.
type file struct {
	*sql.DB
	path   string
	log    *slog.Logger
	health Health
	broken error // why no record can be read or taken
	// mirror has every change before the file does, and behind are those that the
	// file refused. Whoever writes may use them.
	mirror *mirror.Mirror
	behind []mirror.Row
	// mark has the number of records once more, apart from both.
	markPath string
	mark     *os.File // nil: there is none
	length   uint64   // how many records there are
}

// openFile opens or makes a file. Where that cannot be done, but the rest of a server can go
// on, it is broken: each call says why.
func openFile(ctx context.Context, path, mark string, log *slog.Logger) (*file, error) {
	f := &file{path: path, markPath: mark, log: log}
	err := f.open(ctx)
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if err = failure("open "+path, err); ctx.Err() != nil || !mendable(err) {
		return nil, err
	}
	log.Error("the state records cannot be used; everything else is served", "err", err)
	f.broken = model.Errorf(model.CodeUnavailable, "the state records cannot be used: %v", err).WithHint("run `kymogram data verify`; the server's log says what to do")
	f.DB, f.mirror = sql.OpenDB(refusing{f.broken}), nil
	return f, nil
}

func (f *file) open(ctx context.Context) error {
	health, err := heal(ctx, f.path, false, f.log)
	if err != nil {
		return err
	}
	f.health = *health
	if f.DB, err = connect(f.path, writing); err != nil {
		return err
	}
	if err := migrate(ctx, f.DB); err != nil {
		return err
	}
	if err := f.regrow(ctx); err != nil {
		return err
	}
	if f.mirror, err = mirror.Open(mirrorDir(f.path), f.log); err != nil {
		return err
	}
	return f.openMark(ctx)
}

// mendable says that an error is of what the files hold, not of the disk, of rights
// or of a newer version.
func mendable(err error) bool {
	var e *driver.Error
	if errors.As(err, &e) {
		code := e.Code() & 0xff
		return code == sqlitelib.SQLITE_CORRUPT || code == sqlitelib.SQLITE_NOTADB || code == sqlitelib.SQLITE_ERROR
	}
	var system *fs.PathError
	return model.CodeOf(err) != model.CodeConflict && model.CodeOf(err) != model.CodeDiskFull && !errors.As(err, &system)
}

// refusing is a database that answers every call with one error.
type refusing struct{ err error }

func (r refusing) Connect(context.Context) (sqldriver.Conn, error) { return nil, r.err }
func (r refusing) Driver() sqldriver.Driver                        { return nil }

// looking reads a file without changing it. What use did is to be forgotten when it is
// called again.
func looking(path string, use func(*sql.DB) error) error {
	return still.Look{VFS: still.SystemVFS()}.Read(path, use)
}

// writing is how a file is opened to be changed.
const writing = "_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"

func connect(path, how string) (*sql.DB, error) {
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + how + "&_pragma=trusted_schema(0)&_pragma=busy_timeout(5000)"
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, fmt.Errorf("open the state records %s: %w", path, err)
	}
	db.SetMaxOpenConns(8)
	return db, nil
}

// Close closes the file and its mirror.
func (f *file) Close() (err error) {
	if f.DB != nil {
		err = f.DB.Close()
	}
	if f.mirror != nil {
		err = errors.Join(err, f.mirror.Close())
	}
	if f.mark != nil {
		_ = f.mark.Close() // safe to call twice, and nothing waits to be written
	}
	return err
}

// write implements [base]. What is mirrored is durable before the file has it.
func (f *file) write(ctx context.Context, do func(tx *change) error) error {
	ctx = context.WithoutCancel(ctx)
	tx, err := f.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	c := &change{transaction: tx, mirrored: true}
	if err := f.transact(ctx, tx, c, do); err != nil {
		_ = tx.Rollback()
		return err
	}
	if c.taken > 0 {
		f.note(c.taken)
	}
	f.tidy(ctx)
	return nil
}

func (f *file) transact(ctx context.Context, tx *sql.Tx, c *change, do func(tx *change) error) error {
	for _, r := range f.behind {
		if err := load(ctx, tx, r); err != nil {
			return err
		}
	}
	if err := do(c); err != nil {
		return err
	}
	if len(c.rows) > 0 {
		if err := f.mirror.Append(ctx, f.mirror.Prepare(c.rows)); err != nil {
			return err
		}
		f.behind = append(f.behind, c.rows...)
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	f.behind = nil
	return nil
}

// tidy replaces the mirror's changes by a snapshot when that pays. It fails on a full
// disk, and then the mirror is only larger.
func (f *file) tidy(ctx context.Context) {
	if !f.mirror.Due() {
		return
	}
	h := mirror.Header{Schema: version, Position: f.mirror.Last}
	if err := f.mirror.WriteSnapshot(ctx, h, everyRow(ctx, f.DB)); err != nil {
		f.log.Warn("the mirror of the state records was not made smaller", "err", err)
	}
}

// renewable implements [base]: a damaged head looks like one of another key.
func (f *file) renewable(ctx context.Context) error {
	v, err := diagnose(ctx, f.path)
	if err == nil && (v.fault != "" || !v.agree) {
		err = errors.New("the heads that were signed are damaged: " + reason(v))
	}
	return err
}

func (*file) failure(act string, err error) error { return failure(act, err) }

// failure gives the errors that a caller can act on a code.
func failure(act string, err error) error {
	var known *model.Error
	var conflict *state.Conflict
	if err == nil || errors.As(err, &known) || errors.As(err, &conflict) {
		return err
	}
	var e *driver.Error
	if platform.IsDiskFull(err) {
		return errDiskFull(act)
	}
	if errors.As(err, &e) {
		switch e.Code() & 0xff {
		case sqlitelib.SQLITE_FULL:
			return errDiskFull(act)
		case sqlitelib.SQLITE_BUSY, sqlitelib.SQLITE_LOCKED:
			return model.Errorf(model.CodeUnavailable, "state records: %s: the file is locked by another program", act)
		}
	}
	return fmt.Errorf("state records: %s: %w", act, err)
}

func errDiskFull(act string) error {
	return model.Errorf(model.CodeDiskFull, "state records: %s: the disk is full", act).WithHint("Free space; writing goes on by itself.")
}

// Copy writes the records at from, which a server may be using, to a new file as
// they are at one moment. There may be none.
func Copy(ctx context.Context, from, to string) error {
	if _, err := os.Stat(from); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	err := looking(from, func(db *sql.DB) error {
		if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		_, err := db.ExecContext(ctx, `VACUUM INTO ?`, still.Target(to, still.SystemVFS()))
		return err
	})
	if err == nil {
		err = loadInto(ctx, to, merging(readMirror(from))) // what the file may lack
	}
	if err == nil {
		err = createMirror(ctx, to)
	}
	if err = failure("copy "+from, err); err != nil && model.CodeOf(err) == model.CodeInternal && mendable(err) {
		err = model.Errorf(model.CodeInternal, "%v", err).
			WithHint("`kymogram data verify` names the damage; the server's next start, or `kymogram data repair --yes` while it is stopped, mends the file from its mirror")
	}
	return err
}
