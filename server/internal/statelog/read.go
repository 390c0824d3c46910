package statelog

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
)

// The sizes of pages. A page ends early when its payloads are large.
const (
	DefaultPage = 1_000
	MaxPage     = 10_000
	pageBytes   = 4 << 20
	// batch is how many rows are asked for at once: a database sends all of them, also when
	// the first fill the page.
	batch      = 32
	limitBatch = ` LIMIT 32`
)

const columns = `idx, run, sequence, hash, received_ns, fork, record, signature, payload`

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
		return e, damaged(e.Index, "of run "+e.RunID.String(), errors.Join(err, errors.New("its row is not whole")))
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

// damaged names a record by its index and by whose it is.
func damaged(index uint64, whose string, err error) error {
	return model.Errorf(model.CodeInternal, "state record %d %s is damaged: %v", index, whose, err).
		WithHint("run `kymogram data verify`; a backup has the record, or its signer sends it again")
}

// Head is the newest record of a run, nil when there is none, with what speaks
// against it: an equivocation, else the newest shared key.
func (l *Log) Head(ctx context.Context, run model.RunID) (n state.Newest, err error) {
	n.Head, err = find(ctx, l.base, `(project, idx) = (SELECT project, idx FROM runs WHERE run = ?)`, run[:])
	if err == nil && n.Head != nil {
		n.Evidence, err = l.against(ctx, n.Head)
	}
	return n, l.failure("read the newest record", err)
}

// against is the pair of records that weighs most against a run's newest one.
func (l *Log) against(ctx context.Context, head *state.Entry) ([]state.Evidence, error) {
	rows, err := l.base.QueryContext(ctx, `SELECT r.`+prefixed+`, `+first+` FROM runs u
		CROSS JOIN records r INDEXED BY records_forked ON r.project = u.project AND r.fork = 1 AND r.run = u.run `+firstOf+`
		WHERE u.run = ? AND u.forks > 0 ORDER BY r.idx`, head.RunID[:])
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	memory := state.NewMemory()
	judge := state.Reader{Memory: memory, Expect: state.Expect{Anywhere: true}}
	for rows.Next() {
		e, first, err := readPair(rows)
		if err == nil {
			err = judge.Convict(ctx, &state.Proof{A: first, B: &e.Envelope})
		}
		if err != nil {
			return nil, err
		}
	}
	record, err := state.Decode(head.Record)
	if err != nil || rows.Err() != nil {
		return nil, errors.Join(err, rows.Err())
	}
	found, err := judge.Doubt(ctx, state.Judgement{Record: record})
	if err != nil || found.Proof == nil {
		return nil, err
	}
	return []state.Evidence{{RunID: head.RunID, Proof: *found.Proof}}, nil
}

// page gathers entries up to a limit of numbers and bytes.
type page struct {
	state.Page
	limit, bytes int
	bare         bool
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

func (p *page) full() bool { return len(p.Entries)+len(p.Evidence) >= p.limit || p.bytes > pageBytes }

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
	query, from, index := `(sequence, idx) > (?, ?) ORDER BY sequence, idx`, span.After, int64(math.MaxInt64)
	if span.Before > 0 {
		query, from, index = `(sequence, idx) < (?, ?) ORDER BY sequence DESC, idx DESC`, span.Before, -1
	}
	p.Next = from
	for n := batch; n == batch && !p.More && err == nil; {
		n = 0
		err = scan(ctx, l.base, func(e *state.Entry) bool {
			if n++; p.full() && e.Sequence != p.Next {
				p.More = true
				return false
			}
			p.add(e)
			p.Next, index = e.Sequence, int64(e.Index)
			return true
		}, `SELECT `+columns+` FROM records WHERE run = ? AND `+query+``+limitBatch, run[:], min(p.Next, state.MaxNumber), index)
	}
	if span.Before > 0 {
		slices.Reverse(p.Entries)
	}
	if err == nil {
		err = l.judge(ctx, run, p.Entries)
	}
	return &p.Page, l.failure("read the history", err)
}

// first are the columns of the record that a sequence had first, whose payload may be
// gone, and firstOf finds it for the second one, r.
const (
	first   = `a.record, a.signature, a.payload`
	firstOf = `JOIN records a ON a.run = r.run AND a.sequence = r.sequence AND a.fork = 0`
)

// listed are the newest records of a project's runs, and each second record with a
// sequence beside the first one, by index. Their places are found first, as many as are
// asked for: no other payload is read, and few rows are sorted.
const listed = `SELECT r.` + listedColumns + `, a.record, a.signature, CASE WHEN ?5 THEN NULL ELSE a.payload END
	FROM (SELECT idx FROM (` + newestPlaces + `) n UNION ALL SELECT idx FROM (` + secondPlaces + `) s ORDER BY 1` + limitBatch + `) p
	CROSS JOIN records r ON r.project = ?1 AND r.idx = p.idx
	LEFT JOIN records a ON r.fork = 1 AND a.run = r.run AND a.sequence = r.sequence AND a.fork = 0
	ORDER BY r.idx`

