package statelog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/testkit/postgres"
	"github.com/kymogram/kymogram/server/internal/statelog"
	"github.com/kymogram/kymogram/server/internal/transparency"
)

// Two servers take records of one project at once, of runs of their own and of one that both
// write to, while both sign heads. Records are numbered without a gap, each head is that of the
// records below it, and both servers show the same.
func TestServersShareAProject(t *testing.T) {
	place := newDatabases(t)(t)
	servers := []*statelog.Log{place.open(t), place.open(t)}
	const each = 25
	var all sync.WaitGroup
	var mu sync.Mutex
	records := map[uint64][]byte{}
	roots := map[uint64]state.Hash{}
	for n := range 4 {
		l := servers[n%2]
		for _, at := range []byte{1, byte(n + 2)} {
			all.Go(func() {
				for made := 0; made < each; {
					newest, err := l.Head(t.Context(), run(at).ID)
					if err != nil {
						t.Error(err)
						return
					}
					var on *state.Envelope
					if newest.Head != nil {
						on = &newest.Head.Envelope
					}
					entry, err := l.Put(t.Context(), run(at), signed(t, run(at), at, on, fmt.Sprintf(`{"n":%d,"of":%d}`, made, n)))
					switch {
					case err == nil:
						made++
						mu.Lock()
						if records[entry.Index] != nil {
							t.Errorf("index %d was given twice", entry.Index)
						}
						records[entry.Index] = entry.Record
						mu.Unlock()
					case !errors.As(err, new(*state.Conflict)):
						t.Error(err)
						return
					}
				}
			})
		}
		all.Go(func() {
			tree, err := l.OpenTree(t.Context(), "")
			for range each {
				if err != nil {
					break
				}
				head, failed := tree.Head(t.Context(), "lab", "net", false)
				if model.CodeOf(failed) == model.CodeNotFound { // no record yet
					continue
				}
				if err = failed; err == nil {
					mu.Lock()
					if before, again := roots[head.Size]; again && before != head.Root {
						t.Errorf("size %d has two roots", head.Size)
					}
					roots[head.Size] = head.Root
					mu.Unlock()
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	i := place.verify(t)
	if len(i.Damage) > 0 || i.Records-i.Forks != 8*each || i.Runs != 5 {
		t.Errorf("%+v", i)
	}
	tree, err := servers[0].OpenTree(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	last, err := tree.Head(t.Context(), "lab", "net", false)
	if err != nil || last.Size != uint64(i.Records) {
		t.Fatalf("%+v %v", last, err)
	}
	leaves, err := tree.Leaves(t.Context(), "lab", "net", 0, last.Size, 0)
	if err != nil {
		t.Fatal(err)
	}
	for index, record := range records {
		if string(leaves[index]) != string(record) {
			t.Errorf("leaf %d is not the record that was taken", index)
		}
	}
	for size, root := range roots {
		if want := state.Hash(mth(leaves[:size])); root != want {
			t.Errorf("the root of size %d is %s, want %s", size, root, want)
		}
	}
}

// A server hears of records that another one took, and of what it may have missed.
func TestAServerHearsOfRecords(t *testing.T) {
	place := newDatabases(t)(t)
	one, two := place.open(t), place.open(t)
	one.Tell(two.Heard)
	var on *state.Envelope
	for n := range uint64(3) {
		got := make(chan error, 2)
		go func() { got <- two.Wait(context.Background(), "lab", "net", state.Filter{Since: n}) }()
		go func() { got <- two.Grown(context.Background(), "lab", "net", n) }()
		on = signed(t, run(1), 1, on, `{}`)
		put(t, one, run(1), on)
		if err := errors.Join(<-got, <-got); err != nil {
			t.Error(err)
		}
	}
	one.Tell(func(string, string) {}) // the notice is lost
	got := make(chan error, 1)
	go func() { got <- two.Grown(context.Background(), "lab", "net", 3) }()
	put(t, one, run(1), signed(t, run(1), 1, on, `{}`))
	two.Missed()
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// All servers sign with the key of the database. Another one signs nothing; where heads are
// gone with it a new log begins.
func TestTheKeyIsInTheDatabase(t *testing.T) {
	server := postgres.Any(t)
	url := server.URL(t)
	_, schema, _ := strings.Cut(url, "search_path=")
	place := inDatabase(url)
	head := func() (key, code string) {
		t.Helper()
		l := place.open(t)
		defer l.Close()
		tree, err := l.OpenTree(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		h, err := tree.Head(t.Context(), "lab", "net", false)
		if err != nil {
			return "", string(model.CodeOf(err))
		}
		if err := h.Check(); err != nil {
			t.Error(err)
		}
		return fmt.Sprint(h.Key), ""
	}
	put(t, place.open(t), run(1), signed(t, run(1), 1, nil, `{}`))
	first, _ := head()
	if second, _ := head(); first == "" || second != first {
		t.Errorf("keys %q and %q", first, second)
	}
	server.Do(t, "UPDATE "+schema+".state_key SET seed = sha256('other')")
	if key, code := head(); code != string(model.CodeUnavailable) {
		t.Errorf("another key signs: %q %q", key, code)
	}
	server.Do(t, "SET search_path = "+schema+"; TRUNCATE state_heads, state_cosignatures, state_key")
	if key, code := head(); code != "" || key == first {
		t.Errorf("a new log has the key %q, %q", key, code)
	}
}

// A record that is put while PostgreSQL starts again is taken, once.
func TestPutsGoOnOverARestart(t *testing.T) {
	server := postgres.Start(t)
	place := inDatabase(server.URL(t))
	l := place.open(t)
	first := signed(t, run(1), 1, nil, `{}`)
	put(t, l, run(1), first)
	server.Kill()
	got := make(chan error, 1)
	second := signed(t, run(1), 1, first, `{}`)
	go func() {
		_, err := l.Put(context.Background(), run(1), second)
		got <- err
	}()
	server.Serve(t)
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	if e := put(t, l, run(1), second); e.Index != 1 {
		t.Errorf("sent again it is %+v", e)
	}
}

// A failover to a standby that was not synchronous loses a head that was given out. The server
// that gave it signs no other history. One that does not know goes on with what there is.
func TestAFailoverThatLosesAHead(t *testing.T) {
	if os.Getenv("CLUSTER") == "" {
		t.Skip("a standby and a failover: make test-cluster")
	}
	primary := postgres.Start(t)
	url := primary.URL(t)
	standby := primary.Standby(t)
	place := inDatabase(strings.Replace(url, fmt.Sprintf("127.0.0.1:%d", primary.Port), fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d", primary.Port, standby.Port), 1))
	l := place.open(t)
	tree, err := l.OpenTree(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	head := func() (*transparency.SignedHead, error) { return tree.Head(t.Context(), "lab", "net", false) }
	first := signed(t, run(1), 1, nil, `{}`)
	put(t, l, run(1), first)
	before, err := head()
	if err != nil {
		t.Fatal(err)
	}
	standby.Kill()
	primary.Do(t, "ALTER SYSTEM SET synchronous_standby_names = ''")
	primary.Do(t, "SELECT pg_reload_conf()")
	put(t, l, run(1), signed(t, run(1), 1, first, `{}`))
	if lost, err := head(); err != nil || lost.Size != 2 {
		t.Fatalf("%+v, %v", lost, err)
	}
	primary.Kill()
	standby.Serve(t)
	standby.Promote(t)
	put(t, l, run(2), signed(t, run(2), 2, nil, `{}`))
	if h, err := head(); model.CodeOf(err) != model.CodeUnavailable || !strings.Contains(err.Error(), "whose head was signed") {
		t.Errorf("another history is signed: %+v, %v", h, err)
	}
	if tree, err = place.open(t).OpenTree(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	after, err := head()
	if err != nil || after.Size != 2 || after.Key != before.Key {
		t.Fatalf("a server that does not know: %+v, %v", after, err)
	}
	hashes, err := tree.Consistency(t.Context(), "lab", "net", before.Size, after.Size)
	if err = errors.Join(err, transparency.CheckConsistency(before, after, hashes)); err != nil {
		t.Error(err)
	}
}

// A database of another program is left alone, and an address that is none is refused.
func TestOtherDatabasesAreRefused(t *testing.T) {
	server := postgres.Any(t)
	url := server.URL(t)
	_, schema, _ := strings.Cut(url, "search_path=")
	server.Do(t, "CREATE TABLE "+schema+".state_projects (x INTEGER)")
	for place, code := range map[string]model.Code{url: model.CodeConflict, "mysql://h/db": model.CodeInvalid} {
		if _, err := statelog.OpenShared(t.Context(), place, now, slog.New(slog.DiscardHandler)); model.CodeOf(err) != code {
			t.Errorf("%s: %v", place, err)
		}
	}
}
