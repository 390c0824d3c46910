package statelog

import (
	"context"
	"slices"

	"github.com/kymogram/kymogram/internal/state"
)

// Each list has the hash over all evidence before its end. The hash after every linkEvery
// records is kept, so that a list adds fewer than these and what is new, wherever it ends.
// Evidence is never changed and comes at the end only.
const (
	linkEvery = 64
	// maxChains is how many projects and filters have links; then all are forgotten.
	maxChains = 1024
)

// chainOf is which evidence a chain is over.
type chainOf struct {
	project int64
	role    string
	netuid  int // -1: any
}

// chained is the chain over the evidence before an index.
type chained struct {
	next uint64
	hash state.Hash
}

// chain is [state.ChainEvidence] over the second records of a project below an index.
func (l *Log) chain(ctx context.Context, of chainOf, below uint64) (h state.Hash, err error) {
	links := l.linksOf(of)
	before := 0
	for before < len(links) && links[before].next <= below {
		before++
	}
	var from uint64
	if links = links[:before:before]; before > 0 {
		from, h = links[before-1].next, links[before-1].hash
	}
	rows, err := l.base.QueryContext(ctx, `SELECT r.idx, r.hash FROM records r INDEXED BY records_forked CROSS JOIN runs u ON u.run = r.run `+firstOf+`
		WHERE r.project = ?1 AND r.fork = 1 AND r.idx >= ?5 AND r.idx < ?2 AND `+wanted+` ORDER BY r.idx`,
		of.project, min(below, state.MaxNumber), of.role, of.netuid, min(from, state.MaxNumber))
	if err != nil {
		return h, err
	}
	defer rows.Close()
	for n := 1; rows.Next(); n++ {
		var index uint64
		var raw []byte
		if err := rows.Scan(&index, &raw); err != nil {
			return h, err
		}
		if h = state.ChainEvidence(h, state.Hash(raw)); n%linkEvery == 0 {
			links = append(links, chained{index + 1, h})
		}
	}
	if err = rows.Err(); err == nil && len(links) > before {
		l.keepLinks(of, links)
	}
	return h, err
}

func (l *Log) linksOf(of chainOf) []chained {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.chains[of]
}

// keepLinks keeps them unless somebody else has as many already.
func (l *Log) keepLinks(of chainOf, links []chained) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(links) <= len(l.chains[of]) {
		return
	}
	if len(l.chains) >= maxChains {
		clear(l.chains)
	}
	l.chains[of] = slices.Clip(links)
}
