package statelog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/duration"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/report"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/wallet"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/mirror"
)

// putting is one Put in its transaction.
type putting struct {
	log    *Log
	tx     *change
	run    *catalog.Run
	e      *state.Envelope
	record *state.Record

	project
	at   standing
	head *state.Entry
	fork bool // it was kept as evidence
}

// standing is what the table runs holds of a run.
type standing struct {
	idx, records, forks, bytes, keptFrom int64
}

// Put takes a record as the newest of its run. One that was taken before is
// answered as it was then; one that does not follow the newest is a
// [state.Conflict].
func (l *Log) Put(ctx context.Context, run *catalog.Run, e *state.Envelope) (*state.Entry, error) {
	taken, err := l.put(ctx, run, e)
	switch {
	case err == nil:
		l.taken.Add(1)
	case model.CodeOf(err) == model.CodeStateRefused || model.CodeOf(err) == model.CodeTooLarge || model.CodeOf(err) == model.CodeLimit:
		l.refused.Add(1)
	case errors.As(err, new(*state.Conflict)):
		l.conflicts.Add(1)
	}
	return taken, err
}

func (l *Log) put(ctx context.Context, run *catalog.Run, e *state.Envelope) (*state.Entry, error) {
	record, err := e.Open()
	if err != nil {
		return nil, refused(err)
	}
	expect := state.Expect{
		Genesis: record.Genesis, Netuid: record.Netuid,
		Workspace: run.Workspace, Project: run.Project, Run: run.Name,
	}
	if err := errors.Join(expect.Check(record.Place), state.CheckPayload(e.Payload), says(record, e.Payload), inTime(record, l.now())); err != nil {
		return nil, refused(err)
	}
	var p *putting
	var taken *state.Entry
	var conflict error // with the evidence committed
	err = l.write(ctx, "put a record", func(tx *change) (err error) {
		p, conflict = &putting{log: l, tx: tx, run: run, e: e, record: record}, nil
		taken, err = p.do(ctx)
		if c := (*state.Conflict)(nil); errors.As(err, &c) {
			conflict, err = c, nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if p.fork {
		l.forks.Add(1)
	}
	l.took(run.Workspace, run.Project) // also for evidence
	return taken, conflict
}

// named refuses the record of anybody else as the first one in a run that is named
// after a participant: a stranger who is first would keep the participant out of its
// own run. Who renames a run later keeps nobody out.
func named(run *catalog.Run, record *state.Record) error {
	role, address, ok := strings.Cut(run.DisplayName, "-")
	if !ok || role != state.Validator && role != state.Miner {
		return nil
	}
	hotkey, _, err := wallet.ParseAddress(address)
	if err != nil || role == record.Role && hotkey == record.Hotkey {
		return nil //nolint:nilerr // a name like any other
	}
	return fmt.Errorf("the run is that of %s, the record is of %s %s", run.DisplayName, record.Role, record.Hotkey)
}

// says refuses a config section that names another hotkey or role than its record:
// who reads the content alone would take it for another one's.
func says(record *state.Record, payload []byte) (err error) {
	if record.PayloadType != state.ConfigPayload || !report.Valid(payload) {
		return nil
	}
	signed := map[string]string{"hotkey": record.Hotkey.String(), "role": record.Role}
	report.Members(payload, func(name string, value []byte) {
		want, bound := signed[name]
		if text, ok := report.Text(value); bound && string(value) != "null" && (!ok || text != want) {
			err = fmt.Errorf("its content names the %s %s, and %s signed it", name, model.Clip(string(value)), want)
		}
	})
	return err
}

// inTime is [state.Clock.Check] in words for the signer, who reads it first.
func inTime(record *state.Record, now time.Time) error {
	if now.After(record.Expires()) {
		return fmt.Errorf("it was signed %s ago by this server's clock, and expired %s ago: the signer's clock is behind, or the record was sent too late",
			duration.Text(now.Sub(record.Time()).Round(time.Second)), duration.Text(now.Sub(record.Expires()).Round(time.Second)))
	}
	return state.Clock{Now: now}.Check(record)
}

// refused gives every reason against a record the same code.
func refused(err error) error {
	if model.CodeOf(err) == model.CodeTooLarge {
		return err
	}
	return model.Errorf(model.CodeStateRefused, "the state record is refused: %v", err).
		WithHint("sign it again for this run, with a clock that is right")
}

func (p *putting) do(ctx context.Context) (_ *state.Entry, err error) {
	if p.project, err = p.tx.hold(ctx, p.run.Workspace, p.run.Project); err != nil {
		return nil, err
	}
	known, err := find(ctx, p.tx, `run = ? AND sequence = ? AND hash = ?`, p.run.ID[:], p.record.Sequence, hashOf(p.e))
	if err != nil || known != nil && !known.Fork {
		return known, err
	}
	if err := p.look(ctx); err != nil {
		return nil, err
	}
	if err := p.owned(); err != nil {
		return nil, err
	}
	if !p.follows() {
		if known == nil {
			err = p.evidence(ctx)
		}
		if err == nil {
			err = &state.Conflict{Head: p.head}
		}
		return nil, err
	}
	return p.add(ctx, false)
}

func hashOf(e *state.Envelope) []byte {
	h := e.Hash()
	return h[:]
}

// look reads where the run stands.
func (p *putting) look(ctx context.Context) error {
	err := p.tx.QueryRowContext(ctx, `SELECT idx, records, forks, payload_bytes, kept_from FROM runs WHERE run = ?`, p.run.ID[:]).
		Scan(&p.at.idx, &p.at.records, &p.at.forks, &p.at.bytes, &p.at.keptFrom)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil {
		p.head, err = find(ctx, p.tx, `project = ? AND idx = ?`, p.id, p.at.idx)
	}
	if err == nil && p.head == nil {
		return fmt.Errorf("the newest record of run %s is missing: run `kymogram data verify`", p.run.ID)
	}
	return err
}

// owned refuses another signer than the run's first.
func (p *putting) owned() error {
	if p.head == nil {
		if err := named(p.run, p.record); err != nil {
			return refused(err)
		}
		return nil
	}
	first, err := state.Decode(p.head.Record)
	if err != nil {
		return fmt.Errorf("the newest record of run %s is damaged: %w", p.run.ID, err)
	}
	if first.Place != p.record.Place {
		return refused(fmt.Errorf("the run's records are of %s, this one is of %s", first.Place, p.record.Place))
	}
	return nil
}

func (p *putting) follows() bool {
	if p.head == nil {
		return p.record.Previous.IsZero()
	}
	return p.record.Previous == p.head.Digest && p.record.Sequence > p.head.Sequence
}

// evidence keeps a record whose sequence another one has. A record that only lost
// a race has a sequence of its own and is forgotten.
func (p *putting) evidence(ctx context.Context) error {
	twin, err := find(ctx, p.tx, `run = ? AND sequence = ?`, p.run.ID[:], p.record.Sequence)
	if err != nil || twin == nil || p.at.forks >= MaxForks {
		return err
	}
	_, err = p.add(ctx, true)
	p.fork = err == nil
	return err
}

// add writes the record behind the last one of its project.
func (p *putting) add(ctx context.Context, fork bool) (*state.Entry, error) {
	if p.at.records >= MaxRecords {
		return nil, model.Errorf(model.CodeLimit, "run %s has %d state records, which is the limit", p.run.Name, p.at.records).
			WithHint("open a new run; readers go on with its records")
	}
	entry := &state.Entry{Envelope: *p.e, Notes: state.Notes{
		Index: uint64(p.size), ReceivedNs: p.log.now().UnixNano(), RunID: p.run.ID, Run: p.run.Name,
		Sequence: p.record.Sequence, Digest: p.e.Hash(), Hotkey: p.record.Hotkey.String(), Role: p.record.Role, Fork: fork,
	}}
	_, err := p.tx.ExecContext(ctx, `INSERT INTO records (project, idx, run, sequence, hash, received_ns, fork, record, signature, payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		p.id, p.size, p.run.ID[:], entry.Sequence, entry.Digest[:], entry.ReceivedNs, truth(fork), entry.Record, entry.Signature[:], nullable(entry.Payload))
	if err == nil {
		err = p.tx.mirror(func() (mirror.Row, error) { return recordRow(p.run.Workspace, p.run.Project, entry) })
	}
	if err == nil {
		_, err = p.tx.ExecContext(ctx, `UPDATE projects SET size = size + 1 WHERE id = ?`, p.id)
	}
	if err != nil {
		return nil, err
	}
	p.tx.taken++
	return entry, p.stand(ctx, fork)
}

// stand writes where the run stands now.
func (p *putting) stand(ctx context.Context, fork bool) error {
	at := p.at
	if at.records++; fork {
		at.forks++
	} else {
		at.idx = p.size
		at.bytes += int64(len(p.e.Payload))
	}
	if err := p.compact(ctx, &at); err != nil {
		return err
	}
	_, err := p.tx.ExecContext(ctx, `INSERT INTO runs (run, project, idx, role, netuid, hotkey, records, forks, payload_bytes, kept_from) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (run) DO UPDATE SET idx = excluded.idx, records = excluded.records, forks = excluded.forks, payload_bytes = excluded.payload_bytes, kept_from = excluded.kept_from`,
		p.run.ID[:], p.id, at.idx, p.record.Role, p.record.Netuid, p.record.Hotkey[:], at.records, at.forks, at.bytes, at.keptFrom)
	return err
}

// compact lets the oldest payloads of the history go, never the newest record's nor
// those of evidence: without both payloads of a pair nobody can check it.
func (p *putting) compact(ctx context.Context, at *standing) error {
	for at.bytes > KeptPayload {
		var index, sequence, size int64
		err := p.tx.QueryRowContext(ctx, `SELECT idx, sequence, length(payload) FROM records r
			WHERE run = ?1 AND sequence >= ?2 AND fork = 0 AND payload IS NOT NULL AND idx < ?3
			AND NOT EXISTS (SELECT 1 FROM records f WHERE f.run = ?1 AND f.sequence = r.sequence AND f.fork = 1) ORDER BY sequence LIMIT 1`, p.run.ID[:], at.keptFrom, at.idx).Scan(&index, &sequence, &size)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err == nil {
			_, err = p.tx.ExecContext(ctx, `UPDATE records SET payload = NULL WHERE project = ? AND idx = ?`, p.id, index)
		}
		if err != nil {
			return err
		}
		at.bytes, at.keptFrom = at.bytes-size, sequence+1
	}
	return nil
}
