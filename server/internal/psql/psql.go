// Package psql is what all users of a PostgreSQL database share: addresses, what a connection
// needs, migrations, and which errors a second try may mend.
package psql

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
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
)

const (
	// connectTimeout is how long one address is tried.
	connectTimeout = 5 * time.Second
	// silence is how long a server may leave what was sent unanswered by its system.
	silence = 15 * time.Second
)

// Settle sets what every connection needs, whatever the address says.
func Settle(c *pgx.ConnConfig) {
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

// Check refuses an address that is not one of a PostgreSQL database.
func Check(place string) error {
	_, err := Parse(place)
	return err
}

// Parse reads an address, postgres://USER:PASSWORD@HOST:PORT/DATABASE. Errors do
// not repeat it: it may have a password.
func Parse(place string) (*pgx.ConnConfig, error) {
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

// Migrate brings tables up to this version, with the files of the folder migrations; a table
// named versions counts them. Of servers that start at once one does it. It fails with
// CodeConflict where a newer program has migrated the database, or where tables of the same
// names are there.
func Migrate(ctx context.Context, c *pgx.ConnConfig, migrations embed.FS, versions string) (err error) {
	db := stdlib.OpenDB(*c)
	defer func() { err = errors.Join(err, db.Close()) }()
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return fmt.Errorf("lock migrations: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithDisableGlobalRegistry(true), goose.WithSessionLocker(locker), goose.WithTableName(versions))
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
