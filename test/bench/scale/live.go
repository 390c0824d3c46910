package main

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Goals of a chart of 1,000 buckets, whatever its series is and while it is written.
const (
	zoomCPU = 10 * time.Millisecond
	zoomP99 = 50 * time.Millisecond

	liveBatch = 200 // points, as a loop of 2,000 steps a second sends them
	liveEvery = 100 * time.Millisecond
	liveReads = 100 // of each zoom
	zoomCells = 1_000
)

// live draws a series that is written meanwhile: all of it, and zooms to where each
// level of summaries is just too coarse.
func live(ctx context.Context, r *report, binary string, lengths []int) error {
	for _, n := range lengths {
		if err := anew(ctx, binary, func(srv *server) error { return liveOf(ctx, r, srv, n) }); err != nil {
			return err
		}
	}
	return nil
}

func liveOf(ctx context.Context, r *report, srv *server, n int) error {
	begin := time.Now()
	l, err := openLong(ctx, srv, n)
	if err != nil {
		return err
	}
	defer l.conn.Close()
	for l.at < n {
		if err := l.write(min(longBatch, n-l.at)); err != nil {
			return err
		}
	}
	r.ingest("a series of "+count(n)+" points", n, time.Since(begin))
	if err := drawLive(ctx, r, srv, l, n); err != nil {
		return err
	}
	return indexMemory(ctx, r, srv, n)
}

// drawLive reads while points come.
func drawLive(ctx context.Context, r *report, srv *server, l *long, n int) error {
	found, err := srv.runs(ctx, workspace, "long", url.Values{"name": {fmt.Sprintf("long-%d", n)}})
	if err != nil || len(found) != 1 {
		return fmt.Errorf("the series of %d points: %d runs, %w", n, len(found), err)
	}
	writing, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, 1)
	go func() { failed <- l.writeOn(writing) }()
	idle, err := srv.cpuOver(ctx, 3*time.Second)
	if err != nil {
		return err
	}
	random := mathrand.New(mathrand.NewPCG(uint64(n), 8))
	for _, width := range zoomWidths(n) {
		if err := drawZoom(ctx, r, srv, found[0].ID, n, width, idle, random); err != nil {
			return err
		}
	}
	stop()
	return <-failed
}

// zoomWidths are ranges in points: where a cell is as wide as a summary, and just below.
func zoomWidths(n int) (out []int) {
	for _, width := range []int{n, n / 3, n / 10, 9_000_000, 7_000_000, 4_000_000, 1_000_000, 511_000, 250_000, 127_000, 63_000, 8_000, 1_000} {
		if width <= n && !slices.Contains(out, width) {
			out = append(out, width)
		}
	}
	return out
}

// writeOn goes on with a series, as its training would.
func (l *long) writeOn(ctx context.Context) error {
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return l.CloseSend()
		case <-tick.C:
		}
		if err := l.write(liveBatch); err != nil {
			return err
		}
	}
}

// drawZoom reads one width at many places, a quarter of them at the end that is written.
// The CPU of a request includes flushes and merges that ran meanwhile, without the writing.
func drawZoom(ctx context.Context, r *report, srv *server, run string, n, width int, idle float64, random *mathrand.Rand) error {
	var clock, cpu []time.Duration
	for i := range liveReads {
		from := random.IntN(n - width + 1)
		if i%4 == 0 {
			from = n - width
		}
		query := url.Values{"metric": {"loss"}, "n": {strconv.Itoa(zoomCells)}, "from": {strconv.Itoa(from)}}
		if i%4 > 0 {
			query.Set("to", strconv.Itoa(from+width-1))
		}
		_, took, used, err := srv.timed(ctx, "/api/v1/runs/"+run+"/buckets", query)
		if err != nil {
			return err
		}
		clock, cpu = append(clock, took), append(cpu, max(0, used-time.Duration(idle*float64(took))))
		time.Sleep(10 * time.Millisecond) // readers look at what they got; points come meanwhile
	}
	slices.Sort(clock)
	slices.Sort(cpu)
	p99 := (99*liveReads+99)/100 - 1
	r.line("live, 1,000 buckets of "+count(width), count(n)+" points", "CPU p50 %s %s, p99 %s, by the clock p50 %s, p99 %s %s", milli(cpu[liveReads/2]), met(cpu[liveReads/2] <= zoomCPU), milli(cpu[p99]), milli(clock[liveReads/2]), milli(clock[p99]), met(clock[p99] <= zoomP99))
	return nil
}

// timed is one request by the clock and by the server's processor time.
func (s *server) timed(ctx context.Context, path string, query url.Values) (text []byte, took, used time.Duration, err error) {
	before, err := s.cpu()
	if err != nil {
		return nil, 0, 0, err
	}
	begin := time.Now()
	if text, err = s.get(ctx, path, query); err != nil {
		return nil, 0, 0, err
	}
	took = time.Since(begin)
	after, err := s.cpu()
	return text, took, after - before, err
}

func met(ok bool) string {
	if ok {
		return "(met)"
	}
	return "(missed)"
}

// cpuOver is the share of a processor that the server takes by itself.
func (s *server) cpuOver(ctx context.Context, d time.Duration) (float64, error) {
	before, err := s.cpu()
	if err != nil {
		return 0, err
	}
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(d):
	}
	after, err := s.cpu()
	return float64(after-before) / float64(d), err
}

// indexMemory prints what the server keeps for each point once the series was read. It has
// nothing else: its first answer reads the series already.
func indexMemory(ctx context.Context, r *report, srv *server, n int) error {
	if err := srv.stop(); err != nil {
		return err
	}
	if _, err := srv.boot(ctx); err != nil {
		return err
	}
	found, err := srv.runs(ctx, workspace, "long", url.Values{"name": {fmt.Sprintf("long-%d", n)}})
	if err != nil || len(found) != 1 {
		return fmt.Errorf("the series of %d points: %d runs, %w", n, len(found), err)
	}
	if _, err := srv.get(ctx, "/api/v1/runs/"+found[0].ID+"/buckets", url.Values{"metric": {"loss"}, "n": {"1000"}}); err != nil {
		return err
	}
	held, err := srv.counted(ctx)
	if err != nil {
		return err
	}
	sizes, err := srv.disk()
	if err != nil {
		return err
	}
	r.line("index in memory", count(n)+" points", "%.3f B a point, %.1f MB; %.2f B a point on disk", held/float64(n), held/1e6, float64(sizes[".kgs"])/float64(n))
	return nil
}

// counted is the memory that the engine counts.
func (s *server) counted(ctx context.Context) (float64, error) {
	page, err := s.get(ctx, "/metrics", nil)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(page)) {
		if rest, ok := strings.CutPrefix(line, "kymogram_store_memory_bytes "); ok {
			return strconv.ParseFloat(strings.TrimSpace(rest), 64)
		}
	}
	return 0, errors.New("/metrics does not say what memory the store counts")
}
