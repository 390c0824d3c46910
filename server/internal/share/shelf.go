package share

import "sync"

// Shelf keeps values that have learnt something for who needs one next. It never knows
// of more than a number of them, on it and taken from it, nor of more bytes that they
// know together: the memory that they keep is bounded, however many callers there are at
// a time, and whoever is alone may have most of it.
type Shelf[T any] struct {
	most, room int
	mu         sync.Mutex
	kept       []Shelved[T]
	out        int
	known      int // bytes of all, of those that are out as they were
}

// Shelved is a value of a shelf, or a new one that may be put there.
type Shelved[T any] struct {
	Value T
	known int // bytes, when it was taken
	taken bool
}

// NewShelf makes a shelf of at most so many values, which know at most so many bytes together.
func NewShelf[T any](most, room int) *Shelf[T] { return &Shelf[T]{most: most, room: room} }

// Take gives the value that was put back last; false where there is none.
func (s *Shelf[T]) Take() (v Shelved[T], ok bool) {
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

// Put gives a value back, or leaves a new one where there is room. False says that there
// is none for what it knows: it has to forget, and then comes again.
func (s *Shelf[T]) Put(v Shelved[T], known int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known > 0 && s.known-v.known+known > s.room {
		return false
	}
	if v.taken {
		s.out--
		s.known -= v.known
	}
	if len(s.kept)+s.out < s.most {
		s.known += known
		s.kept = append(s.kept, Shelved[T]{Value: v.Value, known: known, taken: true})
	}
	return true
}
