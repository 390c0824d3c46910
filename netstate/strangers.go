package netstate

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/internal/state"
)

// A stranger is a hotkey that the chain does not let speak in its role, and that never
// counted before. Its payloads and its evidence are not asked for: a reader keeps a note
// of the newest record that the hotkey signed. When it counts, it cannot fall behind the
// note; all else is asked for then.

// debt is what was not read of a run, since its speaker is a stranger or the run is deleted.
type debt struct {
	at    state.Place
	head  *state.Entry // the newest record, without its payload; nil: it was read
	size  int          // of the payload that had no room; 0: it was not asked for
	pairs []pair
}

// pair is a sequence that was signed twice, with the hash of the second record.
type pair struct {
	run      model.RunID
	sequence uint64
	second   state.Hash
}

const (
	// atOnce is how many payloads are asked for at a time, and held in memory.
	atOnce = 8
	// longestNote is above what a record without its payload takes in the database.
	longestNote = state.MaxRecord*4/3 + 512
)

// owe notes that something of a run was not read.
func (v *view) owe(run model.RunID, at state.Place) *debt {
	if v.owed[run] == nil {
		v.owed[run] = &debt{at: at}
	}
	return v.owed[run]
}

// paid takes that back.
func (v *view) paid(run model.RunID, done func(*debt)) {
	if d := v.owed[run]; d != nil {
		if done(d); d.head == nil && len(d.pairs) == 0 {
			delete(v.owed, run)
		}
	}
}

// counts reports whether records of a place are read. before: they were, when they
// counted; what a hotkey did since then speaks against it when it counts again.
func (n *Node) counts(at state.Place, before bool) bool {
	return before || at.Hotkey == n.place.Hotkey || n.registry.permits(at.Role, at.Hotkey) && n.room(at, 0)
}

