package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// rounds of every read; the first ones warm and are not counted.
const (
	warmRounds = 3
	rounds     = 31
)

func measure(ctx context.Context, r *report, s *server, n size) error {
	if err := s.stop(); err != nil {
		return err
	}
	took, err := s.boot(ctx)
	if err != nil {
		return err
	}
	r.line("start after a clean stop", "everything", "%s to ready, %s to the first answer", took.ready, took.answer)
	if err := r.resident(s, "nothing read yet", 0, 0); err != nil {
		return err
	}
	for _, step := range []func(context.Context, *report, *server, size) error{lists, wideRuns, longSeries} {
		if err := step(ctx, r, s, n); err != nil {
			return err
		}
	}
	s.kill()
	if took, err = s.boot(ctx); err != nil {
		return err
	}
	r.line("start after kill -9", "everything", "%s to ready, %s to the first answer", took.ready, took.answer)
	sizes, err := s.disk()
	if err != nil {
		return err
	}
	for _, ext := range []string{".kgs", ".wal", ".db"} {
		r.line("disk", map[string]string{".kgs": "segments", ".wal": "log", ".db": "catalog"}[ext], "%.0f MB", float64(sizes[ext])/1e6)
	}
	return nil
}

// read times one request and checks that the answer has what it should.
func read(ctx context.Context, r *report, s *server, what, of, path string, query url.Values, want string) error {
	var times []time.Duration
	bytes := 0
	cold, base := time.Duration(0), time.Duration(0)
	for i := range warmRounds + rounds {
		if i == warmRounds {
			var err error
			if base, err = s.cpu(); err != nil {
				return err
			}
		}
		begin := time.Now()
		text, err := s.get(ctx, path, query)
		took := time.Since(begin)
		if err != nil {
			return err
		}
		if !strings.Contains(string(text), want) {
			return fmt.Errorf("%s of %s: the answer lacks %q: %.300s", what, of, want, text)
		}
		bytes = len(text)
		if i == 0 {
			cold = took
		}
		if i >= warmRounds {
			times = append(times, took)
		}
	}
	used, err := s.cpu()
	if err != nil {
		return err
	}
	slices.Sort(times)
	r.line(what, of, "p50 %s, least %s, server CPU %s, first %s, %s", milli(times[len(times)/2]), milli(times[0]), milli((used-base)/rounds), milli(cold), kilo(bytes))
	return nil
}

// lists reads pages of projects of 1,000 to 100,000 runs.
func lists(ctx context.Context, r *report, s *server, size size) error {
	for _, n := range size.runs {
		path := fmt.Sprintf("/api/v1/projects/%s/runs-%d/runs", workspace, n)
		of := count(n) + " runs"
		for _, q := range []struct {
			what  string
			query url.Values
			want  string
		}{
			{"list the newest 100 runs", url.Values{"limit": {"100"}}, `"run-`},
			{"… by name", url.Values{"limit": {"100"}, "sort": {"name"}}, `"run-000000"`},
			{"… by an attribute", url.Values{"limit": {"100"}, "sort": {"lr"}}, `"run-`},
			{"… where lr>0.9", url.Values{"limit": {"100"}, "q": {"lr>0.9"}}, `"runs"`},
			{"… with a word in the name", url.Values{"limit": {"100"}, "q": {"run-000007"}}, `"run-000007"`},
		} {
			if err := read(ctx, r, s, q.what, of, path, q.query, q.want); err != nil {
				return err
			}
		}
	}
	return nil
}

