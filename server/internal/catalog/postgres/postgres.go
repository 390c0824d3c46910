// Package postgres is the catalog in a PostgreSQL database, which several servers may share.
//
// The rules and queries are those of package tables. Every write is a serializable transaction,
// done again where it met another's; so servers need not know of one another. PostgreSQL makes
// a write durable, repairs itself and is copied with its own tools: there is no mirror.
//
// Start reading in write.go (transactions). words.go turns the queries of package tables into
// PostgreSQL's, conn.go does it on each connection, key.go has what attributes sort by.
package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/platform"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/queue"
	"github.com/kymogram/kymogram/server/internal/catalog/tables"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

const (
	// writers is how many transactions a server writes at once: that of those who wait, and one of
	// a move.
	writers = 2
	// connectTimeout is how long one address is tried.
	connectTimeout = 5 * time.Second
	// silence is how long a server may leave what was sent unanswered by its system.
	silence = 15 * time.Second
	// defaultCache is how many bytes of texts are kept.
	defaultCache = 40 << 20
)

// DB is a catalog in a database. It implements [catalog.Catalog].
type DB struct {
	*tables.DB

	log    *slog.Logger
	writer *sql.DB
	writes *queue.Queue
	reader *tables.Reads
}

var _ catalog.Catalog = (*DB)(nil)

// Options are how code opens a catalog.
type Options struct {
	Logger *slog.Logger
	// Cache is how many bytes of texts are kept; 0: 40 MiB.
	Cache int64
	// Owner is whose points the runs are of; "" for whoever asks. The first that comes stays.
	Owner string
	// Known says that the owner has runs in a database already: an empty one is refused.
	Known bool
}

// Open connects to the database of a URL, postgres://USER:PASSWORD@HOST:PORT/DATABASE, with
// what the variables of libpq add (PGPASSWORD, PGSSLROOTCERT …), and migrates it. Of several
// hosts, HOST1,HOST2, the one that takes writes is used: after a failover the standby. A
// database that a newer version of Kymogram has migrated, or that has another owner, is refused
// with CodeConflict.
func Open(ctx context.Context, place string, o Options) (*DB, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Cache == 0 {
		o.Cache = defaultCache
	}
	config, err := parse(place)
	if err != nil {
		return nil, err
	}
	settle(config)
	d := &DB{log: o.Logger}
	d.writes = queue.New(d.commit, func(context.Context) {})
	if err := migrate(ctx, config); err != nil {
		return nil, d.Failure("open the catalog", err)
	}
	connect := connector{stdlib.GetConnector(*config, stdlib.OptionAfterConnect(prepare)), &queries{kept: map[string]query{}}}
	d.writer = pool(connect, writers)
	d.reader = tables.NewReads(pool(connect, tables.ReadConnections))
	d.DB = tables.New(d, tables.Options{Reader: d.reader, Cache: o.Cache, Key: decodeKey, Number: decodeNumber, Sorts: true, Shown: `substr(r.display_name, 1, 256)`})
	if o.Owner != "" {
		if err := d.Claim(ctx, o, Named(place)); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return d, nil
}

// Claim makes the database that of an owner. A copy of the owner's catalog becomes the catalog
// where the owner knows that it is in a database.
func (d *DB) Claim(ctx context.Context, o Options, place string) error {
	return d.Write(ctx, "claim the catalog", func(tx tables.Tx) error {
		done, err := tx.ExecContext(ctx, `INSERT INTO owner (id, name) VALUES (0, ?) ON CONFLICT DO NOTHING`, o.Owner)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n > 0 && o.Known {
			return errors.Join(err, model.Errorf(model.CodeConflict, "%s has no catalog yet, and this data folder has one elsewhere", place).
				WithHint("Look at the address: its database and its search_path."))
		}
		var name string
		if err := tx.QueryRowContext(ctx, `SELECT name FROM owner`).Scan(&name); err != nil {
			return err
		}
		switch {
		case name == o.Owner:
			return nil
		case name == copyFor+o.Owner && o.Known:
			return tables.Exec(ctx, tx, `UPDATE owner SET name = ?`, o.Owner)
		case name == copyFor+o.Owner:
			return model.Errorf(model.CodeConflict, "%s has a copy of this data folder's catalog, and the folder does not say that it moved there", place).
				WithHint("Put the folder's catalog.db back and run `kymogram migrate`, or write the address into catalog.elsewhere.")
		}
		return errOfAnother(place)
	})
}

func errOfAnother(place string) error {
	return model.Errorf(model.CodeConflict, "%s is the catalog of another server's data folder", place).
		WithHint("Give each server a database or a schema of its own (?search_path=NAME). A folder that is restored from a backup is the same one.")
}

// settle sets what every connection needs, whatever the address says.
func settle(c *pgx.ConnConfig) {
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	// A server that dies without a word is left after that time, and not after minutes.
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: silence / 3, Interval: silence / 3, Count: 2}, Control: platform.GiveUpAfter(silence)}
	c.DialFunc = dialer.DialContext
	if c.ValidateConnect == nil {
		c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "kymogram"
	}
}

