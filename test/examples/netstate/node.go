package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	_ "modernc.org/sqlite" // the driver of the local database

	"github.com/kymogram/kymogram"
	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/netstate"
)

// nodeCommand is the argument of a child process.
const nodeCommand = "node"

// Settings are what the parent tells a node.
type Settings struct {
	Role      string
	Kind      string // what it does: honest, or a culprit's
	UID       int
	Netuid    int
	Seed      [32]byte // of its hotkey
	Server    string
	Key       string
	Chain     string // WebSocket address; empty: no chain
	Workspace string
	Project   string
	Folder    string // for its database and its spool
	Every     time.Duration
	Miners    []netstate.Stat // the truth, which an honest validator measures
}

// runNode is the life of a child process. It says "ready" when it has spoken once.
func runNode(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	var s Settings
	if err := json.NewDecoder(in).Decode(&s); err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	var subtensor *chain.Subtensor
	if s.Chain != "" {
		if subtensor, err = chain.Dial(chain.Config{Endpoints: []string{s.Chain}}); err != nil {
			return err
		}
		defer subtensor.Close()
	}
	first, err := s.join(ctx, 0, subtensor)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, first.close(ctx)) }()
	say := first.mine
	if s.Role == netstate.Validator {
		if say, err = first.validator(ctx, subtensor); err != nil {
			return err
		}
	}
	for turn := 1; ; turn++ {
		if err := say(ctx, turn); err != nil && ctx.Err() == nil {
			return err
		}
		if turn == 1 {
			fmt.Fprintln(out, "ready")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(s.Every):
		}
	}
}

// node is one run of a participant, with a database of its own.
type node struct {
	*netstate.Node
	Settings
	pool    *sql.DB
	db      *netstate.ComputeDb
	chained bool
}

// join opens a run; an honest participant has number 0 only.
func (s Settings) join(ctx context.Context, number int, subtensor *chain.Subtensor) (*node, error) {
	wallet, err := chain.SeedWallet(s.Seed)
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(s.Folder, fmt.Sprintf("%s-%d", wallet.Hotkey(), number))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	pool, err := sql.Open("sqlite", filepath.Join(folder, "database.db"))
	if err != nil {
		return nil, err
	}
	n := &node{Settings: s, pool: pool, chained: subtensor != nil}
	if n.db, err = netstate.OpenComputeDb(ctx, pool); err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	o := netstate.Options{
		DB: n.db, Wallet: wallet, Role: s.Role, Netuid: s.Netuid, Entity: s.Workspace, Project: s.Project,
		Server: s.Server, APIKey: s.Key, Version: 183, Life: s.life(), Log: log,
		Run: kymogram.Options{SpoolDir: filepath.Join(folder, "spool"), Tags: []string{s.Role}, NoEnvironment: true, NoSystemMetrics: true, Log: log},
	}
	if subtensor != nil {
		o.Chain = subtensor
	}
	if err := n.anotherRun(ctx, wallet.Hotkey(), number); err != nil {
		return nil, errors.Join(err, n.db.Close(), pool.Close())
	}
	if n.Node, err = netstate.Join(ctx, o); err != nil {
		return nil, errors.Join(err, n.db.Close(), pool.Close())
	}
	return n, nil
}

func (n *node) close(ctx context.Context) error {
	_ = n.Close(context.WithoutCancel(ctx)) // points that the server did not take stay in the spool
	return errors.Join(n.db.Close(), n.pool.Close())
}

// mine is what a miner says: its hardware, whether its port is open, and who rents it.
func (n *node) mine(ctx context.Context, turn int) error {
	own := n.Miners[0]
	specs := map[string]any{"gpu": map[string]any{"count": own.GPU.Count, "details": []any{map[string]any{"name": own.GPU.Name}}}, "has_docker": true}
	if err := n.UpdateSpecs(ctx, specs); err != nil {
		return err
	}
	if err := n.UpdateMinerPortOpen(ctx, true); err != nil {
		return err
	}
	if turn > 1 { // the validators have spoken
		if err := n.SyncAllocated(ctx, netstate.Select{}); err != nil {
			return err
		}
	}
	return n.logChain(ctx, map[string]float64{"Trust": wave(n.UID, turn), "Incentive": own.Score / 5000, "Emission": own.Score * wave(n.UID, turn)})
}

// validate publishes what a validator measured: stats into the database, from there
// into the state with the mark of who is allocated.
func (n *node) validate(ctx context.Context, measured []netstate.Stat, turn int) error {
	stats, allocated := netstate.Stats{}, []string{}
	for _, one := range measured {
		stats[one.UID] = one
		if one.Allocated {
			allocated = append(allocated, one.Hotkey)
		}
	}
	if err := n.db.WriteStats(ctx, stats); err != nil {
		return err
	}
	if err := n.UpdateAllocatedHotkeys(ctx, allocated); err != nil {
		return err
	}
	return n.logChain(ctx, map[string]float64{"Stake": 1000 * (1 + wave(n.UID, 0)), "vTrust": wave(n.UID, turn), "Emission": wave(n.UID, turn) * 3})
}

// logChain keeps the chain's values over time; without a chain it draws some.
func (n *node) logChain(ctx context.Context, drawn map[string]float64) error {
	if n.chained {
		return n.LogChain(ctx)
	}
	return n.LogChainData(drawn)
}

// wave is a number from 0 to 1 that moves with time.
func wave(uid, turn int) float64 { return 0.5 + 0.5*math.Sin(float64(uid)+float64(turn)/7) }

// secondRun is the id of a run beside the one that a participant has.
func secondRun(hotkey string, number int) string {
	return fmt.Sprintf("%.7s%s", hotkey[1:], strconv.Itoa(number))
}
