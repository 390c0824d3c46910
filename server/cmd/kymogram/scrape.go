package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	promodel "github.com/prometheus/common/model"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/kymogram/kymogram"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/internal/uplink"
	"github.com/kymogram/kymogram/server/internal/httpapi"
)

// What a target may cost: its operator is a stranger.
const (
	scrapeTimeout = 10 * time.Second
	scrapeBytes   = 8 << 20
	scrapeSamples = 20_000
	scrapeAtOnce  = 8
)

type scrapeFlags struct {
	connection
	netuid             int
	workspace, project string
	spool              string
	every              time.Duration
	once               bool
}

func scrapeCommand(io stdio) *cobra.Command {
	var f scrapeFlags
	cmd := &cobra.Command{
		Use:   "scrape",
		Short: "Log what the nodes of a Bittensor subnet expose",
		Long: `Ask the server for the endpoints of a subnet (/sd/bittensor), scrape them as
Prometheus does, and log what they say: each node is a run named after its hotkey,
each family a metric, its labels those of the series; up is 1 or 0. A target may
cost 10 s, 8 MiB and 20,000 values, and redirects are not followed.`,
		Example: `  kymogram scrape --netuid 27
  kymogram scrape --netuid 27 --project nodes --every 1m
  kymogram scrape --netuid 27 --once --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.netuid < 0 || f.netuid > 65535 {
				return usagef("which subnet? give --netuid N")
			}
			if f.every < time.Second {
				return usagef("--every is %s, it must be a second or more", f.every)
			}
			return f.run(cmd.Context(), io)
		},
	}
	f.addTo(cmd)
	cmd.Flags().IntVar(&f.netuid, "netuid", -1, "number of the subnet")
	cmd.Flags().StringVar(&f.workspace, "workspace", "", "workspace of the runs (default KYMOGRAM_WORKSPACE, else default)")
	cmd.Flags().StringVar(&f.project, "project", "", "project of the runs (default subnet-N)")
	cmd.Flags().StringVar(&f.spool, "spool", "", "the spool folder (default KYMOGRAM_SPOOL_DIR, else as kymogram doctor says)")
	cmd.Flags().DurationVar(&f.every, "every", 30*time.Second, "time between two scrapes")
	cmd.Flags().BoolVar(&f.once, "once", false, "scrape once, deliver and end")
	return cmd
}

func (f *scrapeFlags) run(ctx context.Context, std stdio) error {
	server, err := f.dial(std)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(std.err, nil))
	s := &scraper{
		netuid: f.netuid, every: f.every, log: log, runs: map[string]*kymogram.Run{},
		options: kymogram.Options{
			Server: server.base.String(), APIKey: server.key, Workspace: f.workspace, SpoolDir: f.spool, ResumeStrategy: kymogram.ResumeAllow,
			Project: first(f.project, "subnet-"+strconv.Itoa(f.netuid)), NoEnvironment: true, NoSystemMetrics: true,
		},
		// As Prometheus does: straight to the target, whatever proxy the environment names.
		http: &http.Client{Timeout: scrapeTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: 2 * f.every}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		find: func(ctx context.Context) ([]httpapi.Target, error) {
			doc, err := server.document(ctx, http.MethodGet, "/sd/bittensor", url.Values{"netuid": {strconv.Itoa(f.netuid)}})
			if err != nil {
				return nil, err
			}
			var list []httpapi.Target
			return list, json.Unmarshal(doc, &list)
		},
	}
	if f.once {
		return s.once(ctx, std, f)
	}
	return s.serve(ctx, std)
}

// scraper logs what targets expose.
type scraper struct {
	netuid  int
	every   time.Duration
	options kymogram.Options
	http    *http.Client
	find    func(ctx context.Context) ([]httpapi.Target, error)
	log     *slog.Logger
	runs    map[string]*kymogram.Run // by hotkey
}

// scraped is what one round came to.
type scraped struct {
	Targets int    `json:"targets"`
	Up      int    `json:"up"`
	Values  uint64 `json:"values"`
	// Refused values can never be taken, such as those of an impossible name.
	Refused uint64 `json:"refused"`
}

// round finds the targets and scrapes each once.
func (s *scraper) round(ctx context.Context) (total scraped, err error) {
	targets, err := s.find(ctx)
	if err != nil {
		return total, err
	}
	found := map[string]bool{}
	results := make([]scraped, len(targets))
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(scrapeAtOnce)
	for i, t := range targets {
		hotkey := t.Labels["hotkey"]
		if hotkey == "" || found[hotkey] || len(t.Targets) != 1 {
			continue
		}
		found[hotkey] = true
		run, err := s.runOf(ctx, t)
		if err != nil {
			return total, errors.Join(err, group.Wait())
		}
		group.Go(func() error { results[i] = s.scrape(working, run, t.Targets[0]); return nil })
	}
	err = group.Wait()
	for _, r := range results {
		total.Targets += r.Targets
		total.Up += r.Up
		total.Values += r.Values
		total.Refused += r.Refused
	}
	return total, errors.Join(err, s.closeRuns(ctx, found))
}

func (s *scraper) runOf(ctx context.Context, t httpapi.Target) (*kymogram.Run, error) {
	hotkey := t.Labels["hotkey"]
	if run := s.runs[hotkey]; run != nil {
		return run, nil
	}
	o := s.options
	o.RunName, o.Hotkey, o.Tags = hotkey, hotkey, []string{"netuid-" + t.Labels["netuid"]}
	run, err := kymogram.Init(ctx, o)
	if err == nil {
		s.runs[hotkey] = run
	}
	return run, err
}

// closeRuns closes the runs of nodes that are gone.
func (s *scraper) closeRuns(ctx context.Context, keep map[string]bool) (err error) {
	for _, hotkey := range slices.Sorted(maps.Keys(s.runs)) {
		if !keep[hotkey] {
			err = errors.Join(err, s.runs[hotkey].Close(ctx))
			delete(s.runs, hotkey)
		}
	}
	return err
}

// scrape logs one target's values, or that it is down.
func (s *scraper) scrape(ctx context.Context, run *kymogram.Run, address string) scraped {
	out, now, up := scraped{Targets: 1}, time.Now(), 1.0
	families, err := s.read(ctx, address)
	if err != nil {
		s.log.Warn("a target is down", "target", address, "hotkey", run.Name(), "error", err)
		up = 0
	}
	put := func(name string, value float64, labels map[string]string) {
		opts := []kymogram.LogOption{kymogram.At(now)}
		if len(labels) > 0 {
			opts = append(opts, kymogram.Labels(labels))
		}
		if err := run.Log(name, value, opts...); err != nil {
			out.Refused++
			s.log.Debug("a value was refused", "name", name, "error", err)
			return
		}
		out.Values++
	}
	put("up", up, nil)
	out.Up = int(up)
	for _, name := range slices.Sorted(maps.Keys(families)) {
		eachSample(families[name], put)
	}
	return out
}

func (s *scraper) read(ctx context.Context, address string) (map[string]*dto.MetricFamily, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "text/plain;version=0.0.4")
	response, err := s.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", response.Status)
	}
	limited := &io.LimitedReader{R: response.Body, N: scrapeBytes + 1}
	families, err := parseFamilies(limited)
	if limited.N <= 0 {
		return nil, fmt.Errorf("its answer is larger than %d MiB", scrapeBytes>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("its answer is not of Prometheus' text format: %w", err)
	}
	count := 0
	for _, f := range families {
		eachSample(f, func(string, float64, map[string]string) { count++ })
	}
	if count > scrapeSamples {
		return nil, fmt.Errorf("it exposes %d values, %d are taken at most", count, scrapeSamples)
	}
	return families, nil
}

// parseFamilies reads Prometheus' text format. The parser panics on some bytes that
// are none of it, such as "{}" (prometheus/common 0.67.5).
func parseFamilies(r io.Reader) (families map[string]*dto.MetricFamily, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			families, err = nil, fmt.Errorf("the parser failed: %v", cause)
		}
	}()
	parser := expfmt.NewTextParser(promodel.UTF8Validation)
	return parser.TextToMetricFamilies(r)
}

// eachSample takes a family apart as Prometheus stores it.
func eachSample(f *dto.MetricFamily, put func(name string, value float64, labels map[string]string)) {
	name := f.GetName()
	for _, m := range f.GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		with := func(label string, value float64) map[string]string {
			out := maps.Clone(labels)
			out[label] = strconv.FormatFloat(value, 'g', -1, 64)
			return out
		}
		switch {
		case m.Counter != nil:
			put(name, m.Counter.GetValue(), labels)
		case m.Gauge != nil:
			put(name, m.Gauge.GetValue(), labels)
		case m.Untyped != nil:
			put(name, m.Untyped.GetValue(), labels)
		case m.Histogram != nil:
			for _, b := range m.Histogram.GetBucket() {
				put(name+"_bucket", float64(b.GetCumulativeCount()), with("le", b.GetUpperBound()))
			}
			put(name+"_sum", m.Histogram.GetSampleSum(), labels)
			put(name+"_count", float64(m.Histogram.GetSampleCount()), labels)
		case m.Summary != nil:
			for _, q := range m.Summary.GetQuantile() {
				put(name, q.GetValue(), with("quantile", q.GetQuantile()))
			}
			put(name+"_sum", m.Summary.GetSampleSum(), labels)
			put(name+"_count", float64(m.Summary.GetSampleCount()), labels)
		}
	}
}

// serve scrapes until ctx ends, and delivers where no agent does.
func (s *scraper) serve(ctx context.Context, std stdio) error {
	folder, err := s.folder(std)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		err := uplink.New(folder, uplink.Options{Kind: spool.KindAgent, Version: version, Log: s.log, Env: std.env}).Run(ctx)
		if errors.Is(err, uplink.ErrHeld) {
			return nil // an agent delivers
		}
		return err
	})
	group.Go(func() error {
		ticker := time.NewTicker(s.every)
		defer ticker.Stop()
		for {
			total, err := s.round(ctx)
			switch code := model.CodeOf(err); {
			case ctx.Err() != nil:
				return s.closeRuns(context.WithoutCancel(ctx), nil)
			case code == model.CodePermission || code == model.CodeUnauthenticated || code == model.CodeNotFound:
				return err // as it would be the next time
			case err != nil:
				s.log.Warn("cannot scrape", "error", err)
			default:
				s.log.Info("scraped", "targets", total.Targets, "up", total.Up, "values", total.Values, "refused", total.Refused)
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
			}
		}
	})
	return group.Wait()
}

func (s *scraper) folder(std stdio) (*spool.Folder, error) {
	if s.options.SpoolDir == "" {
		return spool.Resolve(std.env)
	}
	return spool.OpenFolder(s.options.SpoolDir)
}

// once scrapes once and ends when the server has it.
func (s *scraper) once(ctx context.Context, std stdio, f *scrapeFlags) error {
	total, err := s.round(ctx)
	if err = errors.Join(err, s.closeRuns(ctx, nil)); err != nil {
		return err
	}
	folder, err := s.folder(std)
	if err != nil {
		return err
	}
	err = uplink.New(folder, uplink.Options{Kind: spool.KindSync, Version: version, Once: true, Log: s.log, Env: std.env}).Run(ctx)
	if err != nil && !errors.Is(err, uplink.ErrHeld) {
		return err
	}
	if f.json {
		return printJSON(std.out, total)
	}
	_, err = fmt.Fprintf(std.out, "%d of %d targets are up: %d values logged, %d refused\n", total.Up, total.Targets, total.Values, total.Refused)
	return err
}
