package subtensor

import (
	"context"
	"crypto/rand"

	"github.com/coder/websocket/wsjson"
)

// pending is a subscription whose number the client does not know yet.
type pending struct {
	id    string
	begin func()
}

// subscribe registers work that begins once the answer is out, so that no
// notification comes before it.
func (s *session) subscribe(ctx context.Context, name string, work func(ctx context.Context, send func(any) error)) string {
	id := rand.Text()[:16]
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subs[id] = cancel
	s.waiting = append(s.waiting, pending{id, func() {
		s.work.Go(func() {
			work(ctx, func(v any) error {
				return wsjson.Write(ctx, s.ws, map[string]any{
					"jsonrpc": "2.0", "method": name, "params": map[string]any{"subscription": id, "result": v},
				})
			})
		})
	}})
	return id
}

// start begins what was subscribed since the last answer.
func (s *session) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.waiting {
		p.begin()
	}
	s.waiting = nil
}

func (s *session) unsubscribe(p params) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cancel := s.subs[p.text(0)]
	if cancel == nil {
		return false, nil
	}
	cancel()
	delete(s.subs, p.text(0))
	return true, nil
}

// heads sends the best header and every one after it.
func (s *session) heads(ctx context.Context, method string) (any, error) {
	names := map[string]string{
		"chain_subscribeNewHeads": "chain_newHead", "chain_subscribeNewHead": "chain_newHead",
		"chain_subscribeFinalizedHeads": "chain_finalizedHead", "chain_subscribeAllHeads": "chain_allHead",
	}
	n := s.node
	return s.subscribe(ctx, names[method], func(ctx context.Context, send func(any) error) {
		n.mu.Lock()
		next := len(n.blocks) - 1
		n.mu.Unlock()
		for {
			n.mu.Lock()
			fresh, grown := n.blocks[next:], n.grown
			n.mu.Unlock()
			for _, b := range fresh {
				if send(header(b)) != nil {
					return
				}
			}
			next += len(fresh)
			select {
			case <-grown:
			case <-ctx.Done():
				return
			}
		}
	}), nil
}

// watch submits an extrinsic and tells its way into a block, which is final.
func (s *session) watch(ctx context.Context, p params) (any, error) {
	raw, err := p.bytes(0)
	if err != nil {
		return nil, err
	}
	b, err := s.node.submit(ctx, raw)
	if err != nil {
		return nil, err
	}
	return s.subscribe(ctx, "author_extrinsicUpdate", func(_ context.Context, send func(any) error) {
		hash := shown(b.hash[:])
		for _, status := range []any{"ready", map[string]any{"broadcast": []string{"peer"}}, map[string]any{"inBlock": hash}, map[string]any{"finalized": hash}} {
			if send(status) != nil {
				return
			}
		}
	}), nil
}
