package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"os"
	"time"

	"github.com/kymogram/kymogram"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/wallet"
)

// nodeCommand is the argument of a child process.
const nodeCommand = "node"

// netuid is the subnet's number.
const netuid = 27

// life is how long a statement of the demo counts.
const life = 10 * time.Minute

// Settings are what the parent tells a node.
type Settings struct {
	Role      string
	Kind      string // what it does: honest, or a culprit's
	UID       int
	Seed      [32]byte // of its hotkey
	Server    string
	Key       string
	Workspace string
	Project   string
	Spool     string
	Every     time.Duration
	Miners    []Report // the truth, which an honest validator measures
}

// Report is what a validator says of a miner, in the subnet's own form.
type Report struct {
	UID       int     `json:"uid"`
	Hotkey    string  `json:"hotkey"`
	GPU       GPU     `json:"gpu_specs"`
	Score     float64 `json:"score"`
	Allocated bool    `json:"allocated"`
	Own       bool    `json:"own_score"`
}

// GPU is the hardware of a miner.
type GPU struct {
	Name   string `json:"gpu_name"`
	Number int    `json:"num_gpus"`
}

// node is one process: a key, and the runs that it signs for.
type node struct {
	Settings
	key     *wallet.Key
	machine state.Machine
	out     io.Writer
}

// runNode is the life of a child process. It says "ready" when it has spoken once.
func runNode(ctx context.Context, in io.Reader, out io.Writer) error {
	n := &node{out: out}
	if err := json.NewDecoder(in).Decode(&n.Settings); err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	var err error
	if n.key, err = wallet.NewKey(n.Seed); err != nil {
		return err
	}
	copy(n.machine[:], n.Seed[16:])
	if n.Role == state.Miner {
		return n.mine(ctx)
	}
	return n.validate(ctx)
}

// mine says every now and then what the miner has.
func (n *node) mine(ctx context.Context) error {
	v, err := n.open(ctx, 0)
	if err != nil {
		return err
	}
	own := n.Miners[0]
	return n.repeat(ctx, []*voice{v}, func(v *voice, turn int) error {
		specs := map[string]any{"gpu": map[string]any{"count": own.GPU.Number, "details": []any{map[string]any{"name": own.GPU.Name}}}, "has_docker": true}
		if err := v.log(map[string]float64{"Trust": wave(n.UID, turn), "Incentive": own.Score / 5000, "Emission": own.Score * wave(n.UID, turn)}); err != nil {
			return err
		}
		return v.say(ctx, map[string]any{"version": 183, "hotkey": own.Hotkey, "role": n.Role, "specs": specs, "is_port_open": true, "turn": turn})
	})
}

// repeat lets every voice speak, reports, and again until ctx ends.
func (n *node) repeat(ctx context.Context, voices []*voice, speak func(v *voice, turn int) error) error {
	defer func() {
		for _, v := range voices {
			_ = v.run.Close(context.WithoutCancel(ctx)) // what is left stays in the spool
		}
	}()
	for turn := 1; ; turn++ {
		for _, v := range voices {
			if err := speak(v, turn); err != nil && ctx.Err() == nil {
				return err
			}
		}
		if turn == 1 {
			fmt.Fprintln(n.out, "ready")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(n.Every):
		}
	}
}

// voice is one run of a node, and its chain of records.
type voice struct {
	node   *node
	run    *kymogram.Run
	server *remote.Client
	place  state.Place
	last   *state.Envelope
	at     uint64 // the last sequence
	life   time.Duration
	turn   int64
}

// open makes the node's run; a node with several runs numbers them.
func (n *node) open(ctx context.Context, number int) (*voice, error) {
	account := n.key.Account()
	name := fmt.Sprintf("%.7s%d", account.String()[1:], number)
	run, err := kymogram.Init(ctx, kymogram.Options{
		Server: n.Server, APIKey: n.Key, Workspace: n.Workspace, Project: n.Project, RunName: name, Hotkey: account.String(),
		DisplayName: n.Role + "-" + account.String(), Tags: []string{n.Role}, SpoolDir: n.Spool, NoEnvironment: true, NoSystemMetrics: true,
		ResumeStrategy: kymogram.ResumeAllow, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return nil, fmt.Errorf("open the run of %s: %w", account, err)
	}
	return &voice{
		node: n, run: run, server: &remote.Client{Base: n.Server, Key: n.Key}, life: life,
		place: state.Place{Netuid: netuid, Role: n.Role, Workspace: n.Workspace, Project: n.Project, Run: run.Name()},
	}, nil
}

// log keeps numbers beside the state.
func (v *voice) log(values map[string]float64) error {
	v.turn++
	return v.run.LogMap(values, kymogram.Step(v.turn))
}

// say signs the next record and sends it. When the server is ahead, since the run
// was there before, the record is signed again on top of its head.
func (v *voice) say(ctx context.Context, payload map[string]any) error {
	for range 3 {
		v.at = max(v.at+1, uint64(time.Now().UnixMilli()))
		e, err := v.seal(v.at, payload)
		if err != nil {
			return err
		}
		if err = v.deliver(ctx, e); err == nil {
			v.last = e
			return nil
		}
		if model.CodeOf(err) != model.CodeStateConflict {
			return err
		}
		if err := v.catchUp(ctx); err != nil {
			return err
		}
	}
	return errors.New("another process signs for this run")
}

func (v *voice) seal(sequence uint64, payload map[string]any) (*state.Envelope, error) {
	text, err := json.Marshal(payload)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	r := state.Record{
		Place: v.place, Sequence: sequence, TimeMs: uint64(now.UnixMilli()), ExpiresMs: uint64(now.Add(v.life).UnixMilli()),
		Machine: v.node.machine, PayloadType: state.ConfigPayload,
	}
	if v.last != nil {
		r.Previous = v.last.Hash()
	}
	return state.Seal(r, text, v.node.key)
}

func (v *voice) path() string { return remote.RunPath(v.run.ID(), "state") }

func (v *voice) send(ctx context.Context, e *state.Envelope) error {
	var taken struct{ Index uint64 }
	return v.server.Exchange(ctx, http.MethodPost, v.path(), e, &taken)
}

// patience is how long a server may lack a run that began while it was busy.
const patience = time.Minute

// deliver is send with patience.
func (v *voice) deliver(ctx context.Context, e *state.Envelope) error {
	end := time.Now().Add(patience)
	for {
		err := v.send(ctx, e)
		code := model.CodeOf(err)
		if code != model.CodeNotFound && code != model.CodeUnavailable || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// catchUp takes the server's head as the last record; its signature is our own.
func (v *voice) catchUp(ctx context.Context) error {
	var doc struct{ Head *state.Entry }
	if err := v.server.Exchange(ctx, http.MethodGet, v.path(), nil, &doc); err != nil || doc.Head == nil {
		return err
	}
	record, err := doc.Head.Open()
	if err == nil && record.Hotkey != v.node.key.Account() {
		err = errors.New("the server's newest record is not ours")
	}
	if err != nil {
		return err
	}
	v.last, v.at = &doc.Head.Envelope, max(v.at, record.Sequence)
	return nil
}

// wave is a number from 0 to 1 that moves with time.
func wave(uid, turn int) float64 { return 0.5 + 0.5*math.Sin(float64(uid)+float64(turn)/7) }
