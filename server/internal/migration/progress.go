package migration

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/duration"
	"github.com/kymogram/kymogram/server/internal/progress"
)

// tellEvery is how often a line says how far an import is, where there is no terminal.
const tellEvery = 10 * time.Second

// Progress shows a person how far an import is: a bar on a terminal, else a line now and then.
type Progress struct {
	out      io.Writer
	terminal bool
	mu       sync.Mutex
	bar      progress.Bar
	begun    bool

	runs, rows, bytes  int64 // done
	allRuns, allRows   int64
	unitsDone, unitSum int64 // runs and rows together
	began, told        time.Time
}

// NewProgress shows on w.
func NewProgress(w io.Writer) *Progress {
	return &Progress{out: w, terminal: progress.IsTerminal(w)}
}

// expect adds to what there is to do.
func (p *Progress) expect(runs, rows int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.allRuns, p.allRows = p.allRuns+runs, p.allRows+rows
}

// did counts rows and bytes.
func (p *Progress) did(rows, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rows, p.bytes = p.rows+rows, p.bytes+bytes
	p.show(rows)
}

// ran counts a run, with those of its rows that were not copied because they are there.
func (p *Progress) ran(rest int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.runs++
	p.show(1 + max(rest, 0))
}

func (p *Progress) show(units int64) {
	now := time.Now()
	if !p.begun {
		p.begun, p.began, p.told = true, now, now
		p.unitSum = p.allRuns + p.allRows
		if p.terminal {
			p.bar = progress.Wide(p.out, p.unitSum)
		}
	}
	p.unitsDone = min(p.unitsDone+units, p.unitSum)
	if p.terminal {
		p.bar.Reach(p.unitsDone)
		p.bar.Describe(p.text())
	} else if now.Sub(p.told) >= tellEvery {
		p.told = now
		fmt.Fprintln(p.out, p.text()+p.left(now))
	}
}

func (p *Progress) text() string {
	return fmt.Sprintf("%d of %d runs, %d rows, %s", p.runs, p.allRuns, p.rows, size(p.bytes))
}

// left is about how long it takes still.
func (p *Progress) left(now time.Time) string {
	if p.unitsDone == 0 {
		return ""
	}
	rest := time.Duration(float64(now.Sub(p.began)) / float64(p.unitsDone) * float64(p.unitSum-p.unitsDone))
	return fmt.Sprintf(", about %s left", duration.Text(rest.Round(time.Second)))
}

func size(bytes int64) string {
	switch {
	case bytes >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	case bytes >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%d KiB", bytes>>10)
}

// Tell writes a line beside the bar.
func (p *Progress) Tell(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal && p.begun {
		_ = p.bar.Clear()
	}
	fmt.Fprintln(p.out, text)
}

// End takes the bar away.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal && p.begun {
		p.bar.End()
	}
}
