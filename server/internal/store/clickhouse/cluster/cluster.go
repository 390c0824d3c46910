// Package cluster is the servers of ClickHouse that points lie on: one, or shards of replicas.
//
// In go rows of a shard ([Cluster.Insert]); out come readers that see all of a run's rows that
// count ([Cluster.Reader]).
//
// Invariants:
//   - All rows of a run are on one shard, which the ledger names. Each server is asked itself, and
//     only its own table: nothing depends on which replica another server would choose.
//   - A replica is read when it has as many rows of the run as the ledger says, and not before.
//     How far it lags, whether it lost parts, and what its settings are does not matter.
//   - An insert is answered when another replica of the shard shows its rows, too, see copies.go.
//
// Start with [Open], then [Cluster.Reader] in read.go.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/curve"
)

// Options are how code opens a cluster.
type Options struct {
	// Address is clickhouse://USER:PASSWORD@HOST:9000/DATABASE. With ?cluster=NAME it is that of
	// some servers of the cluster with this name, else of one server. &copies=N is how many
	// replicas have rows before an insert is answered.
	Address string
	// Password is that of an address that has none.
	Password string
	// Node is the name of this server of Kymogram: each prefers another replica for inserts.
	Node        string
	Connections int
	Logger      *slog.Logger
}

// Cluster is safe for parallel use.
type Cluster struct {
	place
	log    *slog.Logger
	node   string
	shards [][]*replica
	single atomic.Bool // inserts are answered with one copy
	counts counts
}

// Names of the tables. On one server there is the first alone, with the rows; in a cluster it is
// a view of all shards for people, and the rows are in the second of each server.
const (
	table      = "points"
	localTable = "points_local"
)

// Open connects to the servers, and makes the tables that are missing.
func Open(ctx context.Context, o Options) (*Cluster, error) {
	c, err := locate(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := c.prepare(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// locate finds the servers of an address.
func locate(ctx context.Context, o Options) (*Cluster, error) {
	at, err := parse(o.Address)
	if err != nil {
		return nil, err
	}
	at.options.Auth.Password = cmp.Or(at.options.Auth.Password, o.Password)
	at.options.MaxOpenConns, at.options.MaxIdleConns = o.Connections, o.Connections
	at.options.DialTimeout = 5 * time.Second
	at.options.Settings["max_query_size"] = curve.StatementBytes
	c := &Cluster{place: *at, log: o.Logger, node: o.Node}
	if err := c.find(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// find learns which servers there are, and of which version.
func (c *Cluster) find(ctx context.Context) error {
	seed, err := clickhouse.Open(&c.options)
	if err != nil {
		return unreachable(err)
	}
	defer seed.Close()
	version, err := seed.ServerVersion()
	if err != nil {
		return unreachable(err)
	}
	if c.current = version.Version.Major >= currentSince; c.current {
		c.options.Settings["async_insert"] = 0 // its servers may answer before rows are stored
	}
	if c.name == "" {
		return c.add(1, c.options.Addr[0])
	}
	rows, err := seed.Query(ctx, "SELECT shard_num, host_name, port FROM system.clusters WHERE cluster = "+text(c.name)+" ORDER BY shard_num, replica_num")
	if err != nil {
		return unreachable(err)
	}
	defer rows.Close()
	for rows.Next() {
		var shard uint32
		var host string
		var port uint16
		if err := rows.Scan(&shard, &host, &port); err != nil {
			return unreachable(err)
		}
		if err := c.add(shard, address(host, port)); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return unreachable(err)
	}
	return c.check()
}

// currentSince is the first major version whose forms of tables are used, see [curve.Form].
const currentSince = 23

// add notes a replica. Shards come by their number.
func (c *Cluster) add(shard uint32, at string) error {
	options := c.options
	options.Addr = []string{at}
	conn, err := clickhouse.Open(&options) // it does not connect yet
	if err != nil {
		return unreachable(err)
	}
	for uint32(len(c.shards)) < shard {
		c.shards = append(c.shards, nil)
	}
	c.shards[shard-1] = append(c.shards[shard-1], &replica{address: at, conn: conn})
	return nil
}

func (c *Cluster) check() error {
	if len(c.shards) == 0 {
		return model.Errorf(model.CodeInvalid, "the ClickHouse server knows no cluster %s", c.name).
			WithHint("SELECT DISTINCT cluster FROM system.clusters lists the names that it knows.")
	}
	for i, s := range c.shards {
		if c.copies > len(s) {
			return model.Errorf(model.CodeInvalid, "copies=%d is more than the %d replicas of shard %d", c.copies, len(s), i+1)
		}
	}
	return nil
}

// Shards is how many there are.
func (c *Cluster) Shards() int { return len(c.shards) }

// Close closes the connections.
func (c *Cluster) Close() error {
	var all []error
	for r := range c.replicas() {
		all = append(all, r.conn.Close())
	}
	return errors.Join(all...)
}

// replicas are those of all shards.
func (c *Cluster) replicas() func(func(*replica) bool) {
	return func(yield func(*replica) bool) {
		for _, s := range c.shards {
			for _, r := range s {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// shard finds one by its number.
func (c *Cluster) shard(number uint32) ([]*replica, error) {
	if number < 1 || int(number) > len(c.shards) {
		return nil, model.Errorf(model.CodeUnavailable, "points lie on shard %d, and ClickHouse has %d", number, len(c.shards)).
			WithHint("Add shards at the end of remote_servers, and keep those that are there.")
	}
	return c.shards[number-1], nil
}

// Wrap puts something between the cluster and its servers.
func (c *Cluster) Wrap(wrap func(driver.Conn) driver.Conn) {
	for r := range c.replicas() {
		r.conn = wrap(r.conn)
	}
}

func text(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}
