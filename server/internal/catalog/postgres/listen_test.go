package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	server "github.com/kymogram/kymogram/internal/testkit/postgres"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/postgres"
)

// listener is a server that keeps things of the catalog. What another server changes is stale
// here until it is heard of, by its name or by a loss.
type listener struct {
	mu     sync.Mutex
	stale  map[string]bool
	heard  map[string]int
	losses int
	fails  bool // the next change cannot be taken into account
}

func listen(t *testing.T, db *postgres.DB) *listener {
	t.Helper()
	l := &listener{stale: map[string]bool{}, heard: map[string]int{}}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- db.Follow(ctx, l.hear) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	l.until(t, "it listens", func() bool { return l.losses > 0 })
	return l
}

func (l *listener) hear(_ context.Context, c postgres.Change) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fails {
		l.fails = false
		return errors.New("it cannot be taken into account")
	}
	if c.Lost {
		l.losses++
		clear(l.stale)
	}
	for _, id := range c.Keys {
		l.note("key " + id)
	}
	for _, id := range c.Runs {
		l.note("run " + id.String())
	}
	for _, n := range c.News {
		l.note("news " + n.Run.String() + " " + n.Workspace + "/" + n.Project)
	}
	return nil
}

func (l *listener) note(what string) {
	delete(l.stale, what)
	l.heard[what]++
}

func (l *listener) until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
		l.mu.Lock()
		ok := is()
		l.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(end) {
			l.mu.Lock()
			defer l.mu.Unlock()
			t.Fatalf("it never came to: %s; stale %v", what, l.stale)
		}
	}
}

// made is what a change makes stale elsewhere, once it is committed.
func (l *listener) made(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stale[what] = true
}

