// Package postgres is the catalog in a PostgreSQL database, which several servers may share.
//
// The rules and queries are those of package tables. Every write is a serializable transaction,
// done again where it met another's; so servers need not know of one another. PostgreSQL makes
// a write durable, repairs itself and is copied with its own tools: there is no mirror.
//
// Start reading in write.go (transactions). listen.go tells servers of one another, package psql turns the queries of package tables into
// PostgreSQL's, conn.go does it on each connection, key.go has what attributes sort by.
package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/queue"
	"github.com/kymogram/kymogram/server/internal/catalog/tables"
	"github.com/kymogram/kymogram/server/internal/psql"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

const (
	// writers is how many transactions a server writes at once: that of those who wait, and one of
	// a move.
	writers = 2
	// defaultCache is how many bytes of texts are kept.
	defaultCache = 40 << 20
)

// DB is a catalog in a database. It implements [catalog.Catalog].
type DB struct {
	*tables.DB

	log    *slog.Logger
	config *pgx.ConnConfig
	writer *sql.DB
	writes *queue.Queue
	reader *tables.Reads
	self   string // this server, to others
	outbox *outbox
	counts counts
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
	config, err := psql.Parse(place)
	if err != nil {
		return nil, err
	}
	psql.Settle(config)
	d := &DB{log: o.Logger, config: config, self: newSelf(), outbox: newOutbox()}
	d.writes = queue.New(d.commit, func(context.Context) {})
	if err := psql.Migrate(ctx, config, migrationFiles, goose.DefaultTablename); err != nil {
		return nil, d.Failure("open the catalog", err)
	}
	connect := connector{stdlib.GetConnector(*config, stdlib.OptionAfterConnect(prepare)), &psql.Words{}}
	d.writer = pool(connect, writers)
	d.reader = tables.NewReads(pool(connect, tables.ReadConnections))
	d.DB = tables.New(d, tables.Options{Reader: d.reader, Cache: o.Cache, Key: decodeKey, Number: decodeNumber, Sorts: true, Shown: `substr(r.display_name, 1, 256)`})
	if o.Owner != "" {
		if err := d.Claim(ctx, o, psql.Named(place)); err != nil {
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
