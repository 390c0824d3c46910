package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/duration"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/blob/s3"
	"github.com/kymogram/kymogram/server/internal/psql"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/cluster"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/journal"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/ledger"
)

// ClusterQuestion names what servers share, by the addresses that they are started with.
type ClusterQuestion struct {
	Store    string // of ClickHouse; empty: points are in data folders
	Password string // of ClickHouse, for an address without one
	Catalog  string // of PostgreSQL
	Log      string // of NATS; empty: there is none
	Blob     string // of a bucket; empty: files are in a data folder
}

const (
	// clusterLimit is how long each engine may take.
	clusterLimit = 20 * time.Second
	// fewParts is how many parts a table has whose merges keep up.
	fewParts = 1000
	// lateReplica is how many seconds a replica may lag before somebody should look.
	lateReplica = 60
	// busyDatabase is the share of connections, in percent, past which the next server may get none.
	busyDatabase = 80
)

// ExamineCluster looks at all engines, and changes nothing. It fails where an address is none.
func ExamineCluster(ctx context.Context, q ClusterQuestion) (*Diagnosis, error) {
	d := &Diagnosis{OK: true}
	for _, check := range []func(context.Context, ClusterQuestion) error{d.checkPoints, d.checkDatabase, d.checkLog, d.checkFiles} {
		bounded, cancel := context.WithTimeout(ctx, clusterLimit)
		err := check(bounded, q)
		cancel()
		if err != nil {
			return nil, err
		}
	}
	return d, nil
}

// checkPoints has a finding for each server of ClickHouse.
func (d *Diagnosis) checkPoints(ctx context.Context, q ClusterQuestion) error {
	if q.Store == "" {
		return nil
	}
	if err := cluster.Check(q.Store); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	list, err := cluster.Examine(ctx, cluster.Options{Address: q.Store, Password: q.Password, Connections: 1})
	if err != nil {
		d.add("points", "", err)
		return nil
	}
	for i := range list {
		s := &list[i]
		d.add("points", serverOfPoints(s), troubleOfPoints(s))
	}
	return nil
}

func serverOfPoints(s *cluster.State) string {
	parts := []string{fmt.Sprintf("%s answers in %s: ClickHouse %s, shard %d", s.Address, duration.Text(s.Took.Round(time.Millisecond)), s.Version, s.Shard)}
	if !s.Table {
		return parts[0] + "; no table of points yet"
	}
	parts = append(parts, fmt.Sprintf("parts: %d", s.Parts))
	if r := s.Replica; r != nil {
		parts = append(parts, fmt.Sprintf("%d s behind, %d in its queue", r.Late, r.Queue))
	}
	return strings.Join(parts, "; ")
}

// troubleOfPoints is the worst that a server of ClickHouse tells.
func troubleOfPoints(s *cluster.State) error {
	wrong := func(hint, format string, args ...any) error {
		return model.Errorf(model.CodeUnavailable, "%s: %s", s.Address, fmt.Sprintf(format, args...)).WithHint("%s", hint)
	}
	switch r := s.Replica; {
	case s.Err != nil:
		return wrong("Look whether it runs, and at user and password. Other replicas of its shard serve meanwhile.", "%v", s.Err)
	case r != nil && r.Readonly:
		return wrong("Look at ZooKeeper or Keeper, and at system.replicas.", "the replica takes no writes: it has lost ZooKeeper, or its place there")
	case r != nil && r.Late > lateReplica:
		return wrong("Look at system.replication_queue for what holds it up. Kymogram reads others until it has all points.", "the replica is %d s behind", r.Late)
	case s.Parts > fewParts:
		return wrong("ClickHouse merges more slowly than points come, and will refuse inserts. Give it faster disks, or more shards.", "%d parts", s.Parts)
	case s.Waiting > 0:
		return wrong("Look at system.mutations for the reason.", "%d deletions are an hour old and not done", s.Waiting)
	}
	return apart("that of "+s.Address, s.Skew, s.Took+time.Second)
}

// apart is an error where a clock and ours differ by more than is known of the answer.
func apart(whose string, skew, unknown time.Duration) error {
	if skew.Abs() <= maxSkew+unknown {
		return nil
	}
	return model.Errorf(model.CodeInvalid, "this clock and %s differ by %s", whose, duration.Text(skew.Round(time.Millisecond))).
		WithHint("Set the clocks (NTP).")
}

func (d *Diagnosis) checkDatabase(ctx context.Context, q ClusterQuestion) error {
	if q.Catalog == "" {
		return nil
	}
	s, err := psql.Examine(ctx, q.Catalog)
	if model.CodeOf(err) == model.CodeInvalid {
		return fmt.Errorf("catalog: %w", err)
	}
	detail := fmt.Sprintf("answers in %s: PostgreSQL %s, %d of %d connections in use", duration.Text(s.Took.Round(time.Millisecond)), s.Version, s.Connections, s.MostConnections)
	if err == nil {
		err = troubleOfDatabase(&s)
	}
	d.add("database", detail, err)
	if s.Version == "" {
		return nil
	}
	d.add("standby", standby(&s), troubleOfStandby(&s))
	d.checkLedger(ctx, q)
	return nil
}

