package transparency

import (
	"fmt"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/kymogram/kymogram/internal/state"
)

// Inclusion ties a record to a head: the record is the leaf Index of the log.
type Inclusion struct {
	Head   SignedHead   `json:"head"`
	Index  uint64       `json:"index"`
	Record []byte       `json:"record"` // canonical bytes
	Hashes []state.Hash `json:"hashes"`
}

// Leaf is the leaf hash of a record.
func Leaf(record []byte) []byte { return rfc6962.DefaultHasher.HashLeaf(record) }

// Check verifies the head and the path from the record to its root.
func (i *Inclusion) Check() error {
	if err := i.Head.Check(); err != nil {
		return err
	}
	err := proof.VerifyInclusion(rfc6962.DefaultHasher, i.Index, i.Head.Size, Leaf(i.Record), plain(i.Hashes), i.Head.Root[:])
	if err != nil {
		return broken("record %s is not leaf %d of the tree head of size %d: %v", state.HashOf(i.Record), i.Index, i.Head.Size, err)
	}
	return nil
}

func plain(hashes []state.Hash) [][]byte {
	out := make([][]byte, len(hashes))
	for i := range hashes {
		out[i] = hashes[i][:]
	}
	return out
}

// CheckConsistency verifies that the later of two heads of one log continues the
// earlier one.
func CheckConsistency(from, to *SignedHead, hashes []state.Hash) error {
	if err := sameLog(from, to); err != nil {
		return err
	}
	if from.Size == 0 {
		return nil
	}
	if err := proof.VerifyConsistency(rfc6962.DefaultHasher, from.Size, to.Size, plain(hashes), from.Root[:], to.Root[:]); err != nil {
		return broken("the log of size %d does not continue the one of size %d: its history was changed", to.Size, from.Size)
	}
	return nil
}

// sameLog checks both signatures and that both heads are of one log.
func sameLog(a, b *SignedHead) error {
	for _, h := range []*SignedHead{a, b} {
		if err := h.Check(); err != nil {
			return err
		}
	}
	if a.Key != b.Key || a.Workspace != b.Workspace || a.Project != b.Project {
		return broken("the tree heads are of two logs: %s/%s of key %s, and %s/%s of key %s", a.Workspace, a.Project, a.Key, b.Workspace, b.Project, b.Key)
	}
	return nil
}

// Split is a server's own signature under two histories: two heads of one size
// with two roots, or two heads with two records at one place.
type Split struct {
	A      SignedHead `json:"a"`
	B      SignedHead `json:"b"`
	PlaceA *Inclusion `json:"place_a,omitempty"`
	PlaceB *Inclusion `json:"place_b,omitempty"`
}

// SplitOf makes the proof from two inclusions of different records at one place.
func SplitOf(a, b *Inclusion) *Split { return &Split{A: a.Head, B: b.Head, PlaceA: a, PlaceB: b} }

// Check tells what the split proves, or why it proves nothing.
func (s *Split) Check() (string, error) {
	if err := sameLog(&s.A, &s.B); err != nil {
		return "", err
	}
	told := fmt.Sprintf("the log of %s/%s with key %s has two histories: ", s.A.Workspace, s.A.Project, s.A.Key)
	if s.A.Size == s.B.Size && s.A.Root != s.B.Root {
		return told + fmt.Sprintf("two tree heads of size %d have two roots", s.A.Size), nil
	}
	if s.PlaceA == nil || s.PlaceB == nil || s.PlaceA.Index != s.PlaceB.Index {
		return "", broken("the tree heads have the sizes %d and %d: that is growth, unless two records are shown at one place", s.A.Size, s.B.Size)
	}
	a, b := *s.PlaceA, *s.PlaceB
	a.Head, b.Head = s.A, s.B
	for _, i := range []*Inclusion{&a, &b} {
		if err := i.Check(); err != nil {
			return "", err
		}
	}
	if state.HashOf(a.Record) == state.HashOf(b.Record) {
		return "", broken("both histories have the same record at %d", a.Index)
	}
	return told + fmt.Sprintf("leaf %d is record %s in one and record %s in the other", a.Index, state.HashOf(a.Record), state.HashOf(b.Record)), nil
}
