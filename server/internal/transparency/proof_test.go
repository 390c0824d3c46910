package transparency_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/wallet"
	"github.com/kymogram/kymogram/server/internal/transparency"
)

// The functions of RFC 9162, section 2.1, as the text defines them.

func split(n int) int {
	k := 1
	for k*2 < n {
		k *= 2
	}
	return k
}

func sum(parts ...[]byte) []byte {
	h := sha256.Sum256(bytes.Join(parts, nil))
	return h[:]
}

func mth(d [][]byte) []byte {
	switch len(d) {
	case 0:
		return sum()
	case 1:
		return sum([]byte{0}, d[0])
	}
	k := split(len(d))
	return sum([]byte{1}, mth(d[:k]), mth(d[k:]))
}

func path(m int, d [][]byte) [][]byte {
	if len(d) == 1 {
		return nil
	}
	if k := split(len(d)); m < k {
		return append(path(m, d[:k]), mth(d[k:]))
	} else {
		return append(path(m-k, d[k:]), mth(d[:k]))
	}
}

func subproof(m int, d [][]byte, whole bool) [][]byte {
	if m == len(d) {
		if whole {
			return nil
		}
		return [][]byte{mth(d)}
	}
	if k := split(len(d)); m <= k {
		return append(subproof(m, d[:k], whole), mth(d[k:]))
	} else {
		return append(subproof(m-k, d[k:], false), mth(d[:k]))
	}
}

func hashes(raw [][]byte) []state.Hash {
	out := make([]state.Hash, len(raw))
	for i := range raw {
		copy(out[i][:], raw[i])
	}
	return out
}

var logKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))

func head(d [][]byte) *transparency.SignedHead {
	return headWith(d, logKey, func(*transparency.Head) {})
}

func headWith(d [][]byte, key ed25519.PrivateKey, change func(h *transparency.Head)) *transparency.SignedHead {
	h := transparency.Head{Workspace: "lab", Project: "net", Size: uint64(len(d)), Root: state.Hash(mth(d)), TimeMs: 1}
	change(&h)
	return transparency.Sign(h, key)
}

func inclusion(i int, d [][]byte) *transparency.Inclusion {
	return &transparency.Inclusion{Head: *head(d), Index: uint64(i), Record: d[i], Hashes: hashes(path(i, d))}
}

func unhex(t *testing.T, texts ...string) (out [][]byte) {
	t.Helper()
	for _, text := range texts {
		raw, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, raw)
	}
	return out
}

// The test tree of Certificate Transparency, whose roots are published.
func TestThePublishedTree(t *testing.T) {
	leaves := unhex(t, "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
	roots := unhex(t,
		"6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d", "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
		"aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77", "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
		"4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4", "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
		"ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c", "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328")
	for i, leaf := range leaves {
		if !bytes.Equal(transparency.Leaf(leaf), mth([][]byte{leaf})) {
			t.Errorf("leaf %d hashes to %x", i, transparency.Leaf(leaf))
		}
		if got := mth(leaves[:i+1]); !bytes.Equal(got, roots[i]) {
			t.Fatalf("the oracle is wrong: size %d is %x", i+1, got)
		}
		published := headWith(leaves[:i+1], logKey, func(h *transparency.Head) { h.Root = state.Hash(roots[i]) })
		in := &transparency.Inclusion{Head: *published, Index: uint64(i), Record: leaf, Hashes: hashes(path(i, leaves[:i+1]))}
		if err := in.Check(); err != nil {
			t.Error(err)
		}
	}
}

func tree(n int) (d [][]byte) {
	for i := range n {
		d = append(d, []byte{'r', byte(i)})
	}
	return d
}

// Every proof of every small tree holds; no flipped bit, other place, other record,
// shorter or longer path of it does.
func TestInclusions(t *testing.T) {
	for n := 1; n <= 17; n++ {
		for i := range n {
			good := inclusion(i, tree(n))
			if err := good.Check(); err != nil {
				t.Fatalf("%d of %d: %v", i, n, err)
			}
			refused := func(what string, change func(p *transparency.Inclusion)) {
				t.Helper()
				p := inclusion(i, tree(n))
				change(p)
				if p.Check() == nil {
					t.Errorf("%d of %d: %s is taken", i, n, what)
				}
			}
			for j := range n + 1 {
				if j != i {
					refused("another place", func(p *transparency.Inclusion) { p.Index = uint64(j) })
				}
			}
			refused("another record", func(p *transparency.Inclusion) { p.Record = []byte("x") })
			refused("one more hash", func(p *transparency.Inclusion) { p.Hashes = append(p.Hashes, state.Hash{}) })
			for at := range good.Hashes {
				refused("a flipped bit", func(p *transparency.Inclusion) { p.Hashes[at][at] ^= 1 })
				refused("one hash less", func(p *transparency.Inclusion) { p.Hashes = p.Hashes[:at] })
			}
			refused("a size that was not signed", func(p *transparency.Inclusion) { p.Head.Size++ })
		}
	}
}

func TestConsistency(t *testing.T) {
	for n := 1; n <= 17; n++ {
		for m := 1; m <= n; m++ {
			d := tree(n)
			proof := subproof(m, d, true)
			if err := transparency.CheckConsistency(head(d[:m]), head(d), hashes(proof)); err != nil {
				t.Fatalf("%d to %d: %v", m, n, err)
			}
			changed := tree(n)
			changed[m-1] = []byte("another")
			if transparency.CheckConsistency(head(changed[:m]), head(d), hashes(proof)) == nil {
				t.Errorf("%d to %d: a changed record is taken", m, n)
			}
			for at := range proof {
				bad := hashes(proof)
				bad[at][31-at] ^= 0x80
				if transparency.CheckConsistency(head(d[:m]), head(d), bad) == nil {
					t.Errorf("%d to %d: a flipped bit is taken", m, n)
				}
			}
		}
	}
	other := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, ed25519.SeedSize))
	for what, h := range map[string]*transparency.SignedHead{
		"another key":       headWith(tree(2), other, func(*transparency.Head) {}),
		"another project":   headWith(tree(2), logKey, func(h *transparency.Head) { h.Project = "x" }),
		"another workspace": headWith(tree(2), logKey, func(h *transparency.Head) { h.Workspace = "x" }),
	} {
		if transparency.CheckConsistency(head(tree(2)), h, nil) == nil {
			t.Errorf("%s is one log", what)
		}
	}
}

