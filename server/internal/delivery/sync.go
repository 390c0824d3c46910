package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/kymogram/kymogram/internal/duration"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/internal/uplink"
	"github.com/kymogram/kymogram/server/internal/table"
)

// Outcome is what became of a sync, as `kymogram sync --json` prints it.
type Outcome struct {
	Spool      string `json:"spool"`
	Delivered  uint64 `json:"points_delivered"`
	Refused    uint64 `json:"points_refused"`
	Renderings int64  `json:"renderings_uploaded"`
	// Closed counts programs that ended and of which nothing is left.
	Closed  int     `json:"writers_closed"`
	Seconds float64 `json:"seconds"`
	Left    Left    `json:"left"`
	// Waiting is what is left, by program.
	Waiting []Waiting `json:"waiting"`
	// Agent says that the agent, which had given way, was started again.
	Agent bool `json:"agent_started"`
	// Ended says why it ended while something was left.
	Ended string `json:"ended,omitempty"`
	Error string `json:"error,omitempty"`
}

// Why a sync ends before everything is delivered.
const (
	endedInterrupted = "interrupted"
	endedTimeout     = "the time is over"
	endedStuck       = "nothing moved for 30 s"
)

// Process is what a delivery needs of the program that it runs in.
type Process struct {
	Version string
	Env     func(string) string
	Err     io.Writer // takes warnings, and how far it is
	// StartAgent starts an agent of a folder, which goes on without this program.
	StartAgent func(folder *spool.Folder) error
}

// deliverer is one that ends when everything is delivered.
func (p Process) deliverer(folder *spool.Folder, server, key string) *uplink.Deliverer {
	return uplink.New(folder, uplink.Options{
		Kind: spool.KindSync, Version: p.Version, Server: server, Key: key, Once: true, Env: p.Env,
		Log: slog.New(slog.NewTextHandler(p.Err, &slog.HandlerOptions{Level: slog.LevelWarn})), MaxBackoff: 2 * time.Second,
	})
}

// Once delivers before, what lies in folder, to one server until nothing moves.
func (p Process) Once(ctx context.Context, folder *spool.Folder, server, key string, before Left) (uplink.Totals, error) {
	return p.watch(ctx, p.deliverer(folder, server, key), before, true)
}

// Request is what a person asks of a sync.
type Request struct {
	Server  string        // instead of the one that each run names
	Key     string        // for every server; runs that go on keep it
	Timeout time.Duration // 0 gives up when nothing moves
}

// Sync delivers what lies in folder, then says what is left and why.
func (p Process) Sync(ctx context.Context, folder *spool.Folder, r Request) (*Outcome, error) {
	began := time.Now()
	parent := ctx
	if r.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Timeout)
		defer cancel()
	}
	before, held, err := folder.Held()
	if err != nil {
		return nil, err
	}
	d := p.deliverer(folder, r.Server, r.Key)
	totals, err := p.watch(ctx, d, Left{}, r.Timeout == 0)
	if err != nil {
		return nil, err
	}
	if r.Key != "" && r.Server == "" {
		if err := keepKey(folder, r.Key); err != nil {
			return nil, err
		}
	}
	out := &Outcome{
		Spool: folder.Path, Delivered: totals.Acked, Refused: totals.Refused, Renderings: totals.Renderings, Closed: totals.Closed,
		Seconds: time.Since(began).Seconds(), Error: totals.Error,
	}
	if held && before.Kind == spool.KindAgent && p.StartAgent != nil {
		if out.Agent, err = p.resume(folder); err != nil {
			return nil, err
		}
	}
	if out.Waiting, err = List(folder); err != nil {
		return nil, err
	}
	if d.Over() { // what programs that go on logged since is the next deliverer's
		out.Waiting = slices.DeleteFunc(out.Waiting, func(one Waiting) bool { return one.Live })
	}
	out.Left.add(out.Waiting)
	if out.Left.Writers > 0 {
		switch {
		case parent.Err() != nil:
			out.Ended = endedInterrupted
		case ctx.Err() != nil:
			out.Ended = endedTimeout
		default:
			out.Ended = endedStuck
		}
	}
	return out, nil
}

// agentStarts is how long an agent has to take the folder.
const agentStarts = 5 * time.Second

// resume starts the agent that gave way, where its programs go on or left something:
// they were promised that it delivers when the server answers.
func (p Process) resume(folder *spool.Folder) (bool, error) {
	ids, err := folder.Writers()
	if err != nil || len(ids) == 0 {
		return false, err
	}
	if err := p.StartAgent(folder); err != nil {
		return false, fmt.Errorf("start the agent again: %w", err)
	}
	for began := time.Now(); time.Since(began) < agentStarts; time.Sleep(20 * time.Millisecond) {
		if _, held, err := folder.Held(); held || err != nil {
			return true, err
		}
	}
	return true, nil
}

// keepKey leaves a key that was taken to the agent of the runs that go on.
func keepKey(folder *spool.Folder, key string) error {
	ids, err := folder.Writers()
	if err != nil {
		return err
	}
	for _, id := range ids {
		open, err := spool.ReadOpen(folder.WriterPath(id))
		if err != nil {
			continue // delivered meanwhile, or damaged
		}
		status, err := spool.OpenStatus(folder.WriterPath(id))
		if err != nil {
			continue
		}
		page, err := status.Read()
		status.Close()
		if err != nil || page.State != spool.StateConnected {
			continue
		}
		if err := folder.SetKey(open.Server, key); err != nil {
			return err
		}
	}
	return nil
}

var errLeft = errors.New("not everything is delivered")

// Print writes it for a person.
func (r *Outcome) Print(out io.Writer) error {
	_, err := fmt.Fprintf(out, "%s points delivered in %s, %s refused, %s left in %s; ended programs closed: %d\n", table.Count(r.Delivered),
		duration.Text(time.Duration(r.Seconds*float64(time.Second)).Round(100*time.Millisecond)), table.Count(r.Refused), r.Left, r.Spool, r.Closed)
	if err == nil {
		err = printWaiting(out, r.Waiting)
	}
	if err == nil && r.Agent {
		_, err = fmt.Fprintln(out, "the agent runs again: it delivers what is left and what programs log from now on")
	}
	return err
}

// Err is what a sync that left something ends with.
func (r *Outcome) Err() error {
	switch {
	case r.Left.Writers == 0:
		return nil
	case r.Ended == endedInterrupted:
		return fmt.Errorf("%w: %s; run it again, it resumes where it stopped", errLeft, r.Ended)
	}
	return fmt.Errorf("%w: %s", errLeft, cmp.Or(r.Error, r.Ended))
}
