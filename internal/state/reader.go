package state

import (
	"bytes"
	"context"
	"fmt"

	"github.com/kymogram/kymogram/internal/wallet"
)

// Registry says why a hotkey may not speak in a role, "" when it may; chain knows.
type Registry func(ctx context.Context, netuid uint16, role string, hotkey wallet.Account) (reason string, err error)

// Reader judges records. It is safe for concurrent use as its parts are.
type Reader struct {
	Expect   Expect
	Memory   Memory
	Clock    func() Clock
	Registry Registry // nil: no chain is configured
}

// Check judges one envelope and remembers it when it is the newest of its place.
// An error means that nothing could be judged, since memory or chain failed.
func (r *Reader) Check(ctx context.Context, e *Envelope) (Judgement, error) {
	j := Judgement{Hash: e.Hash()}
	record, err := e.decode()
	if err == nil {
		err = CheckPayload(e.Payload)
	}
	if err != nil {
		return j.with(Broken, err.Error()), nil
	}
	j.Record = record
	if err := r.Expect.Check(record.Place); err != nil {
		return j.with(Broken, err.Error()), nil
	}
	for again := true; again; { // while another reader moves the head
		j, again, err = r.order(ctx, Judgement{Record: record, Hash: j.Hash}, e)
		if err != nil {
			return j, fmt.Errorf("judge %s: %w", record.Place, err)
		}
	}
	if j.Verdict != Verified && j.Verdict != SharedKey {
		return j, nil
	}
	return r.current(ctx, j, e)
}

func (j Judgement) with(v Verdict, reason string) Judgement {
	j.Verdict, j.Reason = v, reason
	return j
}

// order places an authentic record among those seen.
func (r *Reader) order(ctx context.Context, j Judgement, e *Envelope) (_ Judgement, again bool, err error) {
	head, err := r.Memory.Head(ctx, j.Record.Place)
	if err != nil {
		return j, false, err
	}
	if head == nil || !bytes.Equal(head.Record, e.Record) { // a signature that held once holds for the same bytes
		if err := e.verify(j.Record); err != nil {
			return j.with(Broken, err.Error()), false, nil
		}
	}
	if head == nil {
		return r.admit(ctx, j, nil, e)
	}
	seen, err := Decode(head.Record)
	if err != nil {
		return j, false, err
	}
	switch now := j.Record; {
	case now.Sequence < seen.Sequence:
		return j.with(Rollback, fmt.Sprintf("this server is behind what was seen before: it shows sequence %d, and %d was seen. %s. It counts again above that sequence, or in a new run", now.Sequence, seen.Sequence, behind)), false, nil
	case now.Sequence == seen.Sequence && j.Hash != head.Hash():
		j, err = r.twice(ctx, j, &Proof{A: head, B: e})
		return j, false, err
	case now.Sequence > seen.Sequence && now.Previous == seen.Previous:
		return j.with(Rollback, fmt.Sprintf("the history has a fork: it follows the same record as sequence %d, which was seen before. %s. The signer's next record counts", seen.Sequence, behind)), false, nil
	}
	j, again, err = r.admit(ctx, j, head, e)
	if j.Verdict == Verified && j.Record.Sequence > seen.Sequence && j.Record.Previous != head.Hash() {
		j.Reason += fmt.Sprintf("; records between it and sequence %d, which was seen before, were not shown here: `kymogram state verify` checks them", seen.Sequence)
	}
	return j, again, err
}

// behind says whose fault it is that a record was seen and is not there any more.
const behind = "The server was restored from a backup, or it hides records; the signer is not at fault"

// twice judges two records with one sequence and keeps them.
func (r *Reader) twice(ctx context.Context, j Judgement, found *Proof) (Judgement, error) {
	proven, err := found.judge()
	if err != nil {
		return j, err
	}
	if err := r.keep(ctx, &proven); err != nil {
		return j, err
	}
	j.Proof = found
	return r.Doubt(ctx, j.with(proven.Verdict, proven.Reason))
}

// Convict takes two records that somebody shows as evidence, and keeps what they prove
// where that is more than was known. What proves nothing, or is of a place that is not
// expected, changes nothing: nobody is accused without two signatures.
func (r *Reader) Convict(ctx context.Context, p *Proof) error {
	if p.A == nil || p.B == nil {
		return nil
	}
	_, noA := p.A.decode()
	_, noB := p.B.decode()
	if noA != nil || noB != nil {
		return nil //nolint:nilerr // nobody can check it
	}
	found, err := p.judge()
	if err != nil || r.Expect.Check(found.Record.Place) != nil {
		return nil //nolint:nilerr // it proves nothing here
	}
	if p.A.verify(found.Record) != nil || p.B.verify(found.Record) != nil { // both name this hotkey
		return nil
	}
	return r.keep(ctx, &found)
}

// keep remembers a proof, unless what is known of its place weighs as much.
func (r *Reader) keep(ctx context.Context, found *Judgement) error {
	kept, err := r.proven(ctx, found.Record.Place)
	if err != nil || kept != nil && !found.outweighs(kept) {
		return err
	}
	return r.Memory.Keep(ctx, found.Record.Place, found.Proof)
}

// proven is what was proven at a place before, nil for nothing.
func (r *Reader) proven(ctx context.Context, at Place) (*Judgement, error) {
	kept, err := r.Memory.Proof(ctx, at)
	if err != nil || kept == nil {
		return nil, err
	}
	j, err := kept.judge()
	return &j, err
}

// Doubt replaces the verdict on a record by what was proven against it before: a key
// that once said two things stays in doubt.
func (r *Reader) Doubt(ctx context.Context, j Judgement) (Judgement, error) {
	proven, err := r.proven(ctx, j.Record.Place)
	if err != nil || proven == nil || !proven.against(j.Record) {
		return j, err
	}
	j.Proof = proven.Proof
	return j.with(proven.Verdict, proven.Reason), nil
}

// admit takes a record as the newest of its place. Where memory has it without its
// payload it is whole from now on.
func (r *Reader) admit(ctx context.Context, j Judgement, head, e *Envelope) (_ Judgement, again bool, err error) {
	if ahead := r.Clock().ahead(j.Record); ahead != nil {
		return j.with(Stale, ahead.Error()), false, nil // and not remembered
	}
	j, err = r.Doubt(ctx, j.with(Verified, fmt.Sprintf("hotkey %s signed sequence %d for this place", j.Record.Hotkey, j.Record.Sequence)))
	if err != nil || head != nil && head.Equal(e) {
		return j, false, err
	}
	var from Hash
	if head != nil {
		from = head.Hash()
	}
	advanced, err := r.Memory.Advance(ctx, j.Record.Place, from, e)
	return j, !advanced, err
}

// current checks what changes with time: expiry, blocks, the subnet. The payload
// of a record that passes may be read.
func (r *Reader) current(ctx context.Context, j Judgement, e *Envelope) (Judgement, error) {
	if err := r.Clock().Check(j.Record); err != nil {
		return j.with(Stale, err.Error()), nil
	}
	if r.Registry != nil {
		reason, err := r.Registry(ctx, j.Record.Netuid, j.Record.Role, j.Record.Hotkey)
		if err != nil {
			return j, fmt.Errorf("ask the chain about %s: %w", j.Record.Hotkey, err)
		}
		if reason != "" {
			return j.with(Unregistered, reason), nil
		}
	}
	j.Payload = e.Payload
	return j, nil
}
