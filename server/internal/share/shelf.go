package share

import "sync"

// Shelf keeps values that have learnt something for who needs one next. It never knows
// of more than a number of them, on it and taken from it: the memory that they keep
// is bounded, however many callers there are at a time.
type Shelf[T any] struct {
	most int
	mu   sync.Mutex
	kept []T
	out  int
}

// NewShelf makes a shelf of at most so many values.
func NewShelf[T any](most int) *Shelf[T] { return &Shelf[T]{most: most} }

// Take gives the value that was put back last; false where there is none.
func (s *Shelf[T]) Take() (v T, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.kept) - 1
	if last < 0 {
		return v, false
	}
	v = s.kept[last]
	clear(s.kept[last:])
	s.kept = s.kept[:last]
	s.out++
	return v, true
}

// Put gives a value back, or leaves a new one where there is room; taken is what Take said.
func (s *Shelf[T]) Put(v T, taken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if taken {
		s.out--
	}
	if len(s.kept)+s.out < s.most {
		s.kept = append(s.kept, v)
	}
}
