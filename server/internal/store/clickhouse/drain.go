package clickhouse

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/journal"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/ledger"
)

const (
	// What a server has of a shard at once, about: blocks, and their packed bytes.
	mostHeld, mostHeldBytes = 256, 32 << 20
	// takenAtOnce is how many blocks one question to the log gives.
	takenAtOnce = 16
	// mostDrained is how many points go into one insert when many wait.
	mostDrained = 100_000
	// idleFor is how long it is waited for the first block.
	idleFor = time.Second
	// Pauses before blocks are looked at again that have no commit, or wait for others.
	shortestTurn, longestTurn = 2 * time.Millisecond, 50 * time.Millisecond
	// mostInserts is how many a drain commits before another one begins: those that ended are merged.
	mostInserts = 100_000
	// graceful is how much longer than a write may take a block without a commit is waited for.
	graceful = 10 * time.Second
)

// drain brings blocks of the log into a shard. Each insert has a position of its own; its rows,
// which blocks are done with, and that the position counts are one commit of the ledger. So a
// block that comes twice, here or at another server, finds that it is done.
type drain struct {
	engine *Engine
	shard  uint32
	as     *ledger.Drain // nil after a failure: nobody knows what an insert left
	held   []*held
	last   time.Time     // when the last insert began
	pause  time.Duration // how long to wait where it is the turn of no block
	kept   time.Time     // when the blocks were claimed again
}

// held is a block on its way.
type held struct {
	*journal.Block
	rows  *rows
	bytes int  // that it had
	known bool // a commit had it
	since time.Time
	due   ledger.Due
}

// drain works until ctx ends. What it holds then goes to another server, or comes again.
func (e *Engine) drain(ctx context.Context, shard uint32) {
	d := &drain{engine: e, shard: shard, pause: shortestTurn}
	for pause := firstPause; ctx.Err() == nil; {
		err := d.round(ctx)
		if err == nil {
			pause = firstPause
			continue
		}
		if ctx.Err() == nil {
			e.cfg.Logger.Warn("the log is not drained, tried again", "shard", shard, "err", err)
		}
		d.wait(ctx, pause)
		pause = min(2*pause, longestPause)
	}
	d.end(context.WithoutCancel(ctx))
}

// wait passes the time, and keeps the blocks.
func (d *drain) wait(ctx context.Context, pause time.Duration) {
	d.keep()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// round takes what is there, and drains what counts of it.
func (d *drain) round(ctx context.Context) error {
	if err := d.gather(ctx); err != nil || len(d.held) == 0 {
		return err
	}
	d.keep()
	ready, err := d.sort(ctx)
	if err != nil {
		return err
	}
	if len(ready) == 0 {
		if d.full() {
			d.giveBack()
		}
		d.wait(ctx, d.pause)
		d.pause = min(2*d.pause, longestTurn)
		return nil
	}
	d.pause = shortestTurn
	d.last = time.Now()
	if err := d.store(ctx, ready); err != nil {
		d.end(ctx)
		return err
	}
	d.forget(ready)
	if d.as.Number >= mostInserts {
		d.end(ctx)
	}
	return nil
}

// gather takes blocks: when none is there it waits, and when an insert was a moment ago it waits
// for more of them.
func (d *drain) gather(ctx context.Context) error {
	wait := idleFor
	if len(d.held) > 0 {
		wait = shortestTurn
	}
	for ctx.Err() == nil && !d.full() {
		list, err := d.engine.journal.Take(ctx, d.shard, takenAtOnce, wait)
		if err != nil {
			return err
		}
		d.add(list)
		wait = time.Until(d.last.Add(d.engine.cfg.Every))
		if len(list) == takenAtOnce { // more are there
			wait = shortestTurn
			continue
		}
		if len(d.held) == 0 || d.points() >= d.engine.cfg.GroupPoints || wait <= 0 {
			return nil
		}
	}
	return nil
}

// add unpacks blocks. One that cannot be read stays in the log, and comes again. One that came
// again is the same.
func (d *drain) add(list []*journal.Block) {
	for _, b := range list {
		if at := slices.IndexFunc(d.held, func(h *held) bool { return h.ID == b.ID }); at >= 0 {
			b.Data = nil
			d.held[at].Block = b
			continue
		}
		r, err := unpack(b.Data)
		if err != nil {
			d.engine.cfg.Logger.Error("a block of the log is not drained", "block", fmt.Sprintf("%x", b.ID), "err", err)
			continue
		}
		d.held = append(d.held, &held{Block: b, rows: r, bytes: len(b.Data), since: time.Now()})
		b.Data = nil
	}
}

// full: what is there goes first.
func (d *drain) full() bool {
	bytes := 0
	for _, h := range d.held {
		bytes += h.bytes
	}
	return len(d.held) >= mostHeld || bytes >= mostHeldBytes || d.points() >= mostDrained
}

func (d *drain) points() (n int) {
	for _, h := range d.held {
		n += len(h.rows.run)
	}
	return n
}

// keep tells the log that the blocks are still being drained here.
func (d *drain) keep() {
	if time.Since(d.kept) < journal.KeepEvery {
		return
	}
	d.kept = time.Now()
	for _, h := range d.held {
		h.Keep()
	}
}

// sort asks the ledger which blocks count, and whose turn it is. One that no commit has may be that of a write under
// way; when that had its time, it is given up.
func (d *drain) sort(ctx context.Context) (ready []*held, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.engine.cfg.Patience)
	defer cancel()
	ids := make([]ledger.BlockID, len(d.held))
	for i, h := range d.held {
		ids[i] = h.ID
	}
	found, err := d.engine.ledger.Blocks(ctx, d.shard, ids)
	if err != nil {
		return nil, err
	}
	var done []*held
	var late []ledger.BlockID
	for _, h := range d.held {
		var counts bool
		if h.due, counts = found[h.ID]; counts {
			h.known = true
		}
		switch {
		case h.due.Turn:
			ready = append(ready, h)
		case counts:
		case h.known:
			done = append(done, h)
		case time.Since(h.since) > d.engine.cfg.Patience+graceful:
			late = append(late, h.ID)
		}
	}
	d.forget(done)
	return first(ready), d.giveUp(ctx, late)
}

