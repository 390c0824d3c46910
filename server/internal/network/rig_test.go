package network_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/wallet"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/httpapi"
	"github.com/kymogram/kymogram/server/internal/network"
	"github.com/kymogram/kymogram/server/internal/statelog"
)

// rig is a service over a real log, with real keys.
type rig struct {
	t       testing.TB
	log     *counted
	file    string
	runs    *runs
	now     time.Time
	service *network.Service
	subnets *network.Subnets
}

// counted is a log that tells how many records were read from it.
type counted struct {
	*statelog.Log
	entries int
}

func (c *counted) List(ctx context.Context, workspace, project string, f state.Filter) (*state.Page, error) {
	page, err := c.Log.List(ctx, workspace, project, f)
	if err == nil {
		c.entries += len(page.Entries)
	}
	return page, err
}

// runs is a catalog of the runs without records.
type runs struct {
	details []catalog.Detail
	read    int
}

func (r *runs) ListRuns(_ context.Context, f catalog.RunFilter) (page []catalog.Run, _ string, _ error) {
	for _, d := range r.details {
		if f.Bytes > 0 && int64(len(d.Description)) > f.Bytes {
			return nil, "", catalog.ErrLarge
		}
		for _, a := range d.Attributes {
			if f.Query == a.Path+"="+a.Value.Str {
				page = append(page, d.Run)
				break
			}
		}
	}
	return page, "", nil
}

// Attributes gives an even number of them at a time.
func (r *runs) Attributes(_ context.Context, id model.RunID, cursor string) (page []catalog.Attribute, next string, err error) {
	if cursor == "" {
		r.read++
	}
	from, _ := strconv.Atoi(cursor)
	for i := range r.details {
		if all := r.details[i].Attributes; r.details[i].ID == id {
			if to := from + 2; to < len(all) {
				return all[from:to], strconv.Itoa(to), nil
			}
			return all[from:], "", nil
		}
	}
	return nil, "", model.Errorf(model.CodeNotFound, "no such run")
}

func newRig(t testing.TB, subnets *network.Subnets) *rig {
	t.Helper()
	r := &rig{t: t, runs: &runs{}, now: time.UnixMilli(1_800_000_000_000)}
	clock := func() time.Time { return r.now }
	r.file = filepath.Join(t.TempDir(), "state.db")
	log, err := statelog.Open(t.Context(), r.file, clock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	r.log = &counted{Log: log}
	r.subnets = subnets
	r.forget()
	return r
}

// forget starts the service anew: it has read nothing.
func (r *rig) forget() {
	r.service = network.New(r.log, r.runs, r.subnets, func() time.Time { return r.now })
}

// speaker is a run that signs.
type speaker struct {
	r        *rig
	role     string
	key      *wallet.Key
	run      catalog.Run
	sequence uint64
	previous state.Hash
	genesis  state.Hash
	block    uint64
	machine  byte
	life     time.Duration
}

func (r *rig) speaker(role string, key, run int) *speaker {
	r.t.Helper()
	k, err := wallet.NewKey([32]byte{byte(key), byte(key >> 8), 1})
	if err != nil {
		r.t.Fatal(err)
	}
	s := &speaker{r: r, role: role, key: k, life: time.Hour, machine: 1}
	s.run = catalog.Run{ID: model.RunID{byte(run), byte(run >> 8), 7}, Workspace: "w", Project: "p", Name: fmt.Sprintf("run-%d", run)}
	return s
}

func (s *speaker) hotkey() string { return s.key.Account().String() }

func (s *speaker) seal(sequence uint64, payload any) *state.Envelope {
	s.r.t.Helper()
	text, err := json.Marshal(payload)
	if err != nil {
		s.r.t.Fatal(err)
	}
	return s.sealText(sequence, text)
}

func (s *speaker) sealText(sequence uint64, text []byte) *state.Envelope {
	s.r.t.Helper()
	now := uint64(s.r.now.UnixMilli())
	e, err := state.Seal(state.Record{
		Place:    state.Place{Genesis: s.genesis, Netuid: 27, Role: s.role, Workspace: "w", Project: "p", Run: s.run.Name},
		Sequence: sequence, Previous: s.previous, Block: s.block, TimeMs: now, ExpiresMs: now + uint64(s.life.Milliseconds()),
		Machine: state.Machine{s.machine}, PayloadType: state.ConfigPayload,
	}, text, s.key)
	if err != nil {
		s.r.t.Fatal(err)
	}
	return e
}

// say signs the next record and has it taken.
func (s *speaker) say(payload any) {
	s.r.t.Helper()
	s.sequence++
	s.put(s.seal(s.sequence, payload))
}

func (s *speaker) put(e *state.Envelope) {
	s.r.t.Helper()
	if _, err := s.r.log.Put(s.r.t.Context(), &s.run, e); err != nil {
		s.r.t.Fatal(err)
	}
	s.previous = e.Hash()
}

// document is the answer as a reader of docs/network.md would write it down.
type document struct {
	Netuid  *int  `json:"netuid"`
	Netuids []int `json:"netuids"`
	Index   uint64
	Chain   *struct {
		Block uint64
		Error string
	}
	GPUs       [][2]any
	Miners     []miner
	Validators []validator
	Findings   []struct{ Kind, Role, Hotkey, Text string }
	LeftOut    struct{ Miners, Validators int } `json:"left_out"`
	Judging    *struct{ Done, Of int }
}

type row struct {
	Hotkey          string
	UID             *int
	RunID           string `json:"run_id"`
	Verdict, Reason string
	Version         *int64
	Endpoint        *struct {
		Address, Error string
		Answers        *bool
	}
}

type miner struct {
	row
	Allocated string
	PortOpen  *bool `json:"port_open"`
	Result    *struct {
		Score   float64
		GPU     int
		Carried []int
		Against int
	}
}

type validator struct {
	row
	Stake           *float64
	Counted         bool
	Notes           []string
	Agrees, Differs int
	Scores          []*float64
	Flags, GPUs     []int
}

// body is the answer as it is.
func (r *rig) body() []byte {
	r.t.Helper()
	body, err := r.service.Network(r.t.Context(), httpapi.NetworkQuery{Workspace: "w", Project: "p"})
	if err != nil {
		r.t.Fatal(err)
	}
	return body
}

func (r *rig) document() document {
	r.t.Helper()
	var doc document
	if err := json.Unmarshal(r.body(), &doc); err != nil {
		r.t.Fatal(err)
	}
	return doc
}

// of finds a validator by its hotkey.
func (d *document) of(hotkey string) *validator {
	for i := range d.Validators {
		if d.Validators[i].Hotkey == hotkey {
			return &d.Validators[i]
		}
	}
	return nil
}

// finding is the text of a finding, empty for none.
func (d *document) finding(kind, hotkey string) string {
	for _, f := range d.Findings {
		if f.Kind == kind && f.Hotkey == hotkey {
			return f.Text
		}
	}
	return ""
}
