package records

import (
	"context"
	"fmt"
	"time"

	"github.com/kymogram/kymogram/internal/state"
)

// Options say what a person knows of the records before they are read.
type Options struct {
	Netuid *uint16
	Now    func() time.Time
}

// Fault is why one record of a history does not hold.
type Fault struct {
	Sequence uint64 `json:"sequence"`
	Reason   string `json:"reason"`
}

// Report is what the check of a history found.
type Report struct {
	Run       string           `json:"run"`
	Records   int              `json:"records"`
	Dropped   int              `json:"payloads_dropped"`
	Newest    *state.Judgement `json:"newest"` // of the last record that holds
	Faults    []Fault          `json:"faults"`
	Proofs    []state.Proof    `json:"proofs"` // of two records with one sequence
	Reasons   []string         `json:"reasons"`
	Equivocal bool             `json:"equivocated"`
}

// OK reports whether nothing speaks against the history.
func (r *Report) OK() bool {
	return len(r.Faults) == 0 && !r.Equivocal && (r.Newest == nil || r.Newest.Verdict.Trusted() || r.Newest.Verdict == state.Stale)
}

// Verify checks every record of a run: signature, place, order and links. done is
// told of each.
func (s Server) Verify(ctx context.Context, run *Run, o Options, done func()) (*Report, error) {
	c := newChain(run, o)
	err := s.History(ctx, run, func(e *state.Entry) error {
		c.add(e)
		done()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c.end(ctx)
}

// chain checks records as they come, by sequence.
type chain struct {
	report Report
	expect state.Expect
	now    func() time.Time
	last   *state.Entry
	record *state.Record
}

func newChain(run *Run, o Options) *chain {
	c := &chain{
		report: Report{Run: run.String(), Faults: []Fault{}, Proofs: []state.Proof{}, Reasons: []string{}},
		expect: state.Expect{Workspace: run.Workspace, Project: run.Project, Run: run.Name}, now: o.Now,
	}
	if o.Netuid != nil {
		c.expect.Netuid = *o.Netuid
	}
	return c
}

func (c *chain) fault(sequence uint64, err error) {
	c.report.Faults = append(c.report.Faults, Fault{sequence, err.Error()})
}

func (c *chain) add(e *state.Entry) {
	c.report.Records++
	if e.Dropped {
		c.report.Dropped++
	}
	r, err := e.Authentic()
	if err != nil {
		c.fault(e.Sequence, err)
		return
	}
	if c.record == nil { // a run has one place: that of its first record
		c.expect.Genesis, c.expect.Role, c.expect.Hotkey = r.Genesis, r.Role, &r.Hotkey
		if c.report.Records == 1 && c.expect.Netuid == 0 {
			c.expect.Netuid = r.Netuid
		}
	}
	if err := c.expect.Check(r.Place); err != nil {
		c.fault(r.Sequence, err)
		return
	}
	switch {
	case c.record == nil && !r.Previous.IsZero():
		c.fault(r.Sequence, fmt.Errorf("it is the first that the server shows and names an earlier one: the beginning is missing"))
	case c.record != nil && r.Sequence == c.record.Sequence:
		c.twice(e)
		return
	case c.record != nil && (r.Previous != c.last.Envelope.Hash() || r.Sequence < c.record.Sequence):
		c.fault(r.Sequence, fmt.Errorf("it does not follow sequence %d: a record is missing or the history has a fork", c.record.Sequence))
	}
	c.last, c.record = e, r
}

// twice keeps two records with one sequence as a proof.
func (c *chain) twice(e *state.Entry) {
	proof := state.Proof{A: &c.last.Envelope, B: &e.Envelope}
	verdict, reason, err := proof.Check()
	if err != nil {
		c.fault(c.record.Sequence, err)
		return
	}
	c.report.Proofs = append(c.report.Proofs, proof)
	c.report.Reasons = append(c.report.Reasons, reason)
	c.report.Equivocal = c.report.Equivocal || verdict == state.Equivocated
}

// end judges the newest record as of now.
func (c *chain) end(ctx context.Context) (*Report, error) {
	if c.last == nil {
		return &c.report, nil
	}
	j, err := judge(ctx, c.expect, &c.last.Envelope, c.now, c.report.Proofs)
	c.report.Newest = &j
	return &c.report, err
}

// judge is the verdict on a record beside proofs that may speak against it.
func judge(ctx context.Context, expect state.Expect, e *state.Envelope, now func() time.Time, proofs []state.Proof) (j state.Judgement, err error) {
	reader := state.Reader{Expect: expect, Memory: state.NewMemory(), Clock: func() state.Clock { return state.Clock{Now: now()} }}
	for i := range proofs {
		if err := reader.Convict(ctx, &proofs[i]); err != nil {
			return j, err
		}
	}
	return reader.Check(ctx, e)
}

// Judge is the verdict on the newest record of every run of a project.
func (s Server) Judge(ctx context.Context, workspace, project string, o Options) ([]Judged, error) {
	list, err := s.List(ctx, workspace, project)
	if err != nil {
		return nil, err
	}
	out := make([]Judged, len(list))
	for i := range list {
		e := list[i].Head
		j, err := Judge(ctx, &Run{Workspace: workspace, Project: project}, &list[i], o)
		if err != nil {
			return nil, err
		}
		if j.Record != nil { // the signed run, not the one that the server notes
			e.Run, e.Role, e.Hotkey, e.Sequence = j.Record.Run, j.Record.Role, j.Record.Hotkey.String(), j.Record.Sequence
		}
		out[i] = Judged{e, j}
	}
	return out, nil
}

// Judge is the verdict on a run's newest record, without its history.
func Judge(ctx context.Context, run *Run, newest *state.Newest, o Options) (state.Judgement, error) {
	expect := state.Expect{Workspace: run.Workspace, Project: run.Project, Run: run.Name}
	if r, err := state.Decode(newest.Head.Record); err == nil {
		expect.Genesis, expect.Netuid = r.Genesis, r.Netuid
	}
	if o.Netuid != nil {
		expect.Netuid = *o.Netuid
	}
	return judge(ctx, expect, &newest.Head.Envelope, o.Now, newest.Proofs())
}
