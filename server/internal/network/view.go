package network

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
)

// Log is where records come from; package statelog is one.
type Log interface {
	// List is the newest record of every run of a project and the evidence, by index.
	List(ctx context.Context, workspace, project string, f state.Filter) (*state.Page, error)
	// Grown waits until a project has more records than size, or until ctx ends.
	Grown(ctx context.Context, workspace, project string, size uint64) error
}

// maxNodes bounds what is kept of one project, also where a stranger with a key
// makes runs without end.
const maxNodes = 8 * MaxMiners

// turn bounds what one answer reads, in bytes: a project of any size is judged in
// several answers, each of which says how far it is.
type turn struct{ left int }

const (
	turnBytes = 16 << 20
	entryCost = 8 << 10 // a signature takes as long as so many bytes
)

func newTurn() *turn { return &turn{turnBytes} }

func (t *turn) take(bytes int) { t.left -= entryCost + bytes }

// view is what was read of a project, in a parsed form.
type view struct {
	mu sync.Mutex
	// next is what the records that were read are below, size how many there are.
	next, size uint64
	nodes      map[model.RunID]*node
	proofs     map[model.RunID][]proof
	full       int // runs that had no place
	// deleted are the runs in the trash or purged: they neither vote nor show. They
	// are kept, since a run that is restored counts again.
	deleted []model.RunID
	// said is what the validators that were last shown say, fresh the payloads of
	// those that were read since.
	said  map[model.RunID]said
	fresh map[model.RunID][]byte
	// legacy are runs without a record, by what their attributes say.
	legacy legacyRuns
	drawn  map[int]drawn // by netuid, -1 for none
}

// node is the newest record of a run. It is never changed once it is kept.
type node struct {
	runID   model.RunID
	index   uint64
	record  *state.Record
	broken  string  // why it is not authentic, empty when it is
	section section // of a miner; what validators say is in view.said
}

// said is the section of the record at an index.
type said struct {
	index   uint64
	section *section
}

type proof struct {
	sequence uint64
	verdict  state.Verdict
	reason   string
}

func newView() *view {
	return &view{nodes: map[model.RunID]*node{}, proofs: map[model.RunID][]proof{}, said: map[model.RunID]said{}, fresh: map[model.RunID][]byte{}, drawn: map[int]drawn{}}
}

// read takes in records that are newer than those read before, as many as the turn
// allows.
func (v *view) read(ctx context.Context, log Log, workspace, project string, t *turn) error {
	for more := true; more && t.left > 0; {
		page, err := log.List(ctx, workspace, project, state.Filter{Since: v.next})
		if err != nil {
			return err
		}
		if !slices.Equal(v.deleted, page.Deleted) {
			v.deleted = page.Deleted
			clear(v.drawn)
		}
		unseen := make([]*state.Envelope, len(page.Entries))
		for i := range page.Entries {
			unseen[i] = &page.Entries[i].Envelope
		}
		state.VerifyAll(unseen)
		for i := range page.Entries {
			t.take(len(page.Entries[i].Payload))
			v.take(&page.Entries[i])
		}
		for i := range page.Evidence {
			t.take(len(page.Evidence[i].A.Payload) + len(page.Evidence[i].B.Payload))
			v.convict(&page.Evidence[i])
		}
		v.next, more = max(v.next, page.Next), page.More
		v.size = max(page.Size, v.next)
	}
	return nil
}

// picture is what a document is made of: nothing in it changes any more.
type picture struct {
	next, size uint64
	nodes      map[model.RunID]*node // of runs that are not deleted
	proofs     map[model.RunID][]proof
	legacy     []*legacyNode // whose runs have no record
	unread     int           // runs that may be legacy and were not looked at yet
	full       int
}

func (v *view) picture() *picture {
	p := &picture{v.next, v.size, maps.Clone(v.nodes), maps.Clone(v.proofs), nil, v.legacy.unread, v.full}
	for id, n := range v.legacy.nodes {
		if p.nodes[id] == nil {
			p.legacy = append(p.legacy, n)
		}
	}
	for _, id := range v.deleted {
		delete(p.nodes, id)
	}
	return p
}

// take opens an entry; its signature is checked here, once.
func (v *view) take(e *state.Entry) {
	if v.nodes[e.RunID] == nil && len(v.nodes) >= maxNodes {
		v.full++
		return
	}
	n := &node{runID: e.RunID, index: e.Index}
	v.nodes[e.RunID] = n
	record, err := e.Open()
	if err == nil {
		err = state.CheckPayload(e.Payload)
	}
	switch {
	case err != nil: // it shows for whom it was signed, and not what others put in
		n.broken = err.Error()
		record, _ = state.Decode(e.Record)
	case record.Role == state.Validator:
		v.fresh[e.RunID] = e.Payload
	default:
		n.section = readSection(e.Payload)
	}
	n.record = record
}

// hear opens what validators say, and forgets what others do: of a project's
// validators only those that are shown are kept in a parsed form. It returns what
// was read, and of how many nodes nothing was yet.
func (v *view) hear(ctx context.Context, log Log, workspace, project string, of []*node, t *turn) (map[model.RunID]said, int, error) {
	out, waiting := make(map[model.RunID]said, len(of)), 0
	for _, n := range of {
		known, ok := v.said[n.runID]
		if !ok || known.index != n.index {
			payload, err := v.payload(ctx, log, workspace, project, n, t)
			if err != nil {
				return nil, 0, err
			}
			if payload == nil {
				waiting++
				continue
			}
			found := readSection(payload)
			known = said{n.index, &found}
			v.said[n.runID] = known
		}
		out[n.runID] = known
	}
	clear(v.fresh)
	if len(v.said) > MaxValidators {
		v.said = maps.Clone(out)
	}
	return out, waiting, nil
}

// payload is what a node says, nil when the turn is over, or a newer record came.
func (v *view) payload(ctx context.Context, log Log, workspace, project string, n *node, t *turn) ([]byte, error) {
	switch fresh := v.fresh[n.runID]; {
	case v.nodes[n.runID] != n:
		return nil, nil
	case fresh != nil:
		return fresh, nil
	case n.broken != "":
		return []byte{}, nil
	case t.left <= 0:
		return nil, nil
	}
	page, err := log.List(ctx, workspace, project, state.Filter{Since: n.index, Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(page.Entries) == 0 || page.Entries[0].Index != n.index {
		return nil, nil
	}
	t.take(len(page.Entries[0].Payload))
	_, err = page.Entries[0].Open()
	if err != nil || page.Entries[0].Payload == nil {
		return []byte{}, nil //nolint:nilerr // it was changed since it was judged, which data verify finds
	}
	return page.Entries[0].Payload, nil
}

// convict keeps what two records with one sequence prove.
func (v *view) convict(e *state.Evidence) {
	known := v.proofs[e.RunID]
	if known == nil && len(v.proofs) >= maxNodes {
		return
	}
	verdict, reason, err := e.Check()
	if err != nil {
		return
	}
	if record, err := state.Decode(e.A.Record); err == nil {
		v.proofs[e.RunID] = append(slices.Clip(known), proof{record.Sequence, verdict, reason})
	}
}

// doubt is the worst that is proven of a node's newest record: an equivocation
// stays for good, a shared key is of one sequence.
func (n *node) doubt(proofs []proof) (proof, bool) {
	for _, p := range proofs {
		if p.verdict == state.Equivocated {
			return p, true
		}
	}
	for _, p := range proofs {
		if n.record != nil && p.sequence == n.record.Sequence {
			return p, true
		}
	}
	return proof{}, false
}
