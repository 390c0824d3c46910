package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kymogram/kymogram/internal/model"
)

const (
	// heardFor is how long a server that answered is taken to be there.
	heardFor = time.Second
	// pingFor is how long it may take to say so.
	pingFor = time.Second
	// awayFor is how long one that failed is not asked while others are there.
	awayFor = 2 * time.Second
	// deadAfter is how long a server may say nothing while it works.
	deadAfter = 10 * time.Second
	// lateFor is how long no insert waits for a replica that did not get the rows of one.
	lateFor = 10 * time.Second
)

// replica is a server.
type replica struct {
	address string
	conn    driver.Conn
	checks  atomic.Uint64

	mu      sync.Mutex
	heard   time.Time // when it answered last
	away    time.Time // until then it is not asked
	late    time.Time // until then no insert waits for it
	checked map[model.RunID]verdict
}

// alive reports whether a server is worth asking.
func (r *replica) alive(ctx context.Context) bool {
	r.mu.Lock()
	now := time.Now()
	away, heard := r.away.After(now), now.Sub(r.heard) < heardFor
	r.mu.Unlock()
	if away || heard {
		return !away
	}
	ctx, cancel := context.WithTimeout(ctx, pingFor)
	defer cancel()
	return r.note(r.conn.Ping(ctx)) == nil
}

// note notes whether a server answered, and gives the error back.
func (r *replica) note(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); err == nil {
		r.heard = now
	} else {
		r.heard, r.away = time.Time{}, now.Add(awayFor)
	}
	return err
}

func (r *replica) isLate() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.late.After(time.Now())
}

func (r *replica) delay() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = time.Now().Add(lateFor)
}

// living are the replicas of a shard that answer, or all where none does. The first is number
// start.
func living(ctx context.Context, shard []*replica, start uint64) (out []*replica) {
	if len(shard) == 1 {
		return shard
	}
	turned := make([]*replica, 0, len(shard))
	for i := range shard {
		turned = append(turned, shard[(start+uint64(i))%uint64(len(shard))])
	}
	for _, r := range turned {
		if r.alive(ctx) {
			out = append(out, r)
		}
	}
	if len(out) == 0 {
		return turned
	}
	return out
}
