package netstate

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/kymogram/kymogram"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/wallet"
	"github.com/kymogram/kymogram/read"
)

// Where the compute subnet keeps its state, as the seed has it.
const (
	PublicWandbName   = "opencompute"
	PublicWandbEntity = "neuralinternet"
)

// The roles of a participant.
const (
	Validator = state.Validator
	Miner     = state.Miner
)

// Options are what Join takes. DB, Wallet, Role and Netuid are required.
type Options struct {
	DB *ComputeDb
	// Wallet signs; *chain.Wallet is one.
	Wallet Signer
	Role   string // Validator or Miner
	Netuid int
	// Entity and Project are the workspace and project; PublicWandbEntity and
	// PublicWandbName when empty.
	Entity, Project string
	// Server: else KYMOGRAM_SERVER. APIKey: else KYMOGRAM_API_KEY, WANDB_API_KEY where
	// WANDB_BASE_URL names this server, .netrc's entry for it, credentials.json.
	Server, APIKey string

	// Chain says who is in the subnet; nil believes every hotkey that signs.
	Chain Chain
	// ChainEvery is the time between two looks at it; 25 blocks (5 minutes) when 0.
	ChainEvery time.Duration

	// Config is the program's configuration, published as config.config.
	Config map[string]any
	// Version is the program's, as chain.VersionAsInt has it.
	Version uint32
	// Life is how long a record counts; 6 hours when 0. [Node.Run] signs anew in time.
	Life time.Duration
	// MaxBlocks is how old a record of others may be, in blocks; 0: what Life comes to.
	MaxBlocks uint64
	// MaxBytes is how much of others is kept without a chain, in bytes of payloads; 64 MiB
	// when 0. What does not fit is [NotRead], unless its hotkey is named in a [Select].
	MaxBytes int
	// Skew is how far clocks may differ; 5 minutes when 0.
	Skew time.Duration

	// Run is what else the run is opened with: its spool, its limits, another Server
	// for its points.
	Run kymogram.Options
	// Log takes what happens; nil is slog.Default().
	Log *slog.Logger
	// Now is for tests; nil is the real thing.
	Now func() time.Time
}

const (
	defaultLife       = 6 * time.Hour
	defaultChainEvery = 25 * blockTime
	runIDLetters      = "0123456789abcdefghijklmnopqrstuvwxyz"
	runIDLength       = 8
)

// Signer signs with a hotkey.
type Signer = state.Signer

// Node is one participant: its run, what it says, and what it may believe of others
// (the seed's ComputeWandb). It is safe for concurrent use.
type Node struct {
	opts     Options
	db       *ComputeDb
	wallet   Signer
	place    state.Place
	machine  state.Machine
	identity string // age's secret
	registry *registry
	run      *kymogram.Run
	server   *remote.Client
	log      *slog.Logger

	mu      sync.Mutex // a publication at a time
	head    *state.Envelope
	asked   bool // head is what the server said, nil for none
	waiting bool // changes wait in the database

	view   view
	totals totals
}

// Join opens the run of a participant, or goes on with it, and says who it is. A
// server that does not answer is no error: the state goes out when it does.
func Join(ctx context.Context, opts Options) (*Node, error) {
	if err := opts.settle(); err != nil {
		return nil, err
	}
	n := &Node{
		opts: opts, db: opts.DB, wallet: opts.Wallet, log: opts.Log,
		view:     view{places: map[state.Place]*seen{}, runs: map[model.RunID]*shown{}, owed: map[model.RunID]*debt{}, shelf: shelf{held: map[state.Place]int{}, named: map[wallet.Account]bool{}}},
		registry: &registry{chain: opts.Chain, netuid: opts.Netuid, every: cmp.Or(opts.ChainEvery, defaultChainEvery), now: opts.Now},
	}
	if err := n.prepare(ctx); err != nil {
		return nil, err
	}
	if err := n.open(ctx); err != nil {
		return nil, err
	}
	err := n.introduce(ctx)
	if errors.As(err, new(foreign)) {
		err = n.move(ctx, err)
	}
	if err != nil {
		return nil, errors.Join(err, n.Close(ctx))
	}
	return n, nil
}

