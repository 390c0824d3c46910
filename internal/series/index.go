package series

import (
	"sync"
	"sync/atomic"
)

// Index finds a run's series by text. Looking up takes no lock once a series is
// old, so that goroutines that log at once do not wait for each other: new series
// lie in a map under a lock, which becomes the one that is read when it was asked
// for as often as it has series.
type Index[T any] struct {
	read atomic.Pointer[map[string]*T]

	mu     sync.Mutex
	all    map[string]*T // nil: read has every series
	misses int
}

// NewIndex returns an index without series.
func NewIndex[T any]() *Index[T] { return &Index[T]{all: map[string]*T{}} }

// Find returns nil where there is no such series.
func (x *Index[T]) Find(text string) *T {
	if read := x.read.Load(); read != nil {
		if s := (*read)[text]; s != nil {
			return s
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.all == nil { // it was published between the look and the lock
		return (*x.read.Load())[text]
	}
	s := x.all[text]
	if s == nil {
		return nil
	}
	if x.misses++; x.misses >= len(x.all) {
		x.publish()
	}
	return s
}

// publish makes the map the one that is read; the next new series copies it.
func (x *Index[T]) publish() {
	read := x.all
	x.read.Store(&read)
	x.all, x.misses = nil, 0
}

// Add puts a series in; the caller sees to it that a text is added once.
func (x *Index[T]) Add(text string, s *T) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.all == nil { // it was published, and what is read never changes
		read := *x.read.Load()
		x.all = make(map[string]*T, len(read)+1)
		for text, s := range read {
			x.all[text] = s
		}
	}
	x.all[text] = s
}

// Each visits every series, without a lock.
func (x *Index[T]) Each(visit func(*T)) {
	x.mu.Lock()
	all := x.all
	if all == nil {
		all = *x.read.Load()
	}
	list := make([]*T, 0, len(all))
	for _, s := range all {
		list = append(list, s)
	}
	x.mu.Unlock()
	for _, s := range list {
		visit(s)
	}
}
