package statelog_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/server/internal/statelog"
	"github.com/kymogram/kymogram/server/internal/transparency"
)

// mth is the Merkle Tree Hash as RFC 9162 section 2.1.1 defines it.
func mth(leaves [][]byte) []byte {
	if len(leaves) == 1 {
		h := sha256.Sum256(append([]byte{0}, leaves[0]...))
		return h[:]
	}
	k := 1
	for k*2 < len(leaves) {
		k *= 2
	}
	h := sha256.Sum256(append(append([]byte{1}, mth(leaves[:k])...), mth(leaves[k:])...))
	return h[:]
}

// view is one server's log as its clients read it.
type view struct {
	*statelog.Tree
	t       *testing.T
	log     *statelog.Log
	records [][]byte
	heads   []*state.Envelope // by run
}

func newView(t *testing.T, in makes, keyFile string) *view {
	t.Helper()
	key, err := statelog.SigningKey(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	log := in(t).open(t)
	return &view{Tree: log.Tree(key), t: t, log: log, heads: make([]*state.Envelope, 4)}
}

func (v *view) add(n byte, payload string) {
	v.t.Helper()
	e := signed(v.t, run(n), n, v.heads[n], payload)
	put(v.t, v.log, run(n), e)
	v.heads[n], v.records = e, append(v.records, e.Record)
}

func (v *view) Head(ctx context.Context) (*transparency.SignedHead, error) {
	return v.Tree.Head(ctx, "lab", "net", false)
}

func (v *view) Consistency(ctx context.Context, from, to uint64) ([]state.Hash, error) {
	return v.Tree.Consistency(ctx, "lab", "net", from, to)
}

func (v *view) inclusion(index uint64) *transparency.Inclusion {
	v.t.Helper()
	head, err := v.Head(v.t.Context())
	if err != nil {
		v.t.Fatal(err)
	}
	record, hashes, err := v.Tree.Inclusion(v.t.Context(), "lab", "net", index, head.Size)
	if err != nil {
		v.t.Fatal(err)
	}
	return &transparency.Inclusion{Head: *head, Index: index, Record: record, Hashes: hashes}
}

func treeOfRFC9162(t *testing.T, in makes) {
	v := newView(t, in, filepath.Join(t.TempDir(), "log.key"))
	var heads []*transparency.SignedHead
	for size := 1; size <= 21; size++ {
		v.add(byte(1+size%3), `{}`)
		head, err := v.Head(t.Context())
		if err != nil || head.Size != uint64(size) || string(head.Root[:]) != string(mth(v.records)) {
			t.Fatalf("size %d: %+v %v", size, head, err)
		}
		heads = append(heads, head)
	}
	for i := range v.records {
		p := v.inclusion(uint64(i))
		if err := p.Check(); err != nil || string(p.Record) != string(v.records[i]) {
			t.Errorf("record %d: %v", i, err)
		}
		p.Index++
		if p.Check() == nil {
			t.Errorf("record %d is proven at another place", i)
		}
	}
	last := heads[len(heads)-1]
	for _, h := range heads {
		hashes, err := v.Consistency(t.Context(), h.Size, last.Size)
		if err = errors.Join(err, transparency.CheckConsistency(h, last, hashes)); err != nil {
			t.Errorf("from size %d: %v", h.Size, err)
		}
	}
}

// treeOfMany has more nodes than one statement stores.
func treeOfMany(t *testing.T, in makes) {
	v := newView(t, in, filepath.Join(t.TempDir(), "log.key"))
	count := 300
	if os.Getenv("CLUSTER") != "" {
		count = 4300 // more than one transaction adds
	}
	for range count {
		v.add(1, `{}`)
	}
	head, err := v.Head(t.Context())
	if err != nil || head.Size != uint64(count) || string(head.Root[:]) != string(mth(v.records)) {
		t.Fatalf("%+v %v", head, err)
	}
	for _, i := range []uint64{0, 1, head.Size / 2, head.Size - 1} {
		if err := v.inclusion(i).Check(); err != nil {
			t.Errorf("record %d: %v", i, err)
		}
	}
	leaves, err := v.Leaves(t.Context(), "lab", "net", 100, head.Size, 150)
	if err != nil || len(leaves) != 150 || string(leaves[149]) != string(v.records[249]) {
		t.Errorf("%d leaves, %v", len(leaves), err)
	}
}

// headsAtOnce asks for heads while records come: each is of some size that there was, and none
// is called damaged.
func headsAtOnce(t *testing.T, in makes) {
	v := newView(t, in, filepath.Join(t.TempDir(), "log.key"))
	v.add(1, `{}`)
	var heads sync.Map
	var all sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		all.Go(func() {
			for {
				head, err := v.Head(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				heads.Store(head.Size, head.Root)
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for range 60 {
		v.add(1, `{}`)
	}
	close(stop)
	all.Wait()
	heads.Range(func(size, root any) bool {
		if want := state.Hash(mth(v.records[:size.(uint64)])); root != want {
			t.Errorf("the root of size %d is %s, want %s", size, root, want)
		}
		return true
	})
}

// lostHead is a database that was set back behind a head that was given out, and goes on with
// other records.
func lostHead(t *testing.T, in makes) {
	keyFile := filepath.Join(t.TempDir(), "log.key")
	before, after := newView(t, in, keyFile), newView(t, in, keyFile)
	for _, v := range []*view{before, after} {
		v.add(1, `{"n":1}`)
	}
	before.add(1, `{"n":2}`)
	if _, err := before.Head(t.Context()); err != nil {
		t.Fatal(err)
	}
	statelog.Swap(before.log, after.log)
	refused := func(why string) {
		t.Helper()
		if h, err := before.Head(t.Context()); model.CodeOf(err) != model.CodeUnavailable || !strings.Contains(err.Error(), why) {
			t.Errorf("%+v, %v", h, err)
		}
	}
	refused("a head of size 2 was signed, and the log has 1 records")
	put(t, before.log, run(2), signed(t, run(2), 2, nil, `{}`))
	refused("its first 2 records are not those whose head was signed")
}

// An operator that restored a backup begins a new log with a new key.
func TestANewKeyIsANewLog(t *testing.T) {
	v := newView(t, newFile, filepath.Join(t.TempDir(), "log.key"))
	v.add(1, `{}`)
	before, err := v.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	key, err := statelog.SigningKey(filepath.Join(t.TempDir(), "log.key"))
	if err != nil {
		t.Fatal(err)
	}
	v.Tree = v.log.Tree(key)
	after, err := v.Head(t.Context())
	if err = errors.Join(err, after.Check()); err != nil || after.Key == before.Key || after.Root != before.Root {
		t.Errorf("%+v %v", after, err)
	}
}

// A server shows one history to one witness and another to the other: each
// cosigns what it saw, and together they hold a proof.
func twoHistories(t *testing.T, in makes) {
	keyFile := filepath.Join(t.TempDir(), "log.key")
	honest, hidden := newView(t, in, keyFile), newView(t, in, keyFile)
	for _, v := range []*view{honest, hidden} {
		v.add(1, `{"score":1}`)
		v.add(2, `{}`)
	}
	var first, second transparency.Witness
	seen := map[*transparency.Witness]*transparency.SignedHead{}
	follow := func(w *transparency.Witness, signer byte, v *view) {
		t.Helper()
		head, err := w.Follow(t.Context(), v)
		if err != nil {
			t.Fatal(err)
		}
		c, err := head.Cosign(key(t, signer))
		if err == nil {
			err = v.Witness(t.Context(), "lab", "net", head.Size, c)
		}
		if err != nil {
			t.Fatal(err)
		}
		if seen[w], err = v.Tree.Head(t.Context(), "lab", "net", true); err != nil || len(seen[w].Cosignatures) == 0 || seen[w].Check() != nil {
			t.Fatalf("the cosigned head is %+v: %v", seen[w], err)
		}
	}
	follow(&first, 1, honest)
	follow(&second, 2, hidden)
	honest.add(1, `{"score":2}`)
	hidden.add(1, `{"score":99}`)
	honest.add(3, `{}`)
	follow(&first, 1, honest)
	follow(&second, 2, hidden)

	// Each alone sees a log that only grows. Sizes differ: nothing yet but growth.
	if _, err := (&transparency.Split{A: *seen[&first], B: *seen[&second]}).Check(); err == nil {
		t.Error("two heads of a growing log are called a split")
	}
	split := transparency.SplitOf(honest.inclusion(2), hidden.inclusion(2))
	told, err := split.Check()
	if err != nil || !strings.Contains(told, "two histories: leaf 2") {
		t.Errorf("%q %v", told, err)
	}
	// The first witness asks at the other face of the server: it cannot go on.
	_, err = first.Follow(t.Context(), hidden)
	if err == nil {
		t.Error("a witness follows the other history")
	}
	hidden.add(3, `{}`)
	var c *transparency.Contradiction
	if _, err = first.Follow(t.Context(), hidden); !errors.As(err, &c) || !c.Proven {
		t.Fatalf("at one size the heads prove it: %v", err)
	}
	if told, err := c.Split.Check(); err != nil || !strings.Contains(told, "size 4 have two roots") {
		t.Errorf("%q %v", told, err)
	}
	hidden.add(2, `{}`)
	if _, err = first.Follow(t.Context(), hidden); !errors.As(err, &c) || c.Proven || !strings.Contains(c.Reason, "its history was changed") {
		t.Errorf("a longer false history: %v", err)
	}
	split.PlaceB = split.PlaceA
	if _, err := split.Check(); err == nil {
		t.Error("a split is proven by one history")
	}
}

func witnessesOfProject(t *testing.T, in makes) {
	v := newView(t, in, filepath.Join(t.TempDir(), "log.key"))
	if _, err := v.Head(t.Context()); model.CodeOf(err) != model.CodeNotFound {
		t.Errorf("the head of nothing: %v", err)
	}
	v.add(1, `{}`)
	head, err := v.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := head.Cosign(key(t, 9))
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Witness(t.Context(), "lab", "net", 1, stranger); model.CodeOf(err) != model.CodePermission {
		t.Errorf("a stranger: %v", err)
	}
	stranger.Hotkey = key(t, 1).Account()
	if err := v.Witness(t.Context(), "lab", "net", 1, stranger); model.CodeOf(err) != model.CodeInvalid {
		t.Errorf("a false cosignature: %v", err)
	}
	if err := v.Witness(t.Context(), "lab", "net", 2, stranger); model.CodeOf(err) != model.CodeNotFound {
		t.Errorf("a head that was never signed: %v", err)
	}
}

func TestTheLogsKeyIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.key")
	first, err := statelog.SigningKey(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := statelog.SigningKey(path)
	if err != nil || !first.Equal(again) {
		t.Errorf("the key changed: %v", err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if err := os.Truncate(path, 10); err != nil {
		t.Fatal(err)
	}
	if _, err := statelog.SigningKey(path); model.CodeOf(err) != model.CodeConflict {
		t.Errorf("a damaged key: %v", err)
	}
}