func troubleOfDatabase(s *psql.State) error {
	switch {
	case s.Connections*100 > s.MostConnections*busyDatabase:
		return model.Errorf(model.CodeUnavailable, "%d of %d connections are in use", s.Connections, s.MostConnections).
			WithHint("A server of Kymogram takes up to 24. Raise max_connections.")
	case s.Acknowledged == "off":
		return model.Errorf(model.CodeInvalid, "synchronous_commit is off: a crash of PostgreSQL forgets what was acknowledged").
			WithHint("Set synchronous_commit to on.")
	}
	return apart("PostgreSQL's", s.Skew, s.Took)
}

func standby(s *psql.State) string {
	switch s.Standbys {
	case 0:
		return "there is none: a disk that is lost takes with it what its last backup does not have"
	case 1:
		return "there is one, and commits wait for it"
	}
	return fmt.Sprintf("there are %d, and commits wait for some", s.Standbys)
}

func troubleOfStandby(s *psql.State) error {
	if s.Standbys == 0 || s.Synchronous {
		return nil
	}
	return model.Errorf(model.CodeInvalid, "commits do not wait for a standby: a failover forgets the last of what was acknowledged").
		WithHint("Set synchronous_standby_names. After such a failover see docs/scale-out.md, Back up a store.")
}

// checkLedger tells of the servers that share points.
func (d *Diagnosis) checkLedger(ctx context.Context, q ClusterQuestion) {
	if q.Store == "" {
		return
	}
	s, err := ledger.Examine(ctx, q.Catalog)
	if err == nil && !s.Made {
		d.add("servers", "none was started with this database yet", nil)
		return
	}
	detail := fmt.Sprintf("%d alive; %d points of %d runs", s.Alive, s.Points, s.Runs)
	if s.Waiting > 0 {
		detail += fmt.Sprintf("; the updates of %d batches are on their way to the catalog, %d of them of servers that are gone", s.Waiting, s.Left)
	}
	if err == nil && s.Left > 0 && s.Alive == 0 {
		err = model.Errorf(model.CodeUnavailable, "the updates of %d batches wait for a server, and none is alive", s.Left).WithHint("Start one.")
	}
	d.add("servers", detail, err)
}

// oldBlock is how old points in the log may be before somebody should look.
const oldBlock = time.Minute

// checkLog looks at the points that wait in the log.
func (d *Diagnosis) checkLog(ctx context.Context, q ClusterQuestion) error {
	if q.Log != "" {
		if err := journal.Check(q.Log); err != nil {
			return fmt.Errorf("log: %w", err)
		}
	}
	if q.Catalog == "" || q.Store == "" {
		return nil
	}
	s, err := ledger.ExamineLog(ctx, q.Catalog)
	if err == nil && (s.Log == "" && q.Log == "" || s.Secret == nil) {
		return nil
	}
	detail := fmt.Sprintf("%d blocks wait, the first for %s", s.Blocks, duration.Text(s.Oldest.Round(time.Second)))
	if err == nil && q.Log != "" {
		var stream *journal.State
		if stream, err = journal.Examine(ctx, q.Log, s.Secret); stream != nil {
			detail += fmt.Sprintf("; %d of %d MiB, copies: %d", stream.Bytes>>20, stream.Most>>20, stream.Copies)
		}
		if err == nil && stream == nil && s.Log != "" {
			err = model.Errorf(model.CodeConflict, "%s does not have the log of this store", journal.Named(q.Log)).WithHint("Look at the address.")
		}
	}
	if err == nil && s.Blocks > 0 && s.Oldest > oldBlock {
		err = model.Errorf(model.CodeUnavailable, "%d blocks of points wait, the first for %s", s.Blocks, duration.Text(s.Oldest.Round(time.Second))).
			WithHint("Look whether ClickHouse takes inserts, and whether a server with --log runs.")
	}
	d.add("log", detail, err)
	return nil
}

func (d *Diagnosis) checkFiles(ctx context.Context, q ClusterQuestion) error {
	if q.Blob == "" {
		return nil
	}
	place, err := s3.Parse(q.Blob)
	if err != nil {
		return fmt.Errorf("blob: %w", err)
	}
	s, err := s3.Examine(ctx, place)
	detail := fmt.Sprintf("s3://%s/%s answers in %s", place.Bucket, place.Prefix, duration.Text(s.Took.Round(time.Millisecond)))
	if !s.Owned {
		detail += "; no server has used it yet"
	}
	d.add("files", detail, err)
	return nil
}