// wideRuns reads runs of 10,000 to 1,000,000 series.
func wideRuns(ctx context.Context, r *report, s *server, size size) error {
	for _, n := range size.wide {
		project := fmt.Sprintf("runs-%d", size.runs[len(size.runs)-1])
		if n > size.runs[len(size.runs)-1] {
			project = "wide"
		}
		found, err := s.runs(ctx, workspace, project, url.Values{"name": {wideName(n)}})
		if err != nil || len(found) != 1 {
			return fmt.Errorf("%s: %d runs, %w", wideName(n), len(found), err)
		}
		path, of := "/api/v1/runs/"+found[0].ID+"/series", count(n)+" series"
		before, err := s.memory("VmRSS")
		if err != nil {
			return err
		}
		last := wideMetric(n - 1)
		for _, q := range []struct {
			what  string
			query url.Values
			want  string
		}{
			{"list 100 series", url.Values{"limit": {"100"}}, wideMetric(0)},
			{"search, one matches", url.Values{"q": {"^" + last + "$"}, "limit": {"100"}}, last},
			{"search, a class of them", url.Values{"q": {`head_[0-9]7/grad_norm_3$`}, "limit": {"100"}}, "head_07/grad_norm_3"},
			{"search, none matches", url.Values{"q": {`(weight|bias)_norm_[0-9]+`}, "limit": {"100"}}, `"series":[]`},
			{"last values of 10,000 series", url.Values{"limit": {"10000"}}, `"last":{"step":1`},
		} {
			if n < 10_000 && strings.HasPrefix(q.what, "last") {
				continue
			}
			if err := read(ctx, r, s, q.what, of, path, q.query, q.want); err != nil {
				return err
			}
		}
		if err := r.resident(s, "after reading "+of, before, n); err != nil {
			return err
		}
	}
	return nil
}

// longSeries draws series of 1 M to 100 M points.
func longSeries(ctx context.Context, r *report, s *server, size size) error {
	runs, err := s.runs(ctx, workspace, "ml", nil)
	if err != nil || len(runs) != 1 {
		return fmt.Errorf("the run of 50 series: %d found, %w", len(runs), err)
	}
	if err := read(ctx, r, s, "read a series", "2,000 points", "/api/v1/runs/"+runs[0].ID+"/points", url.Values{"metric": {"train/metric_07"}, "limit": {"2000"}}, `"value"`); err != nil {
		return err
	}
	for _, n := range size.long {
		found, err := s.runs(ctx, workspace, "long", url.Values{"name": {fmt.Sprintf("long-%d", n)}})
		if err != nil || len(found) != 1 {
			return fmt.Errorf("the series of %d points: %d runs, %w", n, len(found), err)
		}
		path := "/api/v1/runs/" + found[0].ID
		for _, q := range []struct {
			what, path string
			query      url.Values
			want       string
		}{
			{"1,000 buckets of all", "/buckets", url.Values{"metric": {"loss"}, "n": {"1000"}}, `"mean"`},
			{"1,000 buckets of a tenth", "/buckets", url.Values{"metric": {"loss"}, "n": {"1000"}, "from": {strconv.Itoa(n / 2)}, "to": {strconv.Itoa(n/2 + n/10)}}, `"mean"`},
			{"1,000 points from the middle", "/points", url.Values{"metric": {"loss"}, "limit": {"1000"}, "from": {strconv.Itoa(n / 2)}}, `"value"`},
		} {
			if err := read(ctx, r, s, q.what, count(n)+" points", path+q.path, q.query, q.want); err != nil {
				return err
			}
		}
	}
	return nil
}

// report prints as it goes.
type report struct{ out *os.File }

func (r *report) line(what, of, format string, args ...any) {
	fmt.Fprintf(r.out, "| %s | %s | %s |\n", what, of, fmt.Sprintf(format, args...))
}

func (r *report) ingest(of string, points int, took time.Duration) {
	r.line("ingest", of, "%s points in %s, %.0f points/s", count(points), took.Round(time.Millisecond), float64(points)/took.Seconds())
}

// resident prints the memory, and what each of some series took since before.
func (r *report) resident(s *server, of string, before int64, series int) error {
	now, err := s.memory("VmRSS")
	if err != nil {
		return err
	}
	if series == 0 {
		r.line("resident memory", of, "%d MiB", now>>20)
	} else {
		r.line("resident memory", of, "%d MiB, %d B more a series", now>>20, (now-before)/int64(series))
	}
	return nil
}

func milli(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000) }

func kilo(bytes int) string { return fmt.Sprintf("%.1f kB", float64(bytes)/1000) }

// count writes 1000000 as 1,000,000.
func count(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
