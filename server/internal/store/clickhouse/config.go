package clickhouse

import (
	"log/slog"
	"time"
)

// Config is what a user sets. The zero value of all but the two addresses and Node works.
type Config struct {
	// Points is the address of ClickHouse, see [cluster.Options]. The database exists; the tables
	// are made.
	Points string
	// Ledger is the address of a PostgreSQL database, which may be the catalog's.
	Ledger string
	// Password is that of an address that has none.
	Password string
	// Log is the address of a log that takes points while ClickHouse is away, see
	// [journal.Check]; empty for none.
	Log string
	// Node names the data folder of this server.
	Node string
	// SeriesPerRunLimit refuses records that would make more series; 1,000,000.
	SeriesPerRunLimit int
	// Every is the least time between two inserts, unless GroupPoints wait; 200 ms. ClickHouse
	// merges few large inserts well, and many small ones badly.
	Every       time.Duration
	GroupPoints int // 10,000
	// Hold is how long a server keeps a run for itself that another one wants to write to; 1 s.
	Hold time.Duration
	// Patience is how long a write is tried again that a server did not take; 20 s.
	Patience time.Duration

	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.SeriesPerRunLimit = orDefault(c.SeriesPerRunLimit, 1_000_000)
	c.Every = orDefault(c.Every, 200*time.Millisecond)
	c.GroupPoints = orDefault(c.GroupPoints, 10_000)
	c.Hold = orDefault(c.Hold, time.Second)
	c.Patience = orDefault(c.Patience, 20*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