// first are the blocks of one insert, in their order: a read that sees a point of a run sees all
// that came before.
func first(ready []*held) []*held {
	slices.SortFunc(ready, func(a, b *held) int { return cmp.Compare(a.due.Number, b.due.Number) })
	points := 0
	for i, h := range ready {
		if points += len(h.rows.run); points >= mostDrained {
			return ready[:i+1]
		}
	}
	return ready
}

// giveUp drops blocks that no commit had in time. A commit that comes later fails.
func (d *drain) giveUp(ctx context.Context, late []ledger.BlockID) error {
	if len(late) == 0 {
		return nil
	}
	gone, err := d.engine.ledger.GiveUp(ctx, late)
	if err != nil {
		return err
	}
	never := map[ledger.BlockID]bool{}
	for _, id := range gone {
		never[id] = true
	}
	var done []*held
	for _, h := range d.held {
		if never[h.ID] {
			done = append(done, h)
		}
	}
	d.forget(done)
	return nil
}

// giveBack makes room: what comes next in order is not here, and would not be taken. The last
// blocks go back into the log.
func (d *drain) giveBack() {
	slices.SortStableFunc(d.held, func(a, b *held) int { return cmp.Compare(a.due.Number, b.due.Number) })
	for half := len(d.held) / 2; len(d.held) > half; d.held = d.held[:len(d.held)-1] {
		d.held[len(d.held)-1].Back()
	}
}

// forget is for blocks that are done with.
func (d *drain) forget(done []*held) {
	if len(done) == 0 {
		return
	}
	gone := make(map[*held]bool, len(done))
	for _, h := range done {
		h.Done()
		gone[h] = true
	}
	left := d.held[:0]
	for _, h := range d.held {
		if !gone[h] {
			left = append(left, h)
		}
	}
	clear(d.held[len(left):])
	d.held = left
}

// store inserts the points of blocks and commits that they count.
func (d *drain) store(ctx context.Context, ready []*held) (err error) {
	e := d.engine
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Patience)
	defer cancel()
	if d.as == nil {
		if d.as, err = e.ledger.BeginDrain(ctx, d.shard); err != nil {
			return err
		}
	}
	all, counts, ids := &rows{}, map[model.RunID]uint64{}, make([]ledger.BlockID, len(ready))
	for i, h := range ready {
		all.join(h.rows, h.due.Runs, counts)
		ids[i] = h.ID
	}
	if n := len(all.run); n > 0 {
		all.lsn = fill(make([]uint64, 0, n), d.as.LSN(), n)
		if err := d.insert(ctx, all); err != nil {
			return err
		}
	}
	return e.ledger.CommitDrain(ctx, d.as, ids, counts)
}

// insert keeps the blocks meanwhile.
func (d *drain) insert(ctx context.Context, all *rows) error {
	done := make(chan error, 1)
	go func() { done <- d.engine.points.Insert(ctx, d.shard, all.proof(), all.insert) }()
	ticks := time.NewTicker(journal.KeepEvery)
	defer ticks.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-ticks.C:
			d.keep()
		}
	}
}

// end gives up the positions of this drain.
func (d *drain) end(ctx context.Context) {
	if d.as == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := d.engine.ledger.EndDrain(ctx, d.as); err != nil {
		d.engine.cfg.Logger.Warn("the end of a drain was not noted", "err", err) // it ends with this server
	}
	d.as = nil
}
