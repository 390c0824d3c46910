package s3

import (
	"context"
	"sync"
)

// Guard is a lock of all servers that use a place. What it gives ends it.
type Guard interface {
	// Share waits until nobody excludes.
	Share(ctx context.Context) (end func(), err error)
	// Exclude waits until nobody shares or excludes.
	Exclude(ctx context.Context) (end func(), err error)
}

// Guarded makes several servers of one owner use the place. Call it first.
func (s *Store) Guarded(by Guard) { s.sweeping = by }

// alone is the guard of one server.
type alone struct{ mu sync.RWMutex }

// Share implements [Guard].
func (a *alone) Share(context.Context) (end func(), err error) {
	a.mu.RLock()
	return a.mu.RUnlock, nil
}

// Exclude implements [Guard].
func (a *alone) Exclude(context.Context) (end func(), err error) {
	a.mu.Lock()
	return a.mu.Unlock, nil
}