// move begins a new run, where the one in the database is somebody else's: a stranger
// was there first. What waited for the old one goes with it.
func (n *Node) move(ctx context.Context, why error) error {
	old := n.place
	left, err := n.db.pending(ctx, old)
	if err != nil {
		return err
	}
	if err := n.db.replaceRunID(ctx, n.Hotkey(), old.Run, newRunID()); err != nil {
		return err
	}
	if err := n.run.Close(ctx); err != nil {
		n.log.Warn("points of the run that is left may be missing", "run", old.Run, "error", err)
	}
	if err := n.open(ctx); err != nil {
		return err
	}
	n.log.Warn("the run of this hotkey is somebody else's; a new one begins", "was", old.Run, "run", n.place.Run, "reason", why)
	n.asked = false
	if err := errors.Join(n.db.addPending(ctx, n.place, left), n.db.settle(ctx, old, left)); err != nil {
		return err
	}
	return n.introduce(ctx)
}

func (o *Options) settle() error {
	switch {
	case o.DB == nil || o.Wallet == nil:
		return model.Errorf(model.CodeInvalid, "a participant needs a database and a wallet").WithHint("set DB and Wallet")
	case o.Role != Validator && o.Role != Miner:
		return model.Errorf(model.CodeInvalid, "the role is %q, it must be %s or %s", o.Role, Validator, Miner)
	case o.Netuid < 0 || o.Netuid > 1<<16-1:
		return model.Errorf(model.CodeInvalid, "the netuid is %d, it must be from 0 to 65535", o.Netuid)
	}
	o.Entity, o.Project = cmp.Or(o.Entity, PublicWandbEntity), cmp.Or(o.Project, PublicWandbName)
	o.Life, o.MaxBytes = cmp.Or(o.Life, defaultLife), cmp.Or(o.MaxBytes, defaultMaxBytes)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return nil
}

// prepare finds out what every record of this participant binds.
func (n *Node) prepare(ctx context.Context) (err error) {
	if n.machine, err = n.db.Machine(ctx); err != nil {
		return err
	}
	if n.identity, err = n.db.identity(ctx); err != nil {
		return err
	}
	graph, err := n.registry.look(ctx)
	if err != nil {
		return err
	}
	n.place = state.Place{
		Netuid: uint16(n.opts.Netuid), Role: n.opts.Role, Hotkey: n.wallet.Account(), Workspace: n.opts.Entity, Project: n.opts.Project,
	}
	if graph != nil {
		n.place.Genesis = graph.Genesis
		if why := n.registry.refusal(n.place.Role, n.place.Hotkey); why != "" {
			n.log.Warn("readers that ask the chain will not believe this participant", "reason", why)
		}
	}
	return nil
}

// DisplayName is the name of a participant's run on pages.
func DisplayName(role, hotkey string) string { return role + "-" + hotkey }

// An answer of an honest server ends before. A page of records has 16 MiB; one of runs has
// 8 MiB of texts, which may be six times that as JSON. A server waits for news for 30 s.
const (
	mostAnswer    = 64 << 20
	longestAnswer = 5 * time.Minute
)

// open finds the run's id, here or at the server, and opens the run.
func (n *Node) open(ctx context.Context) error {
	o := n.opts.Run
	server := cmp.Or(n.opts.Server, o.Server, os.Getenv("KYMOGRAM_SERVER"), "http://127.0.0.1:7070")
	o.Server, o.APIKey = cmp.Or(o.Server, server), cmp.Or(n.opts.APIKey, o.APIKey, keyFor(server, os.Getenv))
	n.server = &remote.Client{Base: server, Key: o.APIKey, Most: mostAnswer, Time: longestAnswer}
	id, err := n.runID(ctx)
	if err != nil {
		return err
	}
	o.Workspace, o.Project, o.RunName = n.opts.Entity, n.opts.Project, id
	o.DisplayName = DisplayName(n.opts.Role, n.Hotkey())
	o.Hotkey, o.ResumeStrategy = n.Hotkey(), kymogram.ResumeAllow
	if n.run, err = kymogram.Init(ctx, o); err != nil {
		return err
	}
	n.place.Run = id
	return nil
}

// runID is the id in the database, else that of the server's run of this participant,
// else a new one.
func (n *Node) runID(ctx context.Context) (string, error) {
	hotkey := n.Hotkey()
	id, err := n.db.RunID(ctx, hotkey)
	if err != nil || id != "" {
		return id, err
	}
	if id, err = n.recover(ctx); err != nil {
		n.log.Warn("cannot ask the server for a run of this hotkey; a new one begins", "error", err)
	}
	return n.db.SaveRunID(ctx, hotkey, cmp.Or(id, newRunID()))
}

