package state

import (
	"context"
	"sync"
)

// Memory keeps what a reader saw, for longer than the reader lives. netstate
// keeps it in its database; [NewMemory] is for one process.
type Memory interface {
	// Head is the highest record seen at a place, nil for none.
	Head(ctx context.Context, at Place) (*Envelope, error)
	// Advance replaces the head whose hash is from (zeros: none) by a higher one.
	// It reports false when another reader was faster.
	Advance(ctx context.Context, at Place, from Hash, to *Envelope) (bool, error)
	// Proof is what [Memory.Keep] kept for a place, nil for none.
	Proof(ctx context.Context, at Place) (*Proof, error)
	// Keep remembers a proof in place of the one that was kept.
	Keep(ctx context.Context, at Place, proof *Proof) error
}

// NewMemory makes a memory that ends with the process.
func NewMemory() Memory {
	return &inProcess{heads: map[Place]*Envelope{}, proofs: map[Place]*Proof{}}
}

type inProcess struct {
	mu     sync.Mutex
	heads  map[Place]*Envelope
	proofs map[Place]*Proof
}

func (m *inProcess) Head(_ context.Context, at Place) (*Envelope, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.heads[at], nil
}

func (m *inProcess) Advance(_ context.Context, at Place, from Hash, to *Envelope) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var now Hash
	if head := m.heads[at]; head != nil {
		now = head.Hash()
	}
	if now != from {
		return false, nil
	}
	m.heads[at] = to
	return true, nil
}

func (m *inProcess) Proof(_ context.Context, at Place) (*Proof, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.proofs[at], nil
}

func (m *inProcess) Keep(_ context.Context, at Place, proof *Proof) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.proofs[at] = proof
	return nil
}