// receive judges what counts of a page, and keeps notes of the rest.
func (n *Node) receive(ctx context.Context, page *state.Page) error {
	if len(page.Entries)+len(page.Evidence) == 0 {
		return nil
	}
	if err := n.verify(ctx, page); err != nil {
		return err
	}
	p := parting{node: n, deleted: map[model.RunID]bool{}}
	for _, id := range page.Deleted {
		p.deleted[id] = true
	}
	err := n.db.write(ctx, func(tx execer) error {
		p.tx, p.due, p.pairs = tx, state.Page{}, nil
		for i := range page.Entries {
			if err := p.entry(ctx, &page.Entries[i]); err != nil {
				return err
			}
		}
		for i := range page.Evidence {
			if err := p.evidence(ctx, &page.Evidence[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return n.settle(ctx, &p.due, p.pairs)
}

// parting divides a page: due is what counts, pairs the evidence that is to be asked for.
type parting struct {
	node    *Node
	tx      execer
	deleted map[model.RunID]bool
	due     state.Page
	pairs   []pair
}

// entry decides about one record. What the database has of it is not asked for again.
func (p *parting) entry(ctx context.Context, e *state.Entry) error {
	v := &p.node.view
	r, err := p.node.expected(e.Record)
	if err != nil {
		v.show(e, Judgement{Verdict: state.Broken, Reason: err.Error()})
		return nil
	}
	known, err := lookUp(ctx, p.tx, r.Place)
	if err != nil {
		return err
	}
	if e.IsBare(r) && known.counted {
		known.complete(e)
	}
	stranger := !p.node.counts(r.Place, known.counted)
	if stranger || e.IsBare(r) {
		owed := *e
		owed.Envelope = *e.Bare()
		d := v.owe(e.RunID, r.Place)
		d.head, d.size = &owed, 0
	}
	if stranger && p.node.registry.chain == nil {
		p.node.leave(e, r.Place, 0)
	} else if stranger {
		v.show(e, Judgement{Verdict: state.Unregistered})
	}
	if stranger {
		return known.note(ctx, p.tx, r, &e.Envelope)
	}
	if !e.IsBare(r) || !p.deleted[e.RunID] {
		p.due.Entries = append(p.due.Entries, *e)
	}
	return nil
}

// evidence decides about one pair.
func (p *parting) evidence(ctx context.Context, e *state.Evidence) error {
	if e.A == nil || e.B == nil {
		return nil
	}
	r, err := p.node.expected(e.B.Record)
	if err != nil {
		return nil //nolint:nilerr // it proves nothing here
	}
	known, err := lookUp(ctx, p.tx, r.Place)
	if err != nil {
		return err
	}
	stranger := !p.node.counts(r.Place, known.counted)
	if !stranger && !e.B.IsBare(r) {
		p.due.Evidence = append(p.due.Evidence, *e)
		return nil
	}
	one, d := pair{e.RunID, r.Sequence, e.B.Hash()}, p.node.view.owe(e.RunID, r.Place)
	if !slices.Contains(d.pairs, one) {
		d.pairs = append(d.pairs, one)
	}
	if !stranger && !p.deleted[e.RunID] {
		p.pairs = append(p.pairs, one)
	}
	return nil
}

// expected decodes a record that is of a place where this reader looks.
func (n *Node) expected(record []byte) (*state.Record, error) {
	r, err := state.Decode(record)
	if err != nil {
		return nil, err
	}
	here := n.reader(nil, "").Expect
	return r, here.Check(r.Place)
}

// known is what the database has of a place.
type known struct {
	key, hash, envelope string // envelope is empty where it was not asked for
	counted             bool
}

func lookUp(ctx context.Context, tx execer, at state.Place) (k known, err error) {
	k.key = keyOf(at)
	err = tx.QueryRowContext(ctx, "SELECT hash, counted, envelope FROM state_seen WHERE place = ?", k.key).Scan(&k.hash, &k.counted, &k.envelope)
	if errors.Is(err, sql.ErrNoRows) {
		return k, nil
	}
	return k, wrap("look for "+at.String(), err)
}

// complete gives a record the payload that the database has of it.
func (k known) complete(e *state.Entry) {
	var whole state.Envelope
	if k.hash == e.Hash().String() && json.Unmarshal([]byte(k.envelope), &whole) == nil {
		e.Payload = whole.Payload
	}
}

// note keeps the newest record that a stranger signed, without its payload. A forged one
// would take the place of a true one, and the server could go back behind that. Programs
// of before kept payloads, and notes that nobody signed.
func (k known) note(ctx context.Context, tx execer, r *state.Record, e *state.Envelope) error {
	hash := e.Hash().String()
	if k.hash == hash && len(k.envelope) <= longestNote {
		return nil
	}
	if _, err := e.Signed(); err != nil {
		return nil //nolint:nilerr // the hotkey never said it
	}
	var noted state.Envelope
	if k.hash != "" && k.hash != hash && json.Unmarshal([]byte(k.envelope), &noted) == nil {
		if before, err := noted.Signed(); err == nil && before.Sequence >= r.Sequence {
			return nil
		}
	}
	text, err := json.Marshal(e.Bare())
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO state_seen (place, hash, envelope) VALUES (?, ?, ?)
		ON CONFLICT(place) DO UPDATE SET hash = excluded.hash, envelope = excluded.envelope WHERE counted = 0`, k.key, hash, string(text))
	return wrap("note a stranger", err)
}

// welcome reads what is owed of strangers that count now, and of runs that were restored.
func (n *Node) welcome(ctx context.Context) (changed bool, err error) {
	if err := n.clear(ctx); err != nil {
		return false, err
	}
	due, pairs := state.Page{}, []pair(nil)
	for id, d := range n.view.owed {
		if n.view.deleted[id] || !n.counts(d.at, false) || !n.fits(d) {
			continue
		}
		if d.head != nil {
			due.Entries = append(due.Entries, *d.head)
		}
		pairs = append(pairs, d.pairs...)
	}
	if len(due.Entries)+len(pairs) == 0 {
		return false, nil
	}
	slices.SortFunc(due.Entries, func(a, b state.Entry) int { return cmp.Compare(a.Index, b.Index) })
	return true, wrap("read who counts now", n.settle(ctx, &due, pairs))
}

// settle judges what counts. What has no payload is asked for, some at a time.
func (n *Node) settle(ctx context.Context, due *state.Page, pairs []pair) error {
	var bare []state.Entry
	whole := &state.Page{Evidence: due.Evidence}
	for i := range due.Entries {
		if r, err := state.Decode(due.Entries[i].Record); err == nil && due.Entries[i].IsBare(r) {
			bare = append(bare, due.Entries[i])
		} else {
			whole.Entries = append(whole.Entries, due.Entries[i])
		}
	}
	whole.Entries = n.hold(whole.Entries, true)
	if err := n.take(ctx, whole); err != nil {
		return err
	}
	for some := range slices.Chunk(pairs, atOnce) {
		found, err := each(ctx, some, n.askPair)
		if err == nil {
			err = n.take(ctx, &state.Page{Evidence: found})
		}
		if err != nil {
			return err
		}
		for i := range found {
			n.view.paid(found[i].RunID, func(d *debt) {
				d.pairs = slices.DeleteFunc(d.pairs, func(p pair) bool { return p.second == found[i].B.Hash() })
			})
		}
	}
	for some := range slices.Chunk(bare, atOnce) {
		found, err := each(ctx, n.hold(some, false), n.askHead)
		if err == nil {
			err = n.take(ctx, &state.Page{Entries: n.hold(found, true)})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// each asks for some things at once, and leaves out what the server has no more.
func each[In, Out any](ctx context.Context, all []In, ask func(context.Context, *In) (*Out, error)) ([]Out, error) {
	found := make([]*Out, len(all))
	group, ctx := errgroup.WithContext(ctx)
	for i := range all {
		group.Go(func() (err error) {
			found[i], err = ask(ctx, &all[i])
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	out := make([]Out, 0, len(all))
	for _, one := range found {
		if one != nil {
			out = append(out, *one)
		}
	}
	return out, nil
}

// askHead asks for the newest record of a run, nil when there is none: the run is gone,
// or the server was restored. It may be a later one than was listed.
func (n *Node) askHead(ctx context.Context, listed *state.Entry) (*state.Entry, error) {
	var newest state.Newest
	there, err := n.ask(ctx, remote.RunPath(listed.RunID.String(), "state"), nil, &newest)
	if err != nil || !there || newest.Head == nil {
		return nil, err
	}
	before, err := state.Decode(listed.Record)
	if err != nil {
		return nil, err
	}
	if now, err := state.Decode(newest.Head.Record); err == nil && now.Place != before.Place {
		return nil, model.Errorf(model.CodeInternal, "the server lists a record of %s, and shows one of %s in its place", before.Place, now.Place)
	}
	newest.Head.RunID = listed.RunID
	return newest.Head, nil
}

// askPair asks for both records of a sequence, nil when the run is gone.
func (n *Node) askPair(ctx context.Context, p *pair) (*state.Evidence, error) {
	var page state.Page
	query := url.Values{"after": {strconv.FormatUint(p.sequence-1, 10)}, "limit": {"1"}} // a page ends behind a sequence
	there, err := n.ask(ctx, remote.RunPath(p.run.String(), "state", "history"), query, &page)
	if err != nil || !there {
		return nil, err
	}
	out := &state.Evidence{RunID: p.run}
	for i := range page.Entries {
		switch e := &page.Entries[i]; {
		case e.Hash() == p.second:
			out.B = &e.Envelope
		case e.Sequence == p.sequence && !e.Fork:
			out.A = &e.Envelope
		}
	}
	if out.A == nil || out.B == nil {
		return nil, errWithheld()
	}
	return out, nil
}

func errWithheld() error {
	return model.Errorf(model.CodeInternal, "read the network's records: the server does not send the evidence that it says it has")
}

// ask reads a document of a run; there is false when the run is deleted.
func (n *Node) ask(ctx context.Context, path string, query url.Values, into any) (there bool, err error) {
	doc, err := n.server.Document(ctx, http.MethodGet, path, query)
	if code := model.CodeOf(err); err != nil && (code == model.CodeNotFound || code == model.CodeRunDeleted) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(doc, into)
	}
	return err == nil, err
}

// stranger says why a run's newest record was not read, "" when it was.
func (n *Node) stranger(run model.RunID) string {
	d := n.view.owed[run]
	if d == nil || d.head == nil {
		return ""
	}
	if n.registry.chain == nil {
		return n.limited()
	}
	return cmp.Or(n.registry.refusal(d.at.Role, d.at.Hotkey), "it was not read yet")
}
