package statelog

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/kymogram/kymogram/internal/state"
)

// tally is what the records of one run say, to be held beside the run's row.
type tally struct {
	standing
	project    int64
	role       string
	netuid     uint16
	hotkey     []byte
	first      *state.Record // nil: none can be read
	newest     *state.Entry  // of the history
	paired     bool          // a second record has its sequence
	loose      int64         // bytes of payloads that are no part of a pair
	dropped    bool          // payloads of the history were let go
	gap        bool          // a payload is missing behind one that is there
	unreadable bool
}

// histories checks every record, each run's order of them, and the row that the run
// has. Rows that cannot be read are named and passed.
func (i *Inventory) histories(ctx context.Context, tx querier, done func(int64)) error {
	rows, err := tx.QueryContext(ctx, `SELECT `+columns+`, r.project, coalesce((SELECT workspace || '/' || project FROM projects p WHERE p.id = r.project), '') FROM records r ORDER BY run, sequence, idx`)
	if err != nil {
		return err
	}
	defer rows.Close()
	var now *tally
	var run []byte
	for rows.Next() {
		var project int64
		var name string
		e, err := read(rows, &project, &name)
		if now == nil || string(e.RunID[:]) != string(run) {
			if err := i.settle(ctx, tx, run, now); err != nil {
				return err
			}
			now, run = &tally{project: project}, append(run[:0], e.RunID[:]...)
		}
		if err != nil {
			i.add("%v", err)
			now.unreadable = true
			continue
		}
		for _, fault := range now.add(e, project, name) {
			i.add("state record %d of run %s: %v", e.Index, e.RunID, fault)
		}
		done(int64(len(e.Record) + len(e.Payload)))
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if err := i.settle(ctx, tx, run, now); err != nil {
		return err
	}
	return i.strangers(ctx, tx)
}

// add checks one record by itself and by those before it.
func (t *tally) add(e *state.Entry, project int64, name string) (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	record, err := e.Authentic()
	if err != nil {
		fault("%w", err)
		if record == nil { // the rest is as it was signed
			record, err = state.Decode(e.Record)
		}
	}
	if record == nil {
		t.unreadable = true
		return append(faults, err)
	}
	switch {
	case e.Digest != e.Envelope.Hash():
		fault("its hash is not %s", e.Digest)
	case record.Sequence != e.Sequence:
		fault("it is kept under sequence %d and signed as %d", e.Sequence, record.Sequence)
	case t.project != project:
		fault("the run has records in another project")
	case record.Workspace+"/"+record.Project != name:
		fault("it was signed for %s/%s, and is kept under %s", record.Workspace, record.Project, name)
	}
	if t.first == nil {
		t.first, t.role, t.netuid, t.hotkey = record, record.Role, record.Netuid, record.Hotkey[:]
	} else if record.Place != t.first.Place {
		fault("it is of %s, and the run is that of %s", record.Place, t.first.Place)
	}
	t.records++
	if e.Fork {
		return append(faults, t.evidence(e)...)
	}
	return append(faults, t.link(e, record)...)
}

// evidence checks a second record with a sequence, which is no part of the history.
func (t *tally) evidence(e *state.Entry) (faults []error) {
	t.forks++
	switch {
	case t.newest == nil || t.newest.Sequence != e.Sequence:
		faults = append(faults, errors.New("it is marked as a second record with its sequence, and there is no first"))
	case !t.paired:
		t.paired, t.loose = true, t.loose-int64(len(t.newest.Payload))
	}
	if e.Dropped {
		faults = append(faults, errors.New("its payload is missing, and it is evidence"))
	}
	return faults
}

// link checks that a record follows the one before it in the history.
func (t *tally) link(e *state.Entry, record *state.Record) (faults []error) {
	switch before := t.newest; {
	case before == nil && !record.Previous.IsZero() && !t.unreadable:
		faults = append(faults, errors.New("it names a record before it, and there is none"))
	case before != nil && before.Sequence == e.Sequence:
		faults = append(faults, fmt.Errorf("record %d has its sequence too, and it is not marked as a second one", before.Index))
	case before != nil && !t.unreadable && record.Previous != before.Envelope.Hash():
		faults = append(faults, fmt.Errorf("it does not follow record %d", before.Index))
	case before != nil && e.Index < before.Index:
		faults = append(faults, fmt.Errorf("it was taken before record %d, which it follows", before.Index))
	}
	switch {
	case e.Dropped:
		t.gap = t.gap || t.loose > 0
		t.dropped = true
	default:
		t.bytes += int64(len(e.Payload))
		t.loose += int64(len(e.Payload))
	}
	t.newest, t.idx, t.paired, t.unreadable = e, int64(e.Index), false, false
	return faults
}

// settle compares what was counted with the run's row.
func (i *Inventory) settle(ctx context.Context, tx querier, run []byte, t *tally) error {
	if t == nil || t.newest == nil || t.unreadable {
		return nil
	}
	id := t.newest.RunID
	fault := func(format string, args ...any) {
		i.add("state records of run %s: %s", id, fmt.Sprintf(format, args...))
	}
	switch {
	case t.newest.Dropped:
		fault("the newest record, %d, has lost its payload", t.idx)
	case t.gap, t.dropped && t.bytes <= KeptPayload-state.MaxPayload:
		fault("payloads are missing that were not let go for the limit of %d bytes", KeptPayload)
	}
	var row tally
	err := tx.QueryRowContext(ctx, `SELECT project, idx, role, netuid, hotkey, records, forks, payload_bytes FROM runs WHERE run = ?`, run).
		Scan(&row.project, &row.idx, &row.role, &row.netuid, &row.hotkey, &row.records, &row.forks, &row.bytes)
	if errors.Is(err, sql.ErrNoRows) {
		fault("the list of runs lacks it: its %d records are hidden", t.records)
		return nil
	}
	if err != nil {
		return err
	}
	for _, c := range []struct {
		what         string
		says, counts any
	}{
		{"project", row.project, t.project},
		{"newest record", row.idx, t.idx},
		{"role", row.role, t.role},
		{"subnet", row.netuid, t.netuid},
		{"hotkey", hex.EncodeToString(row.hotkey), hex.EncodeToString(t.hotkey)},
		{"number of records", row.records, t.records},
		{"number of second records", row.forks, t.forks},
		{"bytes of payloads", row.bytes, t.bytes},
	} {
		if c.says != c.counts {
			fault("its %s is %v by its records, and %v in the list of runs", c.what, c.counts, c.says)
		}
	}
	return nil
}

// strangers finds rows of runs that have no record.
func (i *Inventory) strangers(ctx context.Context, tx querier) error {
	rows, err := tx.QueryContext(ctx, `SELECT u.run, u.idx FROM runs u WHERE NOT EXISTS (SELECT 1 FROM records r WHERE r.run = u.run)`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var run []byte
		var index int64
		if err := rows.Scan(&run, &index); err != nil {
			return err
		}
		i.add("state records: run %X is in the list of runs and has no record; its newest was %d", run, index)
	}
	return rows.Err()
}
