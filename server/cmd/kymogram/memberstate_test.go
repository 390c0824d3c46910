package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/wallet"
)

// roamer signs records of one run, at any server.
type roamer struct {
	t    *testing.T
	key  *wallet.Key
	name string
	run  string // its id
}

func (c *engines) client(m *member) *remote.Client {
	return &remote.Client{Base: "http://" + m.address, Key: c.key}
}

// join opens the run of a signer at a server.
func (c *engines) join(m *member, n byte) *roamer {
	c.t.Helper()
	key, err := wallet.NewKey([32]byte(bytes.Repeat([]byte{n}, 32)))
	if err != nil {
		c.t.Fatal(err)
	}
	p := &roamer{t: c.t, key: key, name: fmt.Sprint("run", n)}
	var opened struct {
		Run string `json:"run"`
	}
	body := fmt.Sprintf(`{"writer":"%032x","workspace":"lab","project":"net","run_name":%q,"orchestration_id":%q,"resume_strategy":"allow","host":"h","pid":1,"opened_ns":1700000000000000000}`, n, p.name, p.name)
	if err := c.client(m).Exchange(c.t.Context(), http.MethodPost, "/api/v1/open", json.RawMessage(body), &opened); err != nil {
		c.t.Fatal(err)
	}
	p.run = opened.Run
	return p
}

// lanes divide the sequences among signers with one hotkey.
const lanes = 8

// seal signs a record on top of the newest one that a server shows, with a sequence above last.
func (p *roamer) seal(at *remote.Client, lane int, last *uint64, payload string) (*state.Envelope, error) {
	var newest state.Newest
	if err := at.Exchange(p.t.Context(), http.MethodGet, "/api/v1/runs/"+p.run+"/state", nil, &newest); err != nil {
		return nil, err
	}
	now := uint64(time.Now().UnixMilli())
	r := state.Record{
		Place:    state.Place{Netuid: 27, Role: state.Validator, Workspace: "lab", Project: "net", Run: p.name},
		Sequence: *last, TimeMs: now, ExpiresMs: now + 3_600_000, PayloadType: state.ConfigPayload,
	}
	if newest.Head != nil {
		r.Sequence, r.Previous = max(r.Sequence, newest.Head.Sequence), newest.Head.Digest
	}
	r.Sequence = (r.Sequence/lanes+1)*lanes + uint64(lane)
	*last = r.Sequence
	return state.Seal(r, []byte(payload), p.key)
}

// put sends a record, and tells its index.
func (p *roamer) put(at *remote.Client, e *state.Envelope) (index uint64, err error) {
	var taken struct{ Index uint64 }
	err = at.Exchange(p.t.Context(), http.MethodPost, "/api/v1/runs/"+p.run+"/state", e, &taken)
	return taken.Index, err
}

// merkle is the Merkle Tree Hash as RFC 9162 section 2.1.1 defines it.
func merkle(leaves [][]byte) [32]byte {
	if len(leaves) == 1 {
		return sha256.Sum256(append([]byte{0}, leaves[0]...))
	}
	k := 1
	for k*2 < len(leaves) {
		k *= 2
	}
	left, right := merkle(leaves[:k]), merkle(leaves[k:])
	return sha256.Sum256(append(append([]byte{1}, left[:]...), right[:]...))
}

// logOf reads the head of a server and all leaves below it, and compares them.
func (c *engines) logOf(m *member) (root string, leaves [][]byte) {
	c.t.Helper()
	var head struct {
		Size uint64
		Root string
		Key  string
	}
	const log = "/api/v1/projects/lab/net/log/"
	if err := c.client(m).Exchange(c.t.Context(), http.MethodGet, log+"head", nil, &head); err != nil {
		c.t.Fatal(err)
	}
	for uint64(len(leaves)) < head.Size {
		var page struct{ Leaves [][]byte }
		if err := c.client(m).Exchange(c.t.Context(), http.MethodGet, fmt.Sprintf("%sleaves?from=%d&size=%d", log, len(leaves), head.Size), nil, &page); err != nil {
			c.t.Fatal(err)
		}
		leaves = append(leaves, page.Leaves...)
	}
	if want := merkle(leaves); head.Root != fmt.Sprintf("%x", want) {
		c.t.Errorf("the root of %d records is %s, want %x", head.Size, head.Root, want)
	}
	return head.Key + head.Root, leaves
}

