package state

import (
	"bytes"
	"fmt"
)

// Proof is two records of one hotkey, one place and one sequence. Anyone can
// check it: both carry their signatures.
type Proof struct {
	A *Envelope `json:"a"`
	B *Envelope `json:"b"`
}

// Check opens both records and tells what they prove: [Equivocated] or
// [SharedKey]. A pair that proves nothing is an error.
func (p *Proof) Check() (Verdict, string, error) {
	if p.A == nil || p.B == nil {
		return "", "", refuse("a proof holds two envelopes, a and b")
	}
	for _, e := range []*Envelope{p.A, p.B} {
		if _, err := e.Open(); err != nil {
			return "", "", fmt.Errorf("record %s: %w", e.Hash(), err)
		}
	}
	j, err := p.judge()
	return j.Verdict, j.Reason, err
}

// judge is Check for records whose signatures and payloads were checked before. The
// judgement is of record A. A reader that met one record without its payload cannot
// tell what contradicts: then the pair says no more than that two machines signed.
func (p *Proof) judge() (j Judgement, err error) {
	a, err := Decode(p.A.Record)
	if err != nil {
		return j, err
	}
	b, err := Decode(p.B.Record)
	if err != nil {
		return j, err
	}
	switch {
	case a.Place != b.Place:
		return j, refuse("the records are of two places: %s, and %s", a.Place, b.Place)
	case a.Sequence != b.Sequence:
		return j, refuse("the records have the sequences %d and %d: that is an update", a.Sequence, b.Sequence)
	case bytes.Equal(p.A.Record, p.B.Record):
		return j, refuse("both records are the same")
	}
	verdict, reason := compare(a, b, p)
	return Judgement{Record: a, Hash: p.A.Hash(), Verdict: verdict, Reason: reason, Proof: p}, nil
}

// against reports whether a proof speaks against a record: an equivocation does for
// good, a shared key against its own sequence.
func (j *Judgement) against(r *Record) bool {
	return j.Verdict == Equivocated || j.Record.Sequence == r.Sequence
}

// outweighs reports whether a proof is to be kept in place of another one.
func (j *Judgement) outweighs(kept *Judgement) bool {
	return kept.Verdict != Equivocated && (j.Verdict == Equivocated || j.Record.Sequence > kept.Record.Sequence)
}

// compare judges two different records with one sequence.
func compare(a, b *Record, p *Proof) (Verdict, string) {
	if a.Machine == b.Machine {
		return Equivocated, fmt.Sprintf("hotkey %s signed two records with sequence %d on one machine: a sequence is given out once", a.Hotkey, a.Sequence)
	}
	if a.PayloadType == b.PayloadType && a.PayloadHash != b.PayloadHash && (p.A.IsBare(a) || p.B.IsBare(b)) {
		return SharedKey, fmt.Sprintf("two machines use hotkey %s: both signed sequence %d, and what one of them said was not read here", a.Hotkey, a.Sequence)
	}
	if at := contradiction(a.PayloadType == b.PayloadType, p.A.Payload, p.B.Payload); at != "" {
		return Equivocated, fmt.Sprintf("hotkey %s signed sequence %d twice, and the records contradict each other in %s", a.Hotkey, a.Sequence, at)
	}
	return SharedKey, fmt.Sprintf("two machines use hotkey %s: both signed sequence %d, and what they say agrees", a.Hotkey, a.Sequence)
}
