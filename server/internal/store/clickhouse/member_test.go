package clickhouse_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/cluster"
)

// Who excludes the others is alone, also among servers; a server that is gone excludes nobody.
func TestGuard(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, b := r.open(t, "a"), r.open(t, "b")
	briefly := func(take func(context.Context) (func(), error)) (func(), error) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		return take(ctx)
	}
	end, err := a.Guard().Exclude(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, take := range []func(context.Context) (func(), error){b.Guard().Share, b.Guard().Exclude, a.Guard().Share} {
		if _, err := briefly(take); model.CodeOf(err) != model.CodeTimeout {
			t.Errorf("while another excludes: %v", err)
		}
	}
	end()
	for _, e := range []*clickhouse.Engine{a, b} { // those who share do not wait for one another
		end, err := e.Guard().Share(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer end()
	}
	if _, err := briefly(b.Guard().Exclude); model.CodeOf(err) != model.CodeTimeout {
		t.Errorf("while others share: %v", err)
	}
	c := r.open(t, "c")
	r.ledger.Do(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND state = 'idle in transaction'")
	end, err = c.Guard().Exclude(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	end()
}

// Two processes may have copies of one data folder: each releases its own updates only.
func TestACopiedFolder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one, copied := r.open(t, "a"), r.open(t, "a")
	run, w := model.RunID{1}, model.WriterID{1}
	open(t, one, run, w)
	b := numbers(run, w, 1, 1, false)
	b.Updates = []model.Update{{Op: model.OpAddTags, Seq: 1, Tags: []string{"x"}}}
	ack, err := one.Append(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	copied.ReleaseMeta(ack.LSN)
	found, err := copied.EarlierMeta(t.Context(), run, 0, ack.LSN+1)
	if err != nil || len(found) != 1 || found[0].LSN != ack.LSN || found[0].Writer != w {
		t.Errorf("%+v, %v", found, err)
	}
	if found, err = copied.EarlierMeta(t.Context(), run, 0, ack.LSN); err != nil || len(found) != 0 {
		t.Errorf("before it: %+v, %v", found, err)
	}
	one.ReleaseMeta(ack.LSN)
	if found, err = copied.EarlierMeta(t.Context(), run, 0, ack.LSN+1); err != nil || len(found) != 0 {
		t.Errorf("after its release: %+v, %v", found, err)
	}
}

// An address of points is refused early, and never repeated: it may have a password.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for place, named := range map[string]string{
		"clickhouse://u:secret@h:9000/db":            "clickhouse://h:9000/db",
		"clickhouse://h1:9000,h2:9440/db?secure=yes": "",
		"clickhouse://h1:9000,h2:9440/db?cluster=c":  "clickhouse://h1:9000,h2:9440/db",
		"clickhouse://h1:9000,h2:9440/db":            "",
		"clickhouse://u:secret@h:9000/":              "",
		"clickhouse://u:secret@h:9000":               "",
		"clickhouse://u:secret@h/db":                 "",
		"clickhouse:///db":                           "",
		"clickhouse://u:secret@h:port/db":            "",
		"http://u:secret@h:8123/db":                  "",
		"postgres://u:secret@h/db":                   "",
		"u:secret@h:9000/db":                         "",
		"":                                           "",
	} {
		err := cluster.Check(place)
		if (err == nil) != (named != "") || err != nil && (model.CodeOf(err) != model.CodeInvalid || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v", place, err)
		}
		if named == "" {
			named = "clickhouse://…"
		}
		if got := cluster.Named(place); got != named {
			t.Errorf("%s is named %s", place, got)
		}
	}
}

// The clock of PostgreSQL went back an hour, such as at a failover: another server takes the run
// of one that is gone, and its updates, now and not in an hour.
func TestAClockThatWentBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	gone, other := r.open(t, "a"), r.open(t, "b")
	run, w := model.RunID{1}, model.WriterID{1}
	open(t, gone, run, w)
	b := numbers(run, w, 1, 3, false)
	b.Updates = []model.Update{{Op: model.OpAddTags, Seq: 1, Tags: []string{"x"}}}
	if _, err := gone.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	r.ledger.Do(t, "UPDATE "+r.schema+".ledger_runs SET taken = now() + interval '1 hour'; UPDATE "+r.schema+".ledger_nodes SET seen = now() + interval '1 hour'")
	soon, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	if ack, err := other.Append(soon, numbers(run, w, 4, 5, false)); err != nil || ack.Mark != 5 {
		t.Errorf("%+v, %v", ack, err)
	}
	if left, err := other.LeftMeta(t.Context()); err != nil || len(left) != 1 {
		t.Errorf("%+v, %v", left, err)
	}
}
