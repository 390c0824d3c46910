package statelog

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
)

// The sizes of pages. A page ends early when its payloads are large.
const (
	DefaultPage = 1_000
	MaxPage     = 10_000
	pageBytes   = 4 << 20
)

const columns = `idx, run, sequence, hash, received_ns, fork, record, signature, payload`

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// find reads one record, nil when there is none.
func find(ctx context.Context, q querier, where string, args ...any) (found *state.Entry, err error) {
	err = scan(ctx, q, func(e *state.Entry) bool {
		found = e
		return false
	}, `SELECT `+columns+` FROM records WHERE `+where+` ORDER BY fork LIMIT 1`, args...)
	return found, err
}

// scan hands over entries until take returns false.
func scan(ctx context.Context, q querier, take func(*state.Entry) bool, query string, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		e, err := read(rows)
		if err != nil {
			return err
		}
		if !take(e) {
			return nil
		}
	}
	return rows.Err()
}

// read scans columns and those behind them. The run is known of a damaged row too.
func read(rows *sql.Rows, more ...any) (*state.Entry, error) {
	e := new(state.Entry)
	var run, hash, signature []byte
	at := []any{&e.Index, &run, &e.Sequence, &hash, &e.ReceivedNs, &e.Fork, &e.Record, &signature, &e.Payload}
	if err := rows.Scan(append(at, more...)...); err != nil {
		return e, err
	}
	copy(e.RunID[:], run)
	record, err := state.Decode(e.Record)
	if err != nil || len(run) != len(e.RunID) || len(hash) != len(e.Digest) || len(signature) != len(e.Signature) {
		return e, damaged(e.Index, errors.Join(err, errors.New("its row is not whole")))
	}
	copy(e.Digest[:], hash)
	copy(e.Signature[:], signature)
	e.Run, e.Hotkey, e.Role = record.Run, record.Hotkey.String(), record.Role
	if e.Payload == nil { // SQLite's NULL, or the empty text
		e.Dropped = record.PayloadHash != state.HashOf(nil)
		e.Payload = []byte{}
	}
	return e, nil
}

func damaged(index uint64, err error) error {
	return model.Errorf(model.CodeInternal, "state record %d is damaged: %v", index, err).
		WithHint("run `kymogram data verify`; a backup has the record, or its signer sends it again")
}

// Head is the newest record of a run, nil when there is none.
func (l *Log) Head(ctx context.Context, run model.RunID) (*state.Entry, error) {
	e, err := find(ctx, l.db, `(project, idx) = (SELECT project, idx FROM runs WHERE run = ?)`, run[:])
	return e, failure("read the newest record", err)
}

// page gathers entries up to a limit of numbers and bytes.
type page struct {
	state.Page
	limit, bytes int
}

func newPage(limit int) (*page, error) {
	if limit == 0 {
		limit = DefaultPage
	}
	if limit < 1 || limit > MaxPage {
		return nil, model.Errorf(model.CodeInvalid, "limit is %d, it must be from 1 to %d", limit, MaxPage)
	}
	return &page{Page: state.Page{Entries: []state.Entry{}}, limit: limit}, nil
}

func (p *page) full() bool { return len(p.Entries) >= p.limit || p.bytes > pageBytes }

func (p *page) add(e *state.Entry) {
	p.Entries = append(p.Entries, *e)
	p.bytes += len(e.Payload) + len(e.Record)
}

// History lists records of a run by sequence, evidence included, each with a verdict.
// A page never ends between two records with one sequence.
func (l *Log) History(ctx context.Context, run model.RunID, span state.Span) (*state.Page, error) {
	p, err := newPage(span.Limit)
	if err != nil {
		return nil, err
	}
	query, from := `sequence > ? ORDER BY sequence, idx`, span.After
	if span.Before > 0 {
		query, from = `sequence < ? ORDER BY sequence DESC, idx DESC`, span.Before
	}
	p.Next = from
	err = scan(ctx, l.db, func(e *state.Entry) bool {
		if p.full() && e.Sequence != p.Next {
			p.More = true
			return false
		}
		p.add(e)
		p.Next = e.Sequence
		return true
	}, `SELECT `+columns+` FROM records WHERE run = ? AND `+query, run[:], min(from, state.MaxNumber))
	if span.Before > 0 {
		slices.Reverse(p.Entries)
	}
	if err == nil {
		err = l.judge(ctx, run, p.Entries)
	}
	return &p.Page, failure("read the history", err)
}