// session is what every connection sets. A pool between would refuse it in an address.
//   - A server that hangs holds up no other.
//   - Reads of lists end at their limit: in order, and by one process.
//   - To compile a query takes longer than such a query.
//   - A filter's runs are looked up in a table of hashes, also where they are many.
const session = `SET idle_in_transaction_session_timeout = '60s'; SET max_parallel_workers_per_gather = 0; SET jit = off; SET hash_mem_multiplier = 16`

func prepare(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, session)
	return err
}

func pool(c connector, conns int) *sql.DB {
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	db.SetConnMaxIdleTime(5 * time.Minute)
	return db
}

// Check refuses an address that is not one of a PostgreSQL database.
func Check(place string) error {
	_, err := parse(place)
	return err
}

// parse reads an address. Errors do not repeat it: it may have a password.
func parse(place string) (*pgx.ConnConfig, error) {
	if !strings.HasPrefix(place, "postgres://") && !strings.HasPrefix(place, "postgresql://") {
		return nil, errAddress()
	}
	config, err := pgx.ParseConfig(place)
	if err != nil {
		return nil, errAddress()
	}
	return config, nil
}

func errAddress() error {
	return model.Errorf(model.CodeInvalid, "what is given is no address of a PostgreSQL database").
		WithHint("Write postgres://USER@HOST:5432/DATABASE, with the password in PGPASSWORD or in ~/.pgpass.")
}

// Named is an address as it may be shown: without a password.
func Named(place string) string {
	c, err := pgconn.ParseConfig(place)
	if err != nil {
		return "postgres://…"
	}
	hosts := []string{net.JoinHostPort(c.Host, strconv.FormatUint(uint64(c.Port), 10))}
	for _, f := range c.Fallbacks {
		if h := net.JoinHostPort(f.Host, strconv.FormatUint(uint64(f.Port), 10)); h != hosts[len(hosts)-1] {
			hosts = append(hosts, h)
		}
	}
	return "postgres://" + strings.Join(hosts, ",") + "/" + c.Database
}

// migrate brings the tables up to this version. Of servers that start at once one does it.
func migrate(ctx context.Context, c *pgx.ConnConfig) (err error) {
	db := stdlib.OpenDB(*c)
	defer func() { err = errors.Join(err, db.Close()) }()
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return fmt.Errorf("lock migrations: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithDisableGlobalRegistry(true), goose.WithSessionLocker(locker))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	have, want, err := provider.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read the database's version: %w", err)
	}
	if have > want {
		return model.Errorf(model.CodeConflict, "the database has version %d, this program knows %d", have, want).
			WithHint("Start the version of kymogram that wrote this database, or a newer one.")
	}
	if _, err := provider.Up(ctx); err != nil {
		var said *pgconn.PgError
		if errors.As(err, &said) && said.Code == "42P07" { // duplicate_table
			return model.Errorf(model.CodeConflict, "the database has tables of another program: %s", said.Message).
				WithHint("Name an empty database, or a schema of its own: CREATE SCHEMA NAME, and ?search_path=NAME in the address.")
		}
		return fmt.Errorf("migrate the database: %w", err)
	}
	return nil
}

// Probe fails as any write would now.
func (d *DB) Probe(ctx context.Context) error {
	return d.Write(ctx, "write to the catalog", func(tx tables.Tx) error {
		return tables.Exec(ctx, tx, `UPDATE goose_db_version SET is_applied = is_applied WHERE id = 1`)
	})
}

// Damaged is nil: PostgreSQL says itself what is damaged.
func (d *DB) Damaged() error { return nil }

// Close closes the pools. Safe to call twice.
func (d *DB) Close() error {
	return errors.Join(d.reader.Close(), d.writer.Close())
}