// TestServersHearOfOneAnother: of all that a server does, at random, while connections that
// listen are killed at random, another one hears, or hears that it may have missed something. A
// catalog in another schema of the database hears nothing.
func TestServersHearOfOneAnother(t *testing.T) {
	pg := server.Any(t)
	place := pg.URL(t)
	one, two := openAt(t, place), openAt(t, place)
	here, there := listen(t, one), listen(t, two)
	stranger := listen(t, openAt(t, pg.URL(t)))
	there.until(t, "the other's start is known", func() bool { return there.losses > 0 })
	runs := make([]model.RunID, 5)
	for i := range runs {
		o, err := one.Open(t.Context(), model.OpenRequest{Writer: model.WriterID{byte(i + 1)}, Workspace: "w", Project: "p", RunName: fmt.Sprint("run", i)}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		runs[i] = o.Run
	}
	for i := range 60 {
		what, err := change(t.Context(), one, i, runs[rand.IntN(len(runs))])
		if err != nil {
			t.Fatal(err)
		}
		there.mu.Lock()
		if there.heard[what] == 0 { // a notice is at times faster than the answer
			there.stale[what] = true
		}
		clear(there.heard)
		there.mu.Unlock()
		if rand.IntN(8) == 0 {
			cut(t, pg, place)
		}
	}
	there.until(t, "nothing is stale", func() bool { return len(there.stale) == 0 })
	cut(t, pg, place)
	there.until(t, "a loss is told", func() bool { return there.losses > 1 })
	here.mu.Lock()
	defer here.mu.Unlock()
	stranger.mu.Lock()
	defer stranger.mu.Unlock()
	if len(here.heard)+len(stranger.heard) > 0 {
		t.Errorf("a server heard of itself: %v; another catalog heard: %v", here.heard, stranger.heard)
	}
}

// change does something that another server keeps, and names it.
func change(ctx context.Context, db *postgres.DB, i int, run model.RunID) (what string, err error) {
	id := fmt.Sprintf("key%d", i)
	switch rand.IntN(5) {
	case 0:
		return "run " + run.String(), db.Trash(ctx, run, time.Now())
	case 1:
		return "run " + run.String(), db.Restore(ctx, run)
	case 2:
		err := db.PutKey(ctx, catalog.Key{ID: id, SHA256: [32]byte{1, byte(i)}})
		return "key " + id, errors.Join(err, db.RevokeKey(ctx, id, time.Now()))
	case 3:
		return "key " + id, db.PutKey(ctx, catalog.Key{ID: id, SHA256: [32]byte{1, byte(i)}})
	}
	db.Publish(model.RunChange{Run: run, Workspace: "w", Project: "p"})
	return "news " + run.String() + " w/p", nil
}

// cut kills the connections that listen to a catalog.
func cut(t *testing.T, pg *server.Server, place string) {
	t.Helper()
	u, err := url.Parse(place)
	if err != nil {
		t.Fatal(err)
	}
	pg.Do(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'LISTEN "kymogram_' || md5('`+u.Query().Get("search_path")+`') || '"'`)
}

// TestManyNews: 6,000 runs with news at once, of projects with the longest names, are all heard
// of, each with its place. So are 300 runs that are deleted at once.
func TestManyNews(t *testing.T) {
	place := server.Any(t).URL(t)
	one, two := openAt(t, place), openAt(t, place)
	there := listen(t, two)
	listen(t, one)
	there.until(t, "the other's start is known", func() bool { return there.losses > 1 })
	there.mu.Lock()
	losses := there.losses
	there.mu.Unlock()
	for i := range 6_000 {
		c := model.RunChange{Run: model.RunID{byte(i), byte(i >> 8), 1}, Workspace: strings.Repeat("w", 128), Project: strings.Repeat(string(rune('a'+i%7)), 128)}
		there.made("news " + c.Run.String() + " " + c.Workspace + "/" + c.Project)
		one.Publish(c)
	}
	there.until(t, "all news are heard", func() bool { return len(there.stale) == 0 })
	var group sync.WaitGroup
	for i := range 300 {
		group.Go(func() {
			o, err := one.Open(t.Context(), model.OpenRequest{Writer: model.WriterID{1, byte(i), byte(i >> 8)}, Workspace: "w", Project: "p", RunName: fmt.Sprint("run", i)}, time.Now())
			if err == nil {
				there.made("run " + o.Run.String())
				err = one.Trash(t.Context(), o.Run, time.Now())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	there.until(t, "all deletions are heard", func() bool { return len(there.stale) == 0 })
	there.mu.Lock()
	defer there.mu.Unlock()
	if there.losses != losses {
		t.Errorf("%d losses, there were %d", there.losses, losses)
	}
}

// TestDeadWay: a connection over which nothing comes any more is noticed, while it stays open. One
// that is only quiet stays.
func TestDeadWay(t *testing.T) {
	t.Parallel()
	place := server.Any(t).URL(t)
	through, seen := counted(t, place)
	one, two := openAt(t, place), openAt(t, through)
	there := listen(t, two)
	losses := func() int {
		there.mu.Lock()
		defer there.mu.Unlock()
		return there.losses
	}
	before := losses()
	time.Sleep(4 * time.Second) // more than one try of the connection
	if now := losses(); now != before {
		t.Errorf("%d losses while nothing happened", now-before)
	}
	seen.frozen.Store(true)
	there.made("key a")
	if err := one.PutKey(t.Context(), catalog.Key{ID: "a", SHA256: [32]byte{1}}); err != nil {
		t.Fatal(err)
	}
	there.until(t, "the notice is lost", func() bool { return seen.dead.Load() > 0 })
	seen.frozen.Store(false) // connections that come get through
	there.until(t, "the loss is told", func() bool { return there.losses > before && len(there.stale) == 0 })
}

// TestHearingFails: where a server could not take a change into account, it hears of a loss.
func TestHearingFails(t *testing.T) {
	place := server.Any(t).URL(t)
	one, two := openAt(t, place), openAt(t, place)
	there := listen(t, two)
	there.mu.Lock()
	there.fails, there.stale["key a"] = true, true
	losses := there.losses
	there.mu.Unlock()
	if err := one.PutKey(t.Context(), catalog.Key{ID: "a", SHA256: [32]byte{1}}); err != nil {
		t.Fatal(err)
	}
	there.until(t, "the loss is told", func() bool { return there.losses > losses && len(there.stale) == 0 })
}

// TestUndoneChanges: what was not committed is not told.
func TestUndoneChanges(t *testing.T) {
	place := server.Any(t).URL(t)
	one, two := openAt(t, place), openAt(t, place)
	there := listen(t, two)
	if err := one.PutKey(t.Context(), catalog.Key{ID: "a", SHA256: [32]byte{1}}); err != nil {
		t.Fatal(err)
	}
	if err := one.PutKey(t.Context(), catalog.Key{ID: "b", SHA256: [32]byte{1}}); model.CodeOf(err) != model.CodeConflict {
		t.Fatal(err)
	}
	if err := one.PutKey(t.Context(), catalog.Key{ID: "c", SHA256: [32]byte{3}}); err != nil {
		t.Fatal(err)
	}
	there.until(t, "the last is heard", func() bool { return there.heard["key c"] > 0 })
	there.mu.Lock()
	defer there.mu.Unlock()
	if there.heard["key a"] != 1 || there.heard["key b"] > 0 {
		t.Errorf("%v", there.heard)
	}
}