// List is the newest record of every run of a project, by index. Records of deleted
// runs are there too, since a run that is restored counts again; the page names
// these runs.
func (l *Log) List(ctx context.Context, workspace, project string, f state.Filter) (*state.Page, error) {
	p, err := newPage(f.Limit)
	if err != nil {
		return nil, err
	}
	p.Next = f.Since
	var id int64
	err = l.db.QueryRowContext(ctx, `SELECT id, size FROM projects WHERE workspace = ? AND project = ?`, workspace, project).Scan(&id, &p.Size)
	if errors.Is(err, sql.ErrNoRows) {
		return &p.Page, nil
	}
	if err != nil {
		return nil, failure("find the project", err)
	}
	netuid := -1
	if f.Netuid != nil {
		netuid = int(*f.Netuid)
	}
	err = scan(ctx, l.db, func(e *state.Entry) bool {
		if p.full() {
			p.More = true
			return false
		}
		p.add(e)
		p.Next = e.Index + 1
		return true
	}, `SELECT r.`+prefixed+` FROM runs u JOIN records r ON r.project = u.project AND r.idx = u.idx
		WHERE u.project = ? AND u.idx >= ? AND (? = '' OR u.role = ?) AND (? < 0 OR u.netuid = ?) ORDER BY u.idx`,
		id, min(f.Since, state.MaxNumber), f.Role, f.Role, netuid, netuid)
	if !p.More {
		p.Next = max(p.Next, p.Size) // what the filter leaves out was seen too
	}
	if err == nil {
		err = l.surround(ctx, id, f.Since, &p.Page)
	}
	return &p.Page, failure("list the records", err)
}

// surround adds what a reader needs to see that runs were deleted, or that this log
// is not the one that it read before.
func (l *Log) surround(ctx context.Context, project int64, since uint64, p *state.Page) (err error) {
	if p.Before, err = l.hashBefore(ctx, project, since); err != nil {
		return err
	}
	if p.Tip, err = l.hashBefore(ctx, project, p.Next); err != nil || l.bin == nil {
		return err
	}
	p.Deleted, err = l.deleted(ctx, project, p.Size)
	return err
}

// hashBefore is the hash of the record before an index, zeros for none.
func (l *Log) hashBefore(ctx context.Context, project int64, index uint64) (h state.Hash, err error) {
	var raw []byte
	err = l.db.QueryRowContext(ctx, `SELECT hash FROM records WHERE project = ? AND idx = ?`, project, int64(min(index, state.MaxNumber))-1).Scan(&raw)
	if errors.Is(err, sql.ErrNoRows) {
		return h, nil
	}
	copy(h[:], raw)
	return h, err
}

// deleted are the runs of a project that have records and are deleted. Only records
// that came since the last time are looked at, unless a run was deleted or restored.
func (l *Log) deleted(ctx context.Context, project int64, size uint64) ([]model.RunID, error) {
	now := l.bin.Deletions()
	l.mu.Lock()
	known := l.graves[project]
	l.mu.Unlock()
	if known.deletions != now {
		known = buried{deletions: now}
	}
	if known.size == size {
		return known.ids, nil
	}
	ids, err := l.runsSince(ctx, project, known.size)
	if err == nil {
		ids, err = l.bin.Gone(ctx, ids)
	}
	if err != nil {
		return nil, err
	}
	ids = append(ids, known.ids...)
	slices.SortFunc(ids, func(a, b model.RunID) int { return bytes.Compare(a[:], b[:]) })
	known.size, known.ids = size, slices.Compact(ids)
	l.mu.Lock()
	l.graves[project] = known
	l.mu.Unlock()
	return known.ids, nil
}

// runsSince are the runs whose newest record has at least an index.
func (l *Log) runsSince(ctx context.Context, project int64, index uint64) (ids []model.RunID, err error) {
	rows, err := l.db.QueryContext(ctx, `SELECT run FROM runs WHERE project = ? AND idx >= ?`, project, index)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var raw []byte
		if err := rows.Scan(&raw); err != nil {
			return nil, err
		}
		var id model.RunID
		copy(id[:], raw)
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

const prefixed = `idx, r.run, r.sequence, r.hash, r.received_ns, r.fork, r.record, r.signature, r.payload`

// Wait is List that waits for a record until ctx ends; then the list is empty.
func (l *Log) Wait(ctx context.Context, workspace, project string, f state.Filter) (*state.Page, error) {
	for {
		news := l.newsOf(workspace + "/" + project)
		p, err := l.List(context.WithoutCancel(ctx), workspace, project, f)
		if err != nil || len(p.Entries) > 0 {
			return p, err
		}
		f.Since = p.Next
		select {
		case <-news:
		case <-ctx.Done():
			return p, nil
		}
	}
}
