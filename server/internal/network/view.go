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

// view is what was read of a project, in a parsed form.
type view struct {
	mu    sync.Mutex
	next  uint64 // records below were read
	nodes map[model.RunID]*node
	full  int // runs that had no place
	// deleted are the runs in the trash or purged: they neither vote nor show. They
	// are kept, since a run that is restored counts again.
	deleted []model.RunID
	// legacy are runs without a record, by what their attributes say.
	legacy legacyRuns
	drawn  map[int]drawn // by netuid, -1 for none
}

// node is the newest record of a run.
type node struct {
	runID   model.RunID
	index   uint64
	record  *state.Record
	broken  string // why it is not authentic, empty when it is
	section section
	proofs  []proof
}

type proof struct {
	run      model.RunID
	sequence uint64
	verdict  state.Verdict
	reason   string
}

func newView() *view { return &view{nodes: map[model.RunID]*node{}, drawn: map[int]drawn{}} }

// read takes in the records that are newer than those read before.
func (v *view) read(ctx context.Context, log Log, workspace, project string) error {
	var found []proof
	since := v.next
	for more := true; more; {
		page, err := log.List(ctx, workspace, project, state.Filter{Since: v.next})
		if err != nil {
			v.next = since // what was found is found again
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
			v.take(&page.Entries[i])
		}
		for i := range page.Evidence {
			found = append(found, proven(&page.Evidence[i])...)
		}
		v.next, more = max(v.next, page.Next), page.More
	}
	for _, p := range found { // a run's newest record may stand behind the evidence
		if n := v.nodes[p.run]; n != nil {
			n.proofs = append(n.proofs, p)
		}
	}
	return nil
}

// shown are the newest records of runs that are not deleted.
func (v *view) shown() map[model.RunID]*node {
	if len(v.deleted) == 0 {
		return v.nodes
	}
	out := maps.Clone(v.nodes)
	for _, id := range v.deleted {
		delete(out, id)
	}
	return out
}

// take opens an entry; its signature is checked here, once.
func (v *view) take(e *state.Entry) {
	n := v.nodes[e.RunID]
	if n == nil {
		if len(v.nodes) >= maxNodes {
			v.full++
			return
		}
		n = &node{runID: e.RunID}
		v.nodes[e.RunID] = n
	}
	record, err := e.Open()
	n.index, n.record, n.broken = e.Index, record, ""
	if err != nil {
		n.broken = err.Error()
	}
	if n.section = readSection(e.Payload); record == nil { // it shows for whom it was signed, and not what others put in
		n.record, _ = state.Decode(e.Record)
		n.section = section{}
	}
}

// proven is what two records with one sequence prove, none when they prove nothing.
func proven(e *state.Evidence) []proof {
	verdict, reason, err := e.Check()
	if err != nil {
		return nil
	}
	record, err := state.Decode(e.A.Record)
	if err != nil {
		return nil
	}
	return []proof{{e.RunID, record.Sequence, verdict, reason}}
}

// doubt is the worst that is proven of a node's newest record: an equivocation
// stays for good, a shared key is of one sequence.
func (n *node) doubt() (proof, bool) {
	for _, p := range n.proofs {
		if p.verdict == state.Equivocated {
			return p, true
		}
	}
	for _, p := range n.proofs {
		if n.record != nil && p.sequence == n.record.Sequence {
			return p, true
		}
	}
	return proof{}, false
}
