package uplink

import (
	"errors"

	"github.com/kymogram/kymogram/internal/spool"
)

// reasonDropped is the ledger's word for points that the client gave up.
const reasonDropped = "dropped"

// failed counts a try that failed, and gives up the oldest batch when the writer
// wants that after so many. Acks begin a new count, and a connection at rest.
func (d *delivery) failed() error {
	d.mu.Lock()
	d.page.Failures++
	failures := d.page.Failures
	d.mu.Unlock()
	if p := d.open.Pace; p != nil && p.GiveUpAfter != nil && failures > *p.GiveUpAfter {
		if err := d.giveUp(); err != nil {
			return err
		}
	}
	return d.status.SetTallies(d.counters())
}

// calm begins a new count of failures: the server has everything.
func (d *delivery) calm() {
	d.mu.Lock()
	changed := d.page.Failures > 0
	d.page.Failures = 0
	page := d.page
	d.mu.Unlock()
	if changed {
		d.note(d.status.SetTallies(page))
	}
}

// giveUp drops the points of the oldest batch: they are counted, and the next
// session tells the server that they will not come.
func (d *delivery) giveUp() error {
	page := d.counters()
	tail, err := spool.OpenTail(d.dir, d.id, max(page.Mark, page.GivenUp)+1, true)
	if err != nil {
		return err
	}
	defer tail.Close()
	var r spool.Record
	for size, limit := 0, paceOf(d.open.Pace).bytes; size < limit; size += len(tail.Payload) {
		progress, err := tail.Next(&r)
		if err != nil {
			return err
		}
		if progress == spool.Wait || progress == spool.End {
			break
		}
		if progress == spool.Got {
			dropped := r.Tally()
			page.Dropped.Points += dropped.Points
			page.Dropped.RL += dropped.RL
			page.GivenUp = r.Seq
		}
	}
	d.mu.Lock()
	count := page.Dropped.Total() - d.page.Dropped.Total()
	d.page.Dropped, d.page.GivenUp, d.page.Failures = page.Dropped, page.GivenUp, 0
	d.mu.Unlock()
	if count > 0 {
		d.log.Warn("points are dropped after their last try, as max_send_retries asks", "writer", d.id, "points", count)
	}
	return nil
}

// catchUp settles what the server stored though its acks were lost.
func (d *delivery) catchUp(mark uint64) error {
	page := d.counters()
	var sent spool.Tally
	// What was given up is counted as dropped, though it did arrive.
	if after := max(page.Mark, min(page.GivenUp, mark)); mark > after {
		found, err := d.tallyBetween(after, mark)
		if err != nil {
			return err
		}
		sent = found
	}
	return d.settle(mark, sent, 0)
}

// tallyBetween counts the records after one sequence and up to another.
func (d *delivery) tallyBetween(after, last uint64) (spool.Tally, error) {
	var out spool.Tally
	tail, err := spool.OpenTail(d.dir, d.id, after+1, true)
	if err != nil {
		return out, err
	}
	defer tail.Close()
	var r spool.Record
	for tail.Seq() <= last {
		progress, err := tail.Next(&r)
		if err != nil {
			return out, errors.Join(errors.New("count what the server has"), err)
		}
		if progress == spool.Wait || progress == spool.End {
			break
		}
		if progress == spool.Got && r.Seq <= last {
			out.Add(r.Tally())
		}
	}
	return out, nil
}