const (
	newestPlaces = `SELECT u.idx FROM runs u WHERE u.project = ?1 AND u.idx >= ?2 AND ` + wanted + ` ORDER BY u.idx` + limitBatch
	secondPlaces = `SELECT r.idx FROM records r INDEXED BY records_forked CROSS JOIN runs u ON u.run = r.run
		WHERE r.project = ?1 AND r.fork = 1 AND r.idx >= ?2 AND ` + wanted + ` ORDER BY r.idx` + limitBatch
)

// listedColumns are columns without the payload where a list is bare: no byte of it is read.
const listedColumns = withoutPayload + `CASE WHEN ?5 THEN NULL ELSE r.payload END`

const wanted = `(?3 = '' OR u.role = ?3) AND (?4 < 0 OR u.netuid = ?4)`

// readPair takes an entry, and what stands first with its sequence, nil for nothing.
func readPair(rows *sql.Rows) (*state.Entry, *state.Envelope, error) {
	first, signature := new(state.Envelope), []byte(nil)
	e, err := read(rows, &first.Record, &signature, &first.Payload)
	if err != nil || first.Record == nil {
		return e, nil, err
	}
	copy(first.Signature[:], signature)
	if first.Payload == nil {
		first.Payload = []byte{}
	}
	return e, first, nil
}

// List is the newest record of every run of a project and the evidence against signers,
// by index. Records of deleted runs are there too, since a run that is restored counts
// again; the page names these runs.
func (l *Log) List(ctx context.Context, workspace, project string, f state.Filter) (*state.Page, error) {
	p, err := newPage(f.Limit)
	if err != nil {
		return nil, err
	}
	p.Next, p.Evidence, p.bare = f.Since, []state.Evidence{}, f.Bare
	var id int64
	err = l.base.QueryRowContext(ctx, `SELECT id, size FROM projects WHERE workspace = ? AND project = ?`, workspace, project).Scan(&id, &p.Size)
	if errors.Is(err, sql.ErrNoRows) {
		return &p.Page, nil
	}
	if err != nil {
		return nil, l.failure("find the project", err)
	}
	netuid := -1
	if f.Netuid != nil {
		netuid = int(*f.Netuid)
	}
	for n := batch; n == batch && !p.More && err == nil; {
		n, err = p.list(ctx, l.base, id, f.Role, netuid)
	}
	if !p.More {
		p.Next = max(p.Next, p.Size) // what the filter leaves out was seen too
	}
	if err == nil {
		err = l.surround(ctx, id, f.Since, &p.Page)
	}
	if err == nil {
		p.Chain, err = l.chain(ctx, chainOf{id, f.Role, netuid}, p.Next)
	}
	return &p.Page, l.failure("list the records", err)
}

// list takes the next rows of listed, until the page is full, and says how many.
func (p *page) list(ctx context.Context, q querier, id int64, role string, netuid int) (n int, err error) {
	rows, err := q.QueryContext(ctx, listed, id, min(p.Next, state.MaxNumber), role, netuid, p.bare)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for ; rows.Next(); n++ {
		if p.full() {
			p.More = true
			return n, nil
		}
		e, first, err := readPair(rows)
		if err != nil {
			return n, err
		}
		e.Dropped = e.Dropped && !p.bare
		p.Next = e.Index + 1
		if first == nil {
			if !e.Fork { // else the first one with its sequence is missing, which data verify finds
				p.add(e)
			}
			continue
		}
		p.Evidence = append(p.Evidence, state.Evidence{RunID: e.RunID, Proof: state.Proof{A: first, B: &e.Envelope}})
		p.bytes += len(e.Payload) + len(e.Record) + len(first.Payload) + len(first.Record)
	}
	return n, rows.Err()
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
	err = l.base.QueryRowContext(ctx, `SELECT hash FROM records WHERE project = ? AND idx = ?`, project, int64(min(index, state.MaxNumber))-1).Scan(&raw)
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
	rows, err := l.base.QueryContext(ctx, `SELECT run FROM runs WHERE project = ? AND idx >= ?`, project, index)
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

const (
	prefixed       = withoutPayload + `r.payload`
	withoutPayload = `idx, r.run, r.sequence, r.hash, r.received_ns, r.fork, r.record, r.signature, `
)

// Wait waits until List has a record or evidence, or until ctx ends; neither is an error.
// It looks at one row without its payload.
func (l *Log) Wait(ctx context.Context, workspace, project string, f state.Filter) error {
	if _, err := newPage(f.Limit); err != nil {
		return err
	}
	f.Limit, f.Bare = 1, true
	for {
		news := l.newsOf(workspace + "/" + project)
		p, err := l.List(context.WithoutCancel(ctx), workspace, project, f)
		if err != nil || len(p.Entries)+len(p.Evidence) > 0 {
			return err
		}
		f.Since = p.Next
		select {
		case <-news:
		case <-ctx.Done():
			return nil
		}
	}
}

// Grown waits until a project has more records than size, evidence included, or
// until ctx ends; neither is an error.
func (l *Log) Grown(ctx context.Context, workspace, project string, size uint64) error {
	for {
		news := l.newsOf(workspace + "/" + project)
		var now uint64
		err := l.base.QueryRowContext(context.WithoutCancel(ctx), `SELECT size FROM projects WHERE workspace = ? AND project = ?`, workspace, project).Scan(&now)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return l.failure("read the size of the log", err)
		}
		if now > size {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil
		}
	}
}