// TestRecordsOfAStore: signers with one hotkey, and others, put records of one project at two
// servers of a store. One server is killed in the middle. What was acknowledged is a leaf once,
// at its index, there is no gap, and the head that was signed before is continued.
func TestRecordsOfAStore(t *testing.T) {
	c := newCluster(t)
	first, second := c.start(t.TempDir(), "--state-log"), c.start(t.TempDir(), "--state-log")
	each := 12
	if os.Getenv("CLUSTER") != "" {
		each = 150
	}
	var dying, down atomic.Bool
	var acked sync.Map // index → hash
	var count atomic.Int64
	signs := func(p *roamer, signer int) {
		last := uint64(0)
		for made := 0; made < each; {
			at := c.client(first)
			if (made+signer)%2 == 1 || down.Load() {
				at = c.client(second)
			}
			var index uint64
			e, err := p.seal(at, signer, &last, fmt.Sprintf(`{"signer":%d,"n":%d}`, signer, made))
			if err == nil {
				if index, err = p.put(at, e); err != nil && model.CodeOf(err) != model.CodeStateConflict { // it may have been taken
					index, err = p.put(c.client(second), e)
				}
			}
			switch {
			case err == nil:
				if before, again := acked.Swap(index, e.Hash()); again && before != e.Hash() {
					t.Errorf("index %d was given to two records", index)
				}
				count.Add(1)
				made++
			case model.CodeOf(err) == model.CodeStateConflict, dying.Load():
			default:
				t.Error(err)
				return
			}
		}
	}
	racers, other := c.join(first, 1), c.join(second, 2)
	var signers sync.WaitGroup
	for n := range 3 {
		signers.Go(func() { signs(racers, n) })
	}
	signers.Go(func() { signs(other, 3) })
	k := c.kitchen(first)
	k.until("records are taken", func() bool { return count.Load() >= int64(each) })
	seen := filepath.Join(t.TempDir(), "head.json")
	k.says("records", "state", "head", "lab/net", "--seen", seen)
	dying.Store(true)
	first.kill()
	down.Store(true)
	signers.Wait()

	third := c.start(t.TempDir(), "--state-log")
	want, leaves := c.logOf(second)
	if got, _ := c.logOf(third); got != want {
		t.Errorf("key and root are %s at one server and %s at the other", want, got)
	}
	hashes := map[state.Hash]int{}
	for _, leaf := range leaves {
		hashes[state.HashOf(leaf)]++
	}
	acked.Range(func(index, hash any) bool {
		if n := hashes[hash.(state.Hash)]; n != 1 || state.HashOf(leaves[index.(uint64)]) != hash { //nolint:forcetypeassert // they are stored so
			t.Errorf("record %d is there %d times, or elsewhere", index, n)
		}
		return true
	})
	k = c.kitchen(third)
	k.says("continues", "state", "consistency", "lab/net", "--seen", seen)
	k.says(" 0 faults", "state", "verify", "lab/net/"+racers.name)
	k.says(" 0 faults", "state", "verify", "lab/net/"+other.name)
	k.says("", "state", "audit", "lab/net", "--seen", filepath.Join(t.TempDir(), "audit.json"))
}

// TestRecordsWakeReadersOfOtherServers: who waits at one server gets a record that comes to the
// other, long before the time is up.
func TestRecordsWakeReadersOfOtherServers(t *testing.T) {
	c := newCluster(t)
	first, second := c.start(t.TempDir()), c.start(t.TempDir())
	p, last := c.join(first, 1), uint64(0)
	for n := range 3 {
		type answer struct {
			page state.Page
			err  error
		}
		got := make(chan answer, 1)
		began := time.Now()
		go func() {
			var a answer
			a.err = c.client(second).Exchange(t.Context(), http.MethodGet, fmt.Sprintf("/api/v1/projects/lab/net/state?since=%d&wait=30", n), nil, &a.page)
			got <- a
		}()
		e, err := p.seal(c.client(first), 0, &last, fmt.Sprintf(`{"n":%d}`, n))
		if err == nil {
			_, err = p.put(c.client(first), e)
		}
		if err != nil {
			t.Fatal(err)
		}
		if a := <-got; a.err != nil || len(a.page.Entries) != 1 || a.page.Entries[0].Digest != e.Hash() || time.Since(began) > 20*time.Second {
			t.Errorf("after %s: %+v, %v", time.Since(began), a.page, a.err)
		}
	}
}
