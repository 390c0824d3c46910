package uplink

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

const turnPoll = 20 * time.Millisecond

// inTurn waits until the writers that this one names as ended have opened: a
// server that met them in the other order would take the earlier life for a part
// of the later. false when ctx or stop came first.
func (d *delivery) inTurn(ctx context.Context) (ok bool, err error) {
	var tried uint64
	for d.after != nil {
		older, wait := d.after(d)
		if !wait {
			break
		}
		if older != nil && older.counters().Errors > tried {
			tried = older.counters().Errors
			if err := d.share(older); err != nil {
				return false, err
			}
		}
		if !d.pause(ctx, turnPoll) {
			return false, nil
		}
	}
	return true, nil
}

// share counts the failed try of an older writer as one of this, which would
// have failed like it.
func (d *delivery) share(older *delivery) error {
	d.fail(errors.New(older.counters().Error))
	return d.failed()
}

// before finds an older writer of w's run that has still to open; nil where it
// waits to be taken up.
func (d *Deliverer) before(w *delivery) (older *delivery, wait bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range w.open.Open.Ended {
		older := d.writers[id]
		switch {
		case older != nil:
			if older.server() == w.server() && older.toOpen() {
				return older, true
			}
		case d.broken[id].IsZero() && d.lies(id):
			return nil, true // the next scan takes it up
		}
	}
	return nil, false
}

func (d *Deliverer) lies(id model.WriterID) bool {
	_, err := os.Stat(d.folder.WriterPath(id))
	return err == nil
}

// toOpen holds until the server has answered, with the run or with a reason why not.
func (d *delivery) toOpen() bool {
	return d.runID.Load() == nil && !d.final.Load() && !d.answered.Load()
}

// unanswered holds for failures that say nothing about the writer.
func unanswered(err error) bool { return codeOf(err) == model.CodeUnavailable }