// What two heads and two records prove, and what they do not.
func TestSplits(t *testing.T) {
	a, b := tree(3), tree(5)
	b[1] = []byte("another")
	stranger := headWith(a, ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, ed25519.SeedSize)), func(*transparency.Head) {})
	forged := *head(tree(3))
	forged.Root[0] ^= 1
	for what, c := range map[string]struct {
		split *transparency.Split
		says  string // empty: it proves nothing
	}{
		"two roots of one size":       {&transparency.Split{A: *head(a), B: *head(b[:3])}, "two tree heads of size 3 have two roots"},
		"two records at one place":    {transparency.SplitOf(inclusion(1, a), inclusion(1, b)), "leaf 1 is record"},
		"one head twice":              {&transparency.Split{A: *head(a), B: *head(a)}, ""},
		"two sizes":                   {&transparency.Split{A: *head(a), B: *head(b)}, ""},
		"one record at one place":     {transparency.SplitOf(inclusion(2, a), inclusion(2, b)), ""},
		"two places":                  {transparency.SplitOf(inclusion(1, a), inclusion(2, b)), ""},
		"one record only":             {&transparency.Split{A: *head(a), B: *head(b), PlaceA: inclusion(1, a)}, ""},
		"growth of one history":       {transparency.SplitOf(inclusion(1, tree(3)), inclusion(1, tree(5))), ""},
		"another server":              {&transparency.Split{A: *stranger, B: *head(b[:3])}, ""},
		"a head that nobody signed":   {&transparency.Split{A: forged, B: *head(tree(3))}, ""},
		"records with another's head": {&transparency.Split{A: *head(a), B: *head(b), PlaceA: inclusion(1, tree(2)), PlaceB: inclusion(1, b)}, ""},
	} {
		told, err := c.split.Check()
		if (err == nil) != (c.says != "") || !strings.Contains(told, c.says) {
			t.Errorf("%s: %q, %v; want %q", what, told, err, c.says)
		}
	}
}

// source is a log that answers with what a test wants.
type source struct {
	head   *transparency.SignedHead
	hashes []state.Hash
}

func (s *source) Head(context.Context) (*transparency.SignedHead, error) { return s.head, nil }

func (s *source) Consistency(context.Context, uint64, uint64) ([]state.Hash, error) {
	return s.hashes, nil
}

func TestAWitnessFollowsGrowthOnly(t *testing.T) {
	d, changed := tree(6), tree(6)
	changed[0] = []byte("another")
	w := &transparency.Witness{}
	follow := func(what string, s *source, says string, proven bool) {
		t.Helper()
		before := w.Last
		_, err := w.Follow(t.Context(), s)
		if says == "" {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			return
		}
		var c *transparency.Contradiction
		if !errors.As(err, &c) || !strings.Contains(c.Reason, says) || c.Proven != proven || w.Last != before {
			t.Errorf("%s: %v", what, err)
		}
	}
	follow("the first", &source{head: head(d[:3])}, "", false)
	follow("growth", &source{head(d[:5]), hashes(subproof(3, d[:5], true))}, "", false)
	follow("an older head of the same log", &source{head(d[:3]), hashes(subproof(3, d[:5], true))}, "", false)
	if w.Last.Size != 5 {
		t.Errorf("the witness forgot: size %d", w.Last.Size)
	}
	follow("the same size, another root", &source{head: head(changed[:5])}, "two roots", true)
	follow("growth of another history", &source{head(changed), hashes(subproof(5, changed, true))}, "history was changed", false)
}

func TestCosignatures(t *testing.T) {
	key, err := wallet.NewKey([32]byte{3})
	if err != nil {
		t.Fatal(err)
	}
	h := head(tree(3))
	c, err := h.Cosign(key)
	if err != nil {
		t.Fatal(err)
	}
	h.Cosignatures = append(h.Cosignatures, c)
	if err := h.Check(); err != nil {
		t.Error(err)
	}
	other := head(tree(4))
	other.Cosignatures = h.Cosignatures
	if other.Check() == nil {
		t.Error("a cosignature of another head is taken")
	}
	h.Cosignatures[0].Hotkey[5] ^= 1
	if h.Check() == nil {
		t.Error("a cosignature of another hotkey is taken")
	}
}
