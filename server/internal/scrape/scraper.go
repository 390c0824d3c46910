package scrape

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
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kymogram/kymogram"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/internal/uplink"
)

// Target is a node to scrape, as Prometheus' service discovery names it.
type Target struct {
	Targets []string          `json:"targets"` // HOST:PORT, IPv6 in brackets
	Labels  map[string]string `json:"labels"`  // hotkey and netuid are needed
}

// Options say what to scrape and where it goes.
type Options struct {
	Run     kymogram.Options // what all runs have in common
	Every   time.Duration    // between two rounds
	Version string
	Env     func(string) string
	Log     *slog.Logger
	// Find lists the targets anew.
	Find func(ctx context.Context) ([]Target, error)
}

// Scraper logs what targets expose.
type Scraper struct {
	options Options
	http    *http.Client
	runs    map[string]*kymogram.Run // by hotkey
}

// New makes a scraper. It goes straight to the targets, as Prometheus does, whatever
// proxy the environment names, and follows no redirect.
func New(o Options) *Scraper {
	return &Scraper{options: o, runs: map[string]*kymogram.Run{}, http: &http.Client{
		Timeout:       timeout,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: 2 * o.Every},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Result is what one round came to.
type Result struct {
	Targets int    `json:"targets"`
	Up      int    `json:"up"`
	Values  uint64 `json:"values"`
	// Refused values can never be taken, such as those of an impossible name.
	Refused uint64 `json:"refused"`
}

// Print writes it for a person.
func (r Result) Print(out io.Writer) error {
	_, err := fmt.Fprintf(out, "%d of %d targets are up: %d values logged, %d refused\n", r.Up, r.Targets, r.Values, r.Refused)
	return err
}

// Find asks a server for the targets of a subnet.
func Find(server *remote.Client, netuid string) func(context.Context) ([]Target, error) {
	return func(ctx context.Context) (list []Target, err error) {
		doc, err := server.Document(ctx, http.MethodGet, "/sd/bittensor", url.Values{"netuid": {netuid}})
		if err != nil {
			return nil, err
		}
		return list, json.Unmarshal(doc, &list)
	}
}

// round finds the targets and scrapes each once.
func (s *Scraper) round(ctx context.Context) (total Result, err error) {
	targets, err := s.options.Find(ctx)
	if err != nil {
		return total, err
	}
	found := map[string]bool{}
	results := make([]Result, len(targets))
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
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

func (s *Scraper) runOf(ctx context.Context, t Target) (*kymogram.Run, error) {
	hotkey := t.Labels["hotkey"]
	if run := s.runs[hotkey]; run != nil {
		return run, nil
	}
	o := s.options.Run
	o.RunName, o.Hotkey, o.Tags = hotkey, hotkey, []string{"netuid-" + t.Labels["netuid"]}
	run, err := kymogram.Init(ctx, o)
	if err == nil {
		s.runs[hotkey] = run
	}
	return run, err
}

// closeRuns closes the runs of nodes that are gone.
func (s *Scraper) closeRuns(ctx context.Context, keep map[string]bool) (err error) {
	for _, hotkey := range slices.Sorted(maps.Keys(s.runs)) {
		if !keep[hotkey] {
			err = errors.Join(err, s.runs[hotkey].Close(ctx))
			delete(s.runs, hotkey)
		}
	}
	return err
}

// scrape logs one target's values, or that it is down.
func (s *Scraper) scrape(ctx context.Context, run *kymogram.Run, address string) Result {
	out, now, up := Result{Targets: 1}, time.Now(), 1.0
	families, err := s.read(ctx, address)
	if err != nil {
		s.options.Log.Warn("a target is down", "target", address, "hotkey", run.Name(), "error", err)
		up = 0
	}
	put := func(name string, value float64, labels map[string]string) {
		opts := []kymogram.LogOption{kymogram.At(now)}
		if len(labels) > 0 {
			opts = append(opts, kymogram.Labels(labels))
		}
		if err := run.Log(name, value, opts...); err != nil {
			out.Refused++
			s.options.Log.Debug("a value was refused", "name", name, "error", err)
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

// Run scrapes until ctx ends, and delivers where no agent does.
func (s *Scraper) Run(ctx context.Context) error {
	folder, err := s.folder()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		err := uplink.New(folder, uplink.Options{Kind: spool.KindAgent, Version: s.options.Version, Log: s.options.Log, Env: s.options.Env}).Run(ctx)
		if errors.Is(err, uplink.ErrHeld) {
			return nil // an agent delivers
		}
		return err
	})
	group.Go(func() error {
		ticker := time.NewTicker(s.options.Every)
		defer ticker.Stop()
		for {
			total, err := s.round(ctx)
			switch code := model.CodeOf(err); {
			case ctx.Err() != nil:
				return s.closeRuns(context.WithoutCancel(ctx), nil)
			case code == model.CodePermission || code == model.CodeUnauthenticated || code == model.CodeNotFound:
				return err // as it would be the next time
			case err != nil:
				s.options.Log.Warn("cannot scrape", "error", err)
			default:
				s.options.Log.Info("scraped", "targets", total.Targets, "up", total.Up, "values", total.Values, "refused", total.Refused)
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
			}
		}
	})
	return group.Wait()
}

func (s *Scraper) folder() (*spool.Folder, error) {
	if s.options.Run.SpoolDir == "" {
		return spool.Resolve(s.options.Env)
	}
	return spool.OpenFolder(s.options.Run.SpoolDir)
}

// Once scrapes once and ends when the server has it.
func (s *Scraper) Once(ctx context.Context) (Result, error) {
	total, err := s.round(ctx)
	if err = errors.Join(err, s.closeRuns(ctx, nil)); err != nil {
		return total, err
	}
	folder, err := s.folder()
	if err != nil {
		return total, err
	}
	err = uplink.New(folder, uplink.Options{Kind: spool.KindSync, Version: s.options.Version, Once: true, Log: s.options.Log, Env: s.options.Env}).Run(ctx)
	if errors.Is(err, uplink.ErrHeld) {
		return total, nil
	}
	return total, err
}
