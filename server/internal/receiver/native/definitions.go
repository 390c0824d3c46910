package native

import (
	"sync"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/share"
)

// definitionBytes is what the series definitions of all streams take in memory where the
// server sets nothing: 1,200,000 of the usual size.
const definitionBytes = 512 << 20

// mostOfABatch is the part of the memory that one batch may take.
const mostOfABatch = 4

// Definitions is the memory that the series definitions of all streams share. A stream
// needs its definitions as long as it lives. So where there is no space for more, the
// stream that has most of them ends, of the caller that has most. Its client opens
// another one and defines there what it still uses.
type Definitions struct {
	size int64

	mu      sync.Mutex
	used    int64
	ended   uint64
	streams map[string]map[*kept]struct{} // by caller
}

// NewDefinitions shares so many bytes.
func NewDefinitions(size int64) *Definitions {
	return &Definitions{size: size, streams: map[string]map[*kept]struct{}{}}
}

// Stats are the bytes that are used now, and how many streams ended for others.
func (d *Definitions) Stats() share.Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return share.Stats{Used: d.used, Refused: d.ended}
}

// kept is what one stream has of the memory.
type kept struct {
	all    *Definitions
	caller string
	gone   chan struct{} // closed when the stream has to end, for another one
	bytes  int64
	closed bool
}

func (d *Definitions) open(caller string) *kept {
	k := &kept{all: d, caller: caller, gone: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.streams[caller] == nil {
		d.streams[caller] = map[*kept]struct{}{}
	}
	d.streams[caller][k] = struct{}{}
	return k
}

// close gives all of it back.
func (k *kept) close() {
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	k.leave()
}

func (k *kept) leave() {
	if k.closed {
		return
	}
	k.closed = true
	k.all.used -= k.bytes
	if of := k.all.streams[k.caller]; len(of) > 1 {
		delete(of, k)
	} else {
		delete(k.all.streams, k.caller)
	}
}

// add takes more of the memory, or says why the stream must end. A batch that takes much
// of it alone is too large; divided it may come again.
func (k *kept) add(more int64) error {
	if more == 0 {
		return nil
	}
	if part := k.all.size / mostOfABatch; more > part {
		return model.Errorf(model.CodeTooLarge, "the new series of this batch take %d bytes, above %d", more, part).WithHint("Send fewer of them at once.")
	}
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	for !k.closed && k.all.used+more > k.all.size {
		most := k.all.most()
		k.all.ended++
		most.leave()
		close(most.gone)
	}
	if k.closed {
		return errMadeWay()
	}
	k.bytes += more
	k.all.used += more
	return nil
}

// most is the stream that makes way: that with most, of the caller that has most.
func (d *Definitions) most() (most *kept) {
	sum := int64(-1)
	for _, of := range d.streams {
		if one, its := largest(of); its > sum {
			most, sum = one, its
		}
	}
	return most
}

// largest is the stream that has most, and what all of them have.
func largest(of map[*kept]struct{}) (most *kept, sum int64) {
	for k := range of {
		if sum += k.bytes; most == nil || k.bytes > most.bytes {
			most = k
		}
	}
	return most, sum
}

func errMadeWay() error {
	return model.Errorf(model.CodeBusy, "the series definitions of this stream made way for those of others").
		WithHint("Open another stream and define there what it uses.")
}
