package delivery

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/kymogram/kymogram/internal/duration"
	"github.com/kymogram/kymogram/internal/uplink"
	"github.com/kymogram/kymogram/server/internal/progress"
	"github.com/kymogram/kymogram/server/internal/table"
)

// patience is how long a delivery without a limit goes on without progress.
var patience = 30 * time.Second // but for tests

// watch runs the delivery and shows its progress; impatient ends it when nothing
// moves. before is what there is to deliver; it is counted meanwhile when it is empty.
func (p Process) watch(ctx context.Context, d *uplink.Deliverer, before Left, impatient bool) (uplink.Totals, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	bar := startProgress(p.Err, d, before)
	defer bar.end()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	last, moved := d.Totals(), time.Now()
	var there *Left // what there was in the middle of a wait
	for {
		select {
		case err := <-ended:
			return d.Totals(), err
		case <-ticker.C:
		}
		now := d.Totals()
		if now.Acked != last.Acked || now.Refused != last.Refused || now.Writers != last.Writers || now.Closed != last.Closed || now.Renderings != last.Renderings {
			moved, there = time.Now(), nil
		}
		last = now
		bar.show(now.Acked + now.Refused)
		waited := time.Since(moved)
		if !impatient || waited <= patience/2 || there != nil && waited <= patience {
			continue
		}
		// Another program may deliver the spool, and we wait for it.
		left, err := LeftIn(d.Folder())
		switch {
		case there == nil:
			there = &left
		case err == nil && left != *there:
			moved, there = time.Now(), nil
		default:
			cancel()
		}
	}
}

// lineEvery is how often progress is told where no terminal shows a bar.
const lineEvery = 30 * time.Second

// shown tells how a delivery goes: a bar on a terminal, elsewhere a line now
// and then. What there is to deliver is counted meanwhile.
type shown struct {
	out   io.Writer
	total atomic.Uint64 // points; 0 while they are counted
	began time.Time
	bar   *progress.Bar // nil without a terminal, and at first
	told  time.Time
}

func startProgress(out io.Writer, d *uplink.Deliverer, before Left) *shown {
	p := &shown{out: out, began: time.Now(), told: time.Now()}
	p.total.Store(before.Points)
	if before == (Left{}) {
		go p.count(d)
	}
	return p
}

func (p *shown) count(d *uplink.Deliverer) {
	done := d.Totals()
	if found, err := LeftIn(d.Folder()); err == nil {
		p.total.Store(done.Acked + done.Refused + found.Points)
	}
}

func (p *shown) show(done uint64) {
	total := p.total.Load()
	if total == 0 {
		return
	}
	if progress.IsTerminal(p.out) {
		if p.bar == nil {
			bar := progress.Points(p.out, int64(total))
			p.bar = &bar
		}
		p.bar.Reach(int64(done))
		return
	}
	if time.Since(p.told) < lineEvery {
		return
	}
	p.told = time.Now()
	line := fmt.Sprintf("%s of %s points", table.Count(done), table.Count(max(done, total)))
	if rate := float64(done) / time.Since(p.began).Seconds(); rate > 0 && total > done {
		line += fmt.Sprintf(", %s/s, %s left", table.Count(uint64(rate)), duration.Text(time.Duration(float64(total-done)/rate*float64(time.Second)).Round(time.Second)))
	}
	fmt.Fprintln(p.out, line)
}

func (p *shown) end() {
	if p.bar != nil {
		p.bar.End()
	}
}
