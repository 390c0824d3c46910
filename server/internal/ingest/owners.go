package ingest

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// An RL environment belongs to one process at a time: its steps are counted
// there. Two writers of one attempt share it when the times of their points
// overlap, so they lived together. A restart is another attempt; a worker that
// was started again, or was handed the environment, logs behind the one before.
// Neither counts, in whatever order the spools arrive.
const (
	// clockSkew is how much the clocks of two hosts may differ.
	clockSkew = time.Second
	// keptClaims are the writers that are remembered of an environment.
	keptClaims = 8
	// mostShared bounds what is kept of one run.
	mostShared = 1_000
)

// owner is a writer as others are told of it.
type owner struct {
	writer  model.WriterID
	attempt uint32
	host    string
	pid     int64
	rank    *int64
}

// owners knows who logs which environment of a run, while somebody writes to it.
type owners struct {
	mu     sync.Mutex
	claims map[string][]claim
	shared []sharing // grows only
	known  map[model.SharedEnvironment]bool
}

// claim is the time in which a writer logged an environment.
type claim struct {
	*owner
	fromNs, toNs int64
}

// sharing is a pair of writers of one environment.
type sharing struct {
	env    string
	timeNs int64
	a, b   *owner
}

// key is the same whoever was found first.
func (s *sharing) key() model.SharedEnvironment {
	a, b := s.a.writer, s.b.writer
	if bytes.Compare(a[:], b[:]) > 0 {
		a, b = b, a
	}
	return model.SharedEnvironment{Env: s.env, Writers: [2]model.WriterID{a, b}}
}

func (s *sharing) update() model.Update {
	return model.Update{Op: model.OpShared, TimeNs: s.timeNs, Env: s.env, Other: &s.b.writer}
}

// environment is what an RL series belongs to.
func environment(k *model.SeriesKey) (env string, ok bool) {
	if k.Scale != model.ScaleEnvironment && k.Scale != model.ScaleEpisode {
		return "", false
	}
	for i := range k.Labels {
		if k.Labels[i].Name == model.LabelEnv {
			return k.Labels[i].Value, true
		}
	}
	return "", false
}

// claim notes the environments of a batch and finds who shares them; settle keeps
// what it found once the batch is stored. It costs a look-up a series of the
// batch, and nothing a point.
func (o *owners) claim(me *owner, b *model.Batch) (found []sharing) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range b.Groups {
		g := &b.Groups[i]
		if g.Rows() == 0 {
			continue
		}
		// Rows are in the order of the log calls.
		first, last := g.TimeNs[0], g.TimeNs[g.Rows()-1]
		for c := range g.Columns {
			if env, ok := environment(&g.Columns[c].Series); ok {
				found = o.extend(me, env, min(first, last), max(first, last), found)
			}
		}
	}
	return found
}

func (o *owners) extend(me *owner, env string, fromNs, toNs int64, found []sharing) []sharing {
	claims := o.claims[env]
	at := slices.IndexFunc(claims, func(c claim) bool { return c.writer == me.writer })
	if at < 0 {
		claims = append(claims, claim{owner: me, fromNs: fromNs, toNs: toNs})
		if len(claims) > keptClaims { // the one that ended first goes
			claims = slices.DeleteFunc(claims, oldest(claims))
		}
		if o.claims == nil {
			o.claims = map[string][]claim{}
		}
		o.claims[env] = claims
		at = len(claims) - 1
	}
	mine := &claims[at]
	mine.fromNs, mine.toNs = min(mine.fromNs, fromNs), max(mine.toNs, toNs)
	for i := range claims {
		other := &claims[i]
		if i == at || !mine.overlaps(other) || len(o.shared)+len(found) >= mostShared {
			continue
		}
		pair := sharing{env, max(mine.fromNs, other.fromNs), me, other.owner}
		if !o.known[pair.key()] && !slices.ContainsFunc(found, func(s sharing) bool { return s.key() == pair.key() }) {
			found = append(found, pair)
		}
	}
	return found
}

// oldest picks the claim, but for the newest, that ended first.
func oldest(claims []claim) func(claim) bool {
	gone := claims[0]
	for _, c := range claims[1 : len(claims)-1] {
		if c.toNs < gone.toNs {
			gone = c
		}
	}
	return func(c claim) bool { return c.writer == gone.writer }
}

func (c *claim) overlaps(other *claim) bool {
	slack := int64(0)
	if c.host != other.host {
		slack = int64(clockSkew)
	}
	return c.attempt == other.attempt && min(c.toNs, other.toNs)-max(c.fromNs, other.fromNs) >= slack
}

// settle keeps what was found and is stored now; it counts what is new.
func (o *owners) settle(found []sharing) (fresh uint64) {
	if len(found) == 0 {
		return 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known == nil {
		o.known = map[model.SharedEnvironment]bool{}
	}
	for _, s := range found {
		if !o.known[s.key()] {
			o.known[s.key()] = true
			o.shared = append(o.shared, s)
			fresh++
		}
	}
	return fresh
}

// news tells a writer who shares with it, from a place in the list on.
func (o *owners) news(w model.WriterID, from int) (with []model.SharedWith, next int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.shared[from:] {
		other := s.b
		switch w {
		case s.a.writer:
		case s.b.writer:
			other = s.a
		default:
			continue
		}
		with = append(with, model.SharedWith{Env: s.env, Writer: other.writer, Host: other.host, PID: other.pid, Rank: other.rank})
	}
	return with, len(o.shared)
}
