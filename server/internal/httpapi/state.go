package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/kymogram/kymogram/internal/duration"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/selfmetrics"
)

// maxWait is how long a list may wait for a record: below what proxies allow.
const maxWait = 30

// What answers with records take of their caller's memory: a page, in memory and as text;
// a newest record with a pair that speaks against it takes less than half.
const (
	recordsBytes = 12 << 20
	headBytes    = recordsBytes / 2
)

// States keeps signed records; package statelog does, wired in cmd.
type States interface {
	// Put takes a record as the newest of its run. One that does not follow the
	// newest is a [state.Conflict].
	Put(ctx context.Context, run *catalog.Run, e *state.Envelope) (*state.Entry, error)
	// Head is the newest record of a run with what speaks against it.
	Head(ctx context.Context, run model.RunID) (state.Newest, error)
	History(ctx context.Context, run model.RunID, span state.Span) (*state.Page, error)
	List(ctx context.Context, workspace, project string, f state.Filter) (*state.Page, error)
	// Wait waits until List has a record or evidence, or ctx ends.
	Wait(ctx context.Context, workspace, project string, f state.Filter) error
}

type takenDoc struct {
	Sequence uint64     `json:"sequence"`
	Hash     state.Hash `json:"hash"`
	Index    uint64     `json:"index"`
}

type headDoc struct {
	Head *state.Entry `json:"head"`
}

// putState takes a signed record. A conflict is answered with the newest record,
// for a caller that may write only too: its next record has to name it.
func (a *API) putState(w http.ResponseWriter, r *http.Request) error {
	if p := readParams(r); p.err != nil {
		return p.err
	}
	id, err := runID(r)
	if err != nil {
		return err
	}
	run, err := a.ingest.Writable(r.Context(), id)
	if err != nil {
		return err
	}
	envelope, err := state.ReadEnvelope(r.Body)
	if err != nil {
		return err
	}
	taken, err := a.options.States.Put(r.Context(), run, envelope)
	if c := (*state.Conflict)(nil); errors.As(err, &c) {
		return writeConflict(w, c)
	}
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	return json.NewEncoder(w).Encode(takenDoc{taken.Sequence, taken.Digest, taken.Index})
}

func writeConflict(w http.ResponseWriter, c *state.Conflict) error {
	e := model.Errorf(model.CodeStateConflict, "%s", c.Error()).WithHint("read head, take a higher sequence, name its hash as previous and sign again")
	w.Header().Set("Content-Type", "application/json")
	selfmetrics.Refused(w, e.Code)
	w.WriteHeader(Status(e.Code))
	return json.NewEncoder(w).Encode(struct {
		errorDoc
		headDoc
	}{errorDoc{e}, headDoc{c.Head}})
}

func (a *API) state(w http.ResponseWriter, r *http.Request) error {
	if p := readParams(r); p.err != nil {
		return p.err
	}
	id, err := a.locate(r)
	if err != nil {
		return err
	}
	release, err := a.memory.reserve(r.Context(), headBytes)
	if err != nil {
		return err
	}
	defer release()
	head, err := a.options.States.Head(r.Context(), id)
	if err != nil {
		return err
	}
	return a.cut(r, writeJSON(w, head))
}

func (a *API) stateHistory(w http.ResponseWriter, r *http.Request) error {
	p := readParams(r, "after", "before", "limit")
	span := state.Span{After: p.count("after"), Before: p.count("before"), Limit: p.size("limit", math.MaxInt32)}
	if span.After > 0 && span.Before > 0 {
		p.fail(model.Errorf(model.CodeInvalid, "after and before are both given: one page goes one way"))
	}
	if p.err != nil {
		return p.err
	}
	id, err := a.locate(r)
	if err != nil {
		return err
	}
	release, err := a.memory.reserve(r.Context(), recordsBytes)
	if err != nil {
		return err
	}
	defer release()
	page, err := a.options.States.History(r.Context(), id, span)
	if err != nil {
		return err
	}
	return a.cut(r, writeJSON(w, page))
}

// states lists the newest records of a project; with wait it answers when there
// is one, so that a reader sees an update at once.
func (a *API) states(w http.ResponseWriter, r *http.Request) error {
	p := readParams(r, "role", "netuid", "since", "wait", "limit", "bare")
	f := state.Filter{Role: p.oneOf("role", "", state.Validator, state.Miner), Netuid: p.netuid(), Since: p.count("since"), Limit: p.size("limit", math.MaxInt32), Bare: p.flag("bare")}
	wait := p.wait()
	if p.err != nil {
		return p.err
	}
	workspace, project := r.PathValue("workspace"), r.PathValue("project")
	if err := a.query.Allow(r.Context(), workspace, project); err != nil {
		return err
	}
	if wait > 0 {
		if err := a.await(r.Context(), wait, workspace, project, f); err != nil {
			return err
		}
	}
	release, err := a.memory.reserve(r.Context(), recordsBytes) // not while it waits for a record
	if err != nil {
		return err
	}
	defer release()
	page, err := a.options.States.List(r.Context(), workspace, project, f)
	if err != nil {
		return err
	}
	return a.cut(r, writeJSON(w, page))
}

// await returns when a filter has something to list, or the time is up. What is listed is
// read when there is memory for it.
func (a *API) await(ctx context.Context, limit time.Duration, workspace, project string, f state.Filter) error {
	end, err := a.waits.Try(ctx, 1)
	if err != nil {
		return err
	}
	defer end()
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := a.options.States.Wait(waiting, workspace, project, f); err != nil {
		return err
	}
	return ctx.Err() // its key ended while it waited
}

// netuid reads the number of a subnet, nil when it is absent.
func (p *params) netuid() *uint16 {
	n := p.number("netuid")
	if n == nil {
		return nil
	}
	if *n < 0 || *n > math.MaxUint16 {
		p.fail(model.Errorf(model.CodeInvalid, "netuid is %d, it must be from 0 to %d", *n, math.MaxUint16))
	}
	netuid := uint16(*n)
	return &netuid
}

// count reads a number that is not negative, 0 when it is absent.
// wait is how long to wait for news: seconds, or a duration.
func (p *params) wait() time.Duration {
	text := p.text("wait")
	if text == "" {
		return 0
	}
	d, err := duration.Seconds(text)
	if err == nil && d > maxWait*time.Second {
		err = fmt.Errorf("it must be from 0 to %ds", maxWait)
	}
	if err != nil {
		p.fail(model.Errorf(model.CodeInvalid, "wait is %q: %v", model.Clip(text), err).WithHint("a number of seconds, or a duration such as 30s"))
		return 0
	}
	return d
}

func (p *params) count(name string) uint64 {
	n := p.number(name)
	if n == nil {
		return 0
	}
	if *n < 0 {
		p.fail(model.Errorf(model.CodeInvalid, "%s is %d, it must not be negative", name, *n))
		return 0
	}
	return uint64(*n)
}
