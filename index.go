package kymogram

import (
	"sync"
	"sync/atomic"
)

// index finds a run's series by text. Looking up takes no lock once a series is
// old, so that goroutines that log at once do not meet: new series lie in a map
// under a lock, which becomes the one that is read when it was asked for as
// often as it has series.
type index struct {
	read atomic.Pointer[map[string]*Series]

	mu     sync.Mutex
	all    map[string]*Series
	misses int
}

func newIndex() *index { return &index{all: map[string]*Series{}} }

func (x *index) find(text string) *Series {
	if read := x.read.Load(); read != nil {
		if s := (*read)[text]; s != nil {
			return s
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
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
func (x *index) publish() {
	read := x.all
	x.read.Store(&read)
	x.all, x.misses = nil, 0
}

func (x *index) add(text string, s *Series) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.all == nil { // it was published, and what is read never changes
		read := *x.read.Load()
		x.all = make(map[string]*Series, len(read)+1)
		for text, s := range read {
			x.all[text] = s
		}
	}
	x.all[text] = s
}

// each visits every series.
func (x *index) each(visit func(*Series)) {
	x.mu.Lock()
	all := x.all
	if all == nil {
		all = *x.read.Load()
	}
	list := make([]*Series, 0, len(all))
	for _, s := range all {
		list = append(list, s)
	}
	x.mu.Unlock()
	for _, s := range list {
		visit(s)
	}
}
