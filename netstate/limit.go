package netstate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/wallet"
)

// Without a chain nobody is a stranger, so a reader has a limit: [Options.MaxBytes] of
// payloads in all. Who comes when it is full is noted as a stranger is, and shown as
// [NotRead]; what expired makes room. Whom the program names is read whatever the
// limit says.

// NotRead is the verdict on a run whose newest record a reader without a chain did not
// read, since its limit is reached. What it read of it before holds on.
const NotRead = "not_read"

const (
	// defaultMaxBytes is room for 1,000 validators with 64 KB of reports each.
	defaultMaxBytes = 64 << 20
	// leastHeld is what a payload counts for at least: its record costs that much.
	leastHeld = 4 << 10
)

// shelf is what is kept of others, in bytes of payload. It has its own lock: who waits
// for news holds that of the view.
type shelf struct {
	mu    sync.Mutex
	held  map[state.Place]int
	sum   int
	named map[wallet.Account]bool
	full  bool // and it was said
}

// room reports whether a payload has room, in place of what was kept of its run before.
func (n *Node) room(at state.Place, size int) bool {
	s := &n.view.shelf
	s.mu.Lock()
	defer s.mu.Unlock()
	return n.registry.chain != nil || at.Hotkey == n.place.Hotkey || s.named[at.Hotkey] ||
		s.sum-s.held[at]+max(size, leastHeld) <= n.opts.MaxBytes
}

// fits reports whether what is owed may be read: without a chain, when it has room and
// still holds.
func (n *Node) fits(d *debt) bool {
	if n.registry.chain != nil || d.head == nil {
		return true
	}
	r, err := state.Decode(d.head.Record)
	return n.room(d.at, d.size) && err == nil && !n.opts.Now().After(r.Expires())
}

// hold gives payloads their room, and leaves out what has none. Before they were asked
// for they have no size.
func (n *Node) hold(entries []state.Entry, asked bool) []state.Entry {
	return slices.DeleteFunc(entries, func(e state.Entry) bool {
		r, err := n.expected(e.Record)
		if err != nil {
			return false // judged broken
		}
		size := len(e.Payload)
		if !n.room(r.Place, size) {
			n.leave(&e, r.Place, size)
			return true
		}
		if asked {
			n.view.shelf.put(r.Place, max(size, leastHeld))
		}
		return false
	})
}

// put replaces what a place holds; 0 is nothing.
func (s *shelf) put(at state.Place, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sum += size - s.held[at]
	if s.held[at] = size; size == 0 {
		delete(s.held, at)
	}
}

// leave owes a record that has no room, and shows it as that.
func (n *Node) leave(e *state.Entry, at state.Place, size int) {
	owed := *e
	owed.Envelope = *e.Bare()
	d := n.view.owe(e.RunID, at)
	d.head, d.size = &owed, size
	n.view.show(e, Judgement{Verdict: NotRead})
	if !n.view.shelf.full {
		n.view.shelf.full = true
		n.log.Warn("not all records of others are read", "run", e.Run, "reason", n.limited())
	}
}

func (n *Node) limited() string {
	return fmt.Sprintf("not read: limit: this reader keeps %d bytes of others. Set a chain, so that strangers do not count, or MaxBytes (max_bytes); whom you name is read", n.opts.MaxBytes)
}

// name has hotkeys read whatever the limit says.
func (n *Node) name(addresses ...string) {
	n.view.shelf.mu.Lock()
	defer n.view.shelf.mu.Unlock()
	for _, address := range addresses {
		if account, _, err := wallet.ParseAddress(address); err == nil {
			n.view.shelf.named[account] = true
		}
	}
}

// clear makes room where something waits for it: of what expired a note stays.
func (n *Node) clear(ctx context.Context) error {
	s, v, now := &n.view.shelf, &n.view, n.opts.Now()
	if n.registry.chain != nil || len(v.owed) == 0 {
		return nil
	}
	var gone []state.Place
	for at := range s.held {
		if one := v.places[at]; one != nil && now.After(one.record.Expires()) {
			gone = append(gone, at)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	err := n.db.write(ctx, func(tx execer) error {
		for _, at := range gone {
			if err := shorten(ctx, tx, at); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, at := range gone {
		rest := *v.places[at]
		rest.config = config{}
		v.places[at] = &rest
		s.put(at, 0)
	}
	return nil
}

// shorten makes a note of what the database has of a place.
func shorten(ctx context.Context, tx execer, at state.Place) error {
	known, err := lookUp(ctx, tx, at)
	if err != nil || known.hash == "" {
		return err
	}
	whole := new(state.Envelope)
	if err := json.Unmarshal([]byte(known.envelope), whole); err != nil {
		return wrap("remember "+at.String(), err)
	}
	text, err := json.Marshal(whole.Bare())
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "UPDATE state_seen SET envelope = ?, counted = 0 WHERE place = ?", string(text), known.key)
	return wrap("note "+at.String(), err)
}
