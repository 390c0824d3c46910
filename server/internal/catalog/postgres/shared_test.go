package postgres_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	server "github.com/kymogram/kymogram/internal/testkit/postgres"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/postgres"
)

func openAt(t testing.TB, url string) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // the server may be gone
	return db
}

// TestTwoServers: what several servers do at once to the same runs is what it would be one
// after the other. Of the jobs that want a name one gets it, with all its writers; no tag and
// no count is lost; an open that comes twice is one.
func TestTwoServers(t *testing.T) {
	url := server.Any(t).URL(t)
	servers := []*postgres.DB{openAt(t, url), openAt(t, url)}
	const names, jobs, ranks = 4, 3, 5
	type open struct{ name, job, rank int }
	var mu sync.Mutex
	got, refused := map[open]*catalog.Opened{}, map[open]bool{}
	var all []open
	for name := range names {
		for job := range jobs {
			for rank := range ranks {
				all = append(all, open{name, job, rank}, open{name, job, rank})
			}
		}
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var group sync.WaitGroup
	for i, o := range all {
		group.Go(func() {
			opened, err := servers[i%2].Open(t.Context(), model.OpenRequest{
				Writer: model.WriterID{1, byte(o.name), byte(o.job), byte(o.rank)}, Workspace: "w", Project: "p",
				RunName: fmt.Sprint("run", o.name), OrchestrationID: fmt.Sprint("job", o.job), Rank: new(int64(o.rank)),
			}, time.Now())
			mu.Lock()
			defer mu.Unlock()
			switch before := got[o]; {
			case model.CodeOf(err) == model.CodeRunExists:
				refused[o] = true
			case err != nil:
				t.Errorf("%+v: %v", o, err)
			case before != nil && (before.Run != opened.Run || before.Attempt != opened.Attempt):
				t.Errorf("%+v is %+v and %+v", o, before, opened)
			default:
				got[o] = opened
			}
		})
	}
	group.Wait()
	for name := range names {
		winners := map[int]int{}
		runs := map[model.RunID]bool{}
		for o, opened := range got {
			if o.name == name {
				winners[o.job]++
				runs[opened.Run] = true
			}
		}
		if len(winners) != 1 || len(runs) != 1 {
			t.Fatalf("run%d: jobs %v, runs %v", name, winners, runs)
		}
		for job, writers := range winners {
			if writers != ranks {
				t.Errorf("run%d: %d writers of job %d", name, writers, job)
			}
		}
		for run := range runs {
			changeAtOnce(t, servers, run, ranks)
		}
	}
}

// TestTheSameHash: two keys of one hash are a conflict at once, not a meeting that is tried
// again for long.
func TestTheSameHash(t *testing.T) {
	db := openAt(t, server.Any(t).URL(t))
	if err := db.PutKey(t.Context(), catalog.Key{ID: "a", SHA256: [32]byte{1}}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := db.PutKey(t.Context(), catalog.Key{ID: "b", SHA256: [32]byte{1}}); model.CodeOf(err) != model.CodeConflict || time.Since(began) > 10*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}

// changeAtOnce changes a run from all servers.
func changeAtOnce(t *testing.T, servers []*postgres.DB, run model.RunID, writers int) {
	t.Helper()
	const each, rounds = 4, 5
	var group sync.WaitGroup
	for i := range each * len(servers) {
		group.Go(func() {
			for round := range rounds {
				updates := []model.Update{{Op: model.OpAddTags, Tags: []string{fmt.Sprintf("tag%d-%d", i, round)}}, {Op: model.OpDropped, Count: 1}}
				if err := servers[i%len(servers)].Apply(t.Context(), run, model.WriterID{}, 0, updates, time.Now()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	d, err := servers[0].GetRun(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	if n := each * len(servers) * rounds; len(d.Tags) != n || d.Dropped != uint64(n) || len(d.Writers) != writers || len(d.Attempts) != 1 {
		t.Errorf("%d tags and %d points dropped of %d; %d writers, %d attempts", len(d.Tags), d.Dropped, n, len(d.Writers), len(d.Attempts))
	}
}

// sequence sends numbered updates, each again until it is acknowledged, and says how many were.
type sequence struct {
	db   *postgres.DB
	run  model.RunID
	done atomic.Uint64
}

func newSequence(t *testing.T, db *postgres.DB) *sequence {
	t.Helper()
	o, err := db.Open(t.Context(), model.OpenRequest{Writer: model.WriterID{9}, Workspace: "w", Project: "p", RunName: "counted"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &sequence{db: db, run: o.Run}
}

func (s *sequence) send(t *testing.T, until <-chan struct{}) {
	for n := uint64(1); ; n++ {
		for end := time.Now().Add(time.Minute); ; {
			err := s.db.Apply(t.Context(), s.run, model.WriterID{9}, n, []model.Update{{Op: model.OpDropped, Count: 1}}, time.Now())
			if err == nil {
				break
			}
			if model.CodeOf(err) != model.CodeUnavailable || time.Now().After(end) {
				t.Errorf("update %d: %v", n, err)
				return
			}
		}
		s.done.Store(n)
		select {
		case <-until:
			return
		default:
		}
	}
}

// after waits for more updates.
func (s *sequence) after(t *testing.T, more uint64) {
	t.Helper()
	begun := s.done.Load()
	for end := time.Now().Add(time.Minute); s.done.Load() < begun+more; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d updates in a minute", s.done.Load()-begun)
		}
	}
}

func (s *sequence) check(t *testing.T) {
	t.Helper()
	d, err := s.db.GetRun(t.Context(), s.run)
	if err != nil {
		t.Fatal(err)
	}
	if d.Dropped != s.done.Load() {
		t.Errorf("%d updates were acknowledged, %d are there", s.done.Load(), d.Dropped)
	}
}

// TestPostgreSQLIsKilled: what was acknowledged is there, once, however often the database
// crashes while updates come.
func TestPostgreSQLIsKilled(t *testing.T) {
	pg := server.Start(t, "fsync = on")
	s := newSequence(t, openAt(t, pg.URL(t)))
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() { s.send(t, stop) })
	for range 3 {
		s.after(t, 1+rand.Uint64N(20))
		pg.Kill()
		pg.Serve(t)
	}
	s.after(t, 5)
	close(stop)
	group.Wait()
	s.check(t)
}

// TestFailover: the primary dies in mid-traffic, and a standby that follows synchronously is
// promoted. No acknowledged update is lost; the servers find it by themselves.
func TestFailover(t *testing.T) {
	primary := server.Start(t)
	url := primary.URL(t)
	standby := primary.Standby(t)
	url = strings.Replace(url, fmt.Sprintf("127.0.0.1:%d", primary.Port), fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d", primary.Port, standby.Port), 1)
	s := newSequence(t, openAt(t, url))
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() { s.send(t, stop) })
	s.after(t, 20)
	primary.Kill()
	standby.Promote(t)
	s.after(t, 20)
	close(stop)
	group.Wait()
	s.check(t)
}

// TestUnreachable: a database that is not there is said so, and no password with it.
func TestUnreachable(t *testing.T) {
	for place, code := range map[string]model.Code{
		"postgres://me:secret@127.0.0.1:1/db":             model.CodeUnavailable,
		"postgres://me:secret@127.0.0.1:1/db?sslmode=bad": model.CodeInvalid,
		"mysql://me:secret@h/db":                          model.CodeInvalid,
		"host=127.0.0.1 password=secret":                  model.CodeInvalid,
	} {
		_, err := postgres.Open(t.Context(), place, postgres.Options{})
		var known *model.Error
		if model.CodeOf(err) != code || !errors.As(err, &known) || known.Hint == "" || strings.Contains(err.Error()+known.Hint, "secret") {
			t.Errorf("%s: %v", place, err)
		}
	}
}

// TestTextsOfAnyBytes: PostgreSQL has no NUL in its texts; what people log may have one.
func TestTextsOfAnyBytes(t *testing.T) {
	db := openAt(t, server.Any(t).URL(t))
	o, err := db.Open(t.Context(), model.OpenRequest{Writer: model.WriterID{9}, Workspace: "w", Project: "p", RunName: "texts"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"a\x00b", "\x00", "\x01", "\x01\x02\x00\x01\x01", "plain 'quoted' ?1 INDEXED BY x", strings.Repeat("\x00é", 5000)} {
		updates := []model.Update{
			{Op: model.OpSetDescription, Text: text},
			{Op: model.OpSetDisplayName, Text: text},
			{Op: model.OpSetTags, Tags: []string{text}},
			{Op: model.OpSetAttribute, Path: "config/x", Value: model.StringValue(text)},
			{Op: model.OpSetTree, Path: "tree", Text: text},
			{Op: model.OpLog, Path: "event", Text: text},
		}
		if err := db.Apply(t.Context(), o.Run, model.WriterID{}, 0, updates, time.Now()); err != nil {
			t.Fatalf("%.20q: %v", text, err)
		}
		d, err := db.GetRun(t.Context(), o.Run)
		if err != nil {
			t.Fatal(err)
		}
		trees, err := db.Trees(t.Context(), o.Run, "tree")
		if err != nil {
			t.Fatal(err)
		}
		event := d.Events[len(d.Events)-1]
		for what, got := range map[string]string{"description": d.Description, "display name": d.DisplayName, "tag": d.Tags[0], "attribute": d.Attributes[0].Value.Str, "tree": trees["tree"], "event": event.Text} {
			if got != text {
				t.Errorf("the %s of %.20q is %.20q", what, text, got)
			}
		}
	}
}

// TestOwner: a database is that of one data folder.
func TestOwner(t *testing.T) {
	url := server.Any(t).URL(t)
	for _, c := range []struct {
		owner string
		code  model.Code
	}{{"first", ""}, {"first", ""}, {"second", model.CodeConflict}, {"first", ""}} {
		db, err := postgres.Open(t.Context(), url, postgres.Options{Owner: c.owner})
		if err == nil {
			err = db.Close()
		}
		if c.code == "" && err != nil || c.code != "" && model.CodeOf(err) != c.code {
			t.Errorf("%s: %v", c.owner, err)
		}
	}
}
