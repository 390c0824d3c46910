package statelog

import (
	"context"
	"fmt"
	"math"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
)

// judge gives each record of a page of a history a verdict with its reason, by its
// link to the record before and by what evidence proves. Signatures were checked when
// the records were taken; [Log.Put] is the only way in.
func (l *Log) judge(ctx context.Context, run model.RunID, page []state.Entry) error {
	if len(page) == 0 {
		return nil
	}
	before, err := l.older(ctx, run, page[0].Sequence)
	if err != nil {
		return err
	}
	for i := range page {
		e := &page[i]
		if e.Fork {
			prove(before, e)
			continue
		}
		record, err := state.Decode(e.Record)
		if err != nil {
			return damaged(e.Index, "of run "+run.String(), err)
		}
		e.Verdict, e.Reason = link(record, before, e.Dropped)
		before = e
	}
	return nil
}

// older is the newest record of a run's history below a sequence, nil for none.
func (l *Log) older(ctx context.Context, run model.RunID, below uint64) (found *state.Entry, err error) {
	err = scan(ctx, l.base, func(e *state.Entry) bool {
		found = e
		return false
	}, `SELECT `+columns+` FROM records WHERE run = ? AND sequence < ? AND fork = 0 ORDER BY sequence DESC LIMIT 1`, run[:], min(below, math.MaxInt64))
	return found, err
}

func link(r *state.Record, before *state.Entry, dropped bool) (state.Verdict, string) {
	rest := ""
	if dropped {
		rest = "; the server let its payload go"
	}
	switch {
	case before == nil && r.Previous.IsZero():
		return state.Verified, "the first record of the run" + rest
	case before == nil:
		return state.Broken, "it names a record before it, and the server has none"
	case r.Previous != before.Digest:
		return state.Broken, fmt.Sprintf("it does not follow sequence %d: a record between them is missing", before.Sequence)
	}
	return state.Verified, fmt.Sprintf("it follows sequence %d%s", before.Sequence, rest)
}

// prove judges a record and the one with the same sequence that came first.
func prove(first, second *state.Entry) {
	if first == nil || first.Sequence != second.Sequence {
		second.Verdict, second.Reason = state.Broken, "the record that it contradicts is missing"
		return
	}
	verdict, reason, err := (&state.Proof{A: &first.Envelope, B: &second.Envelope}).Check()
	if err != nil {
		second.Verdict, second.Reason = state.Broken, "another record has this sequence, and they prove nothing: "+err.Error()
		return
	}
	second.Verdict, second.Reason = verdict, reason
	if first.Verdict != state.Equivocated {
		first.Verdict, first.Reason = verdict, reason
	}
}