func newRunID() string {
	raw := make([]byte, runIDLength)
	_, _ = rand.Read(raw) // never fails
	for i := range raw {
		raw[i] = runIDLetters[int(raw[i])%len(runIDLetters)]
	}
	return string(raw)
}

// recover looks for a run of this name whose record this hotkey signed, or whose id
// it signed the old way. A stranger's run of the same name is none.
func (n *Node) recover(ctx context.Context) (string, error) {
	client := read.Over(n.server)
	name := DisplayName(n.opts.Role, n.Hotkey())
	for run, err := range client.Runs(ctx, n.opts.Entity, n.opts.Project, read.RunFilter{Query: name, Sort: "created"}) {
		if model.CodeOf(err) == model.CodeNotFound {
			return "", nil // the project has no run yet
		}
		if err != nil {
			return "", err
		}
		if run.DisplayName != name {
			continue
		}
		config, err := run.Config(ctx)
		if err != nil {
			return "", err
		}
		if config["config/netuid"] != int64(n.opts.Netuid) {
			continue
		}
		mine, err := n.signed(ctx, run)
		if err != nil {
			return "", err
		}
		if mine {
			return run.Name, nil
		}
	}
	return "", nil
}

// signed reports whether this hotkey signed the run.
func (n *Node) signed(ctx context.Context, run *read.Run) (bool, error) {
	head, err := n.serverHead(ctx, run.ID)
	if err != nil {
		return false, err
	}
	if head != nil {
		record, err := head.Open()
		return err == nil && record.Hotkey == n.place.Hotkey && record.Run == run.Name, nil
	}
	attributes, err := run.Attributes(ctx)
	if err != nil {
		return false, err
	}
	old := state.CheckLegacy(n.place.Hotkey, run.Name, attributes["config/signature"].Str)
	return old.Verdict == state.Legacy, nil
}

// introduce says who this participant is.
func (n *Node) introduce(ctx context.Context) error {
	config := maps.Clone(n.opts.Config)
	if config == nil {
		config = map[string]any{}
	}
	for _, private := range []string{"logging", "wallet", "full_path", "axon"} { // as the seed leaves them out
		delete(config, private)
	}
	config["netuid"] = n.opts.Netuid
	recipient, err := recipientOf(n.identity)
	if err != nil {
		return err
	}
	legacy, err := state.SignLegacy(n.place.Run, n.wallet)
	if err != nil {
		return err
	}
	if err := n.run.LogAttributes("config/signature", legacy); err != nil {
		return err
	}
	who := map[string]any{"hotkey": n.Hotkey(), "role": n.opts.Role, "config": config, "version": n.opts.Version, "recipient": recipient}
	err = n.UpdateConfig(ctx, who)
	if refusedForGood(err) && n.forget(ctx, err) {
		err = n.UpdateConfig(ctx, who)
	}
	if later(err) {
		n.log.Warn("the server does not take the state yet; it goes out with the next update", "error", err)
		return nil
	}
	return err
}

// forget drops what a process left behind that died before it was refused. It reports
// whether there was any.
func (n *Node) forget(ctx context.Context, why error) bool {
	left, err := n.db.pending(ctx, n.place)
	if err != nil || len(left) == 0 {
		return false
	}
	n.log.Warn("changes of an earlier process are refused, and dropped", "keys", slices.Sorted(maps.Keys(left)), "error", why)
	return n.db.settle(ctx, n.place, left) == nil
}

// RunID is the run's name, the id that the compute subnet keeps.
func (n *Node) RunID() string { return n.place.Run }

// Hotkey is the address that signs.
func (n *Node) Hotkey() string { return n.wallet.Account().String() }

// Series is the run, for time series that are not part of the state.
func (n *Node) Series() *kymogram.Run { return n.run }

// Close ends the run. The state stays until it expires.
func (n *Node) Close(ctx context.Context) error { return n.run.Close(ctx) }

// Run delivers what waits and signs anew before the record expires, until ctx ends.
func (n *Node) Run(ctx context.Context) error {
	const eager = time.Minute
	for {
		n.mu.Lock()
		wait := n.opts.Life / 3
		if n.waiting {
			wait = min(wait, eager)
		}
		n.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		if err := n.SignRun(ctx); err != nil && ctx.Err() == nil {
			n.log.Warn("cannot sign the state anew", "error", err)
		}
	}
}
