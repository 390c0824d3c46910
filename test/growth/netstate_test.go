package growth

import (
	"context"
	"database/sql"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the database of a participant

	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/netstate"
)

// database is one of a participant's; its bytes count as those of the spool.
func (p *program) database() *netstate.ComputeDb {
	p.t.Helper()
	pool, err := sql.Open("sqlite", filepath.Join(p.spool, "database.db"))
	p.must(err)
	d, err := netstate.OpenComputeDb(context.Background(), pool)
	p.must(err)
	p.t.Cleanup(func() { _ = d.Close(); _ = pool.Close() })
	return d
}

// keeps asks a database n times.
func keeps(do func(d *netstate.ComputeDb, i int) error) func(*program, int) func() {
	return func(p *program, n int) func() {
		d := p.database()
		return func() {
			for i := range n {
				p.must(do(d, i))
			}
		}
	}
}

// kept fills a database with n things and reads them once.
func kept(fill func(d *netstate.ComputeDb, i int) error, look func(d *netstate.ComputeDb) error) func(*program, int) func() {
	return func(p *program, n int) func() {
		d := p.database()
		for i := range n {
			p.must(fill(d, i))
		}
		return func() { p.must(look(d)) }
	}
}

func miners(n int) netstate.Stats {
	s := netstate.Stats{}
	for i := range n {
		s[i] = netstate.Stat{UID: i, Hotkey: text(i, "hotkey-%d"), GPU: &netstate.GPU{Name: "H100", Count: 8}, Score: 50, Allocated: true}
	}
	return s
}

func hotkeys(n int) []string { return collect(n, func(i int) string { return text(i, "hotkey-%d") }) }

// subnet is a chain where the first of the speakers may speak.
type subnet struct{ hotkeys []string }

func (s subnet) Metagraph(context.Context, int) (*chain.Metagraph, error) {
	out := &chain.Metagraph{}
	for _, hotkey := range s.hotkeys {
		out.Neurons = append(out.Neurons, chain.Neuron{Hotkey: hotkey, Permit: true})
	}
	return out, nil
}

func (subnet) Block(context.Context) (uint64, error) { return 0, nil }

// join lets a validator into the network of w/p. With a chain all but four of the
// speakers are strangers to it.
func (p *program) join(with netstate.Chain) *netstate.Node {
	p.t.Helper()
	wallet, err := chain.SeedWallet([32]byte{1})
	p.must(err)
	o := netstate.Options{
		DB: p.database(), Wallet: wallet, Role: netstate.Validator, Netuid: 27, Entity: "w", Project: "p", Server: "http://" + p.lab.address, APIKey: p.lab.key,
		Chain: with, Run: p.options(), Log: slog.New(slog.DiscardHandler),
	}
	o.Run.Server, o.Run.APIKey, o.Run.RunName = o.Server, p.lab.key, "" // nothing delivers: it would be measured too
	node, err := netstate.Join(context.Background(), o)
	p.must(err)
	p.t.Cleanup(func() { _ = node.Close(context.Background()) })
	return node
}

// believes reads, in a network that prepare made, what the others say.
func believes(prepare func(l *lab, n int), do func(p *program, node *netstate.Node, n int) error) func(*program, int) func() {
	return func(p *program, n int) func() {
		if prepare != nil {
			prepare(p.lab, n)
		}
		node := p.join(nil)
		return func() { p.must(do(p, node, n)) }
	}
}

// amongStrangers are reads of four validators beside n strangers: the first one, or one
// of nothing new.
func amongStrangers(first bool) func(*program, int) func() {
	return func(p *program, n int) func() {
		var in subnet
		for i := range n + 4 {
			s := p.lab.signer(text(i, "v-%d"), state.Validator)
			if s.say(stats(20)); i < 4 {
				in.hotkeys = append(in.hotkeys, s.key.Account().String())
			}
		}
		node := p.join(in)
		read := func() {
			got, err := node.StatsAllocated(context.Background(), netstate.Select{})
			if p.must(err); len(got) != 19 { // of 20 one has score 0
				p.t.Errorf("%d miners", len(got))
			}
		}
		if first {
			return read
		}
		read()
		return func() {
			for range 20 {
				read()
			}
		}
	}
}

func ofValidators(l *lab, n int) { speakers(n, 20)(l) }
func ofMiners(l *lab, n int)     { speakers(4, n)(l) }

func databases() []row[*program] {
	ctx := context.Background()
	write := func(d *netstate.ComputeDb, i int) error { return d.SaveMiner(ctx, i, text(i, "h%d")) }
	details := func(d *netstate.ComputeDb, i int) error {
		return d.SaveMinerDetails(ctx, text(i, "h%d"), map[string]any{"gpu": i})
	}
	allocate := func(d *netstate.ComputeDb, i int) error {
		return d.Allocate(ctx, text(i, "h%d"), map[string]any{"i": i})
	}
	penalize := func(d *netstate.ComputeDb, i int) error {
		return d.Penalize(ctx, text(i, "h%d"), map[string]any{"i": i})
	}
	return []row[*program]{
		{call: "netstate.ComputeDb.WriteStats", grows: "miners", n: 200, run: func(p *program, n int) func() {
			d, s := p.database(), miners(n)
			return func() { p.must(d.WriteStats(ctx, s)) }
		}},
		{call: "netstate.ComputeDb.RetrieveStats", grows: "miners", n: 200, run: func(p *program, n int) func() {
			d := p.database()
			p.must(d.WriteStats(ctx, miners(n)))
			return func() {
				_, err := d.RetrieveStats(ctx)
				p.must(err)
			}
		}},
		{call: "netstate.ComputeDb.AddChallenges", grows: "results", n: 200, run: func(p *program, n int) func() {
			d := p.database()
			all := collect(n, func(i int) netstate.Challenge {
				return netstate.Challenge{UID: i, Hotkey: "h", Success: true, Elapsed: time.Second}
			})
			return func() { p.must(d.AddChallenges(ctx, all...)) }
		}},
		{call: "netstate.ComputeDb.Challenges", grows: "results", n: 200, run: func(p *program, n int) func() {
			d := p.database()
			p.must(d.AddChallenges(ctx, collect(n, func(i int) netstate.Challenge { return netstate.Challenge{UID: i, Hotkey: "h"} })...))
			return func() {
				_, _, err := d.Challenges(ctx, "h")
				p.must(err)
			}
		}},
		{call: "netstate.ComputeDb.AddPoG", grows: "proofs", n: 25, run: keeps(func(d *netstate.ComputeDb, _ int) error {
			return d.AddPoG(ctx, "h", netstate.GPU{Name: "H100", Count: 8}, time.Time{})
		})},
		{call: "netstate.ComputeDb.SaveMiner", grows: "miners", n: 25, run: keeps(write)},
		{call: "netstate.ComputeDb.SaveMinerDetails", grows: "miners", n: 25, run: keeps(details)},
		{call: "netstate.ComputeDb.SaveRunID", grows: "hotkeys", n: 25, run: keeps(func(d *netstate.ComputeDb, i int) error {
			_, err := d.SaveRunID(ctx, text(i, "h%d"), "r")
			return err
		})},
		{call: "netstate.ComputeDb.Allocate", grows: "hotkeys", n: 25, run: keeps(allocate)},
		{call: "netstate.ComputeDb.Allocations", grows: "hotkeys", n: 40, run: kept(allocate, func(d *netstate.ComputeDb) error {
			_, err := d.Allocations(ctx)
			return err
		})},
		{call: "netstate.ComputeDb.Penalize", grows: "hotkeys", n: 25, run: keeps(penalize)},
		{call: "netstate.ComputeDb.Penalized", grows: "hotkeys", n: 40, run: kept(penalize, func(d *netstate.ComputeDb) error {
			_, err := d.Penalized(ctx)
			return err
		})},
		{call: "netstate.PickDominant", grows: "reports", n: 10_000, run: func(_ *program, n int) func() {
			reports := collect(n, func(i int) netstate.Report {
				return netstate.Report{Stat: netstate.Stat{Score: float64(i%90 + 1), GPU: &netstate.GPU{Name: text(i, "gpu-%d"), Count: 8}}, Weight: float64(i)}
			})
			return func() { netstate.PickDominant(reports) }
		}},
	}
}

func nodes() []row[*program] {
	ctx := context.Background()
	stats := func(_ *program, node *netstate.Node, _ int) error {
		_, err := node.StatsAllocated(ctx, netstate.Select{})
		return err
	}
	return []row[*program]{
		{call: "netstate.Node.StatsAllocated", grows: "validators", n: 6, run: believes(ofValidators, stats)},
		{call: "netstate.Node.StatsAllocated", grows: "miners", n: 200, run: believes(ofMiners, stats)},
		{call: "netstate.Node.StatsAllocated", grows: "strangers, first", n: 40, run: amongStrangers(true)},
		{call: "netstate.Node.StatsAllocated", grows: "strangers, again", n: 40, run: amongStrangers(false)},
		{call: "netstate.Node.AllocatedHotkeys", grows: "validators", n: 6, run: believes(ofValidators, func(_ *program, node *netstate.Node, _ int) error {
			_, err := node.AllocatedHotkeys(ctx, netstate.Select{})
			return err
		})},
		{call: "netstate.Node.Verdicts", grows: "validators", n: 6, run: believes(ofValidators, func(_ *program, node *netstate.Node, _ int) error {
			_, err := node.Verdicts(ctx)
			return err
		})},
		{call: "netstate.Node.UpdateStats", grows: "miners", n: 200, run: believes(nil, func(_ *program, node *netstate.Node, n int) error {
			return node.UpdateStats(ctx, miners(n))
		})},
		{call: "netstate.Node.UpdateAllocatedHotkeys", grows: "hotkeys", n: 300, run: believes(nil, func(_ *program, node *netstate.Node, n int) error {
			return node.UpdateAllocatedHotkeys(ctx, hotkeys(n))
		})},
		{call: "netstate.Node.UpdateConfig", grows: "records of the run", n: 10, run: believes(nil, func(_ *program, node *netstate.Node, n int) error {
			for i := range n {
				if err := node.UpdateConfig(ctx, map[string]any{"count": i}); err != nil {
					return err
				}
			}
			return nil
		})},
		{call: "netstate.Node.LogChainData", grows: "values", n: 1_000, run: believes(nil, func(_ *program, node *netstate.Node, n int) error {
			values := map[string]float64{}
			for i := range n {
				values[text(i, "v%d")] = 1
			}
			return node.LogChainData(values)
		})},
	}
}

// callsOfNetworks are those of netstate and chain that have no row, and why.
func callsOfNetworks() map[string]string {
	const (
		one     = "one row, by its key"
		field   = "returns a field"
		list    = "a list of hotkeys, as netstate.Node.UpdateAllocatedHotkeys"
		union   = "as netstate.Node.AllocatedHotkeys, of another list"
		record  = "one record of constant size: netstate.Node.UpdateConfig"
		through = "hands on to a call that has a row"
		request = "one request to a chain, of constant size"
		subnet  = "reads a subnet, which has at most 256 nodes; test/chain measures it"
		small   = "of one value of constant size"
	)
	return map[string]string{
		"netstate.DecryptSpecs": "of one machine; age bounds it", "netstate.EncryptSpecs": "of one machine, for at most 256 readers",
		"netstate.DisplayName": small, "netstate.OpenComputeDb": "makes tables", "netstate.PerfInfo": "of this machine",
		"netstate.ComputeDb.Close": field, "netstate.ComputeDb.Deallocate": one, "netstate.ComputeDb.Machine": one, "netstate.ComputeDb.MinerDetails": one,
		"netstate.ComputeDb.Pardon": one, "netstate.ComputeDb.PoG": "at most 4 of a hotkey", "netstate.ComputeDb.RunID": one,
		"netstate.Join": "opens one run; its route has rows", "netstate.Node.Close": through + ": Run.Close", "netstate.Node.Hotkey": field,
		"netstate.Node.LogChain": subnet, "netstate.Node.MinerSpecs": "one record of each miner asked for, at most 256",
		"netstate.Node.PenalizedHotkeys": union, "netstate.Node.PenalizedHotkeysChecklist": union,
		"netstate.Node.PublishStats": through + ": netstate.Node.UpdateStats", "netstate.Node.Refresh": through + ": netstate.Node.StatsAllocated",
		"netstate.Node.Run": "signs anew before a record ends", "netstate.Node.RunID": field, "netstate.Node.Series": field, "netstate.Node.SignRun": record,
		"netstate.Node.SyncAllocated": through + ": netstate.Node.AllocatedHotkeys", "netstate.Node.UpdateAllocated": record,
		"netstate.Node.UpdateMinerPortOpen": record, "netstate.Node.UpdatePenalizedHotkeys": list, "netstate.Node.UpdatePenalizedHotkeysChecklist": list,
		"netstate.Node.UpdateSpecs": record, "netstate.Node.VerifyRun": "the newest records of one run; its route has rows",

		"chain.DefaultIPServices": "a fixed list", "chain.Dial": request, "chain.FormatErrorMessage": small, "chain.OpenWallet": "reads two files", "chain.OpenPublicWallet": "reads two files",
		"chain.Public": small, "chain.SeedWallet": small, "chain.VersionAsInt": small, "chain.ComputeSubnetAxon.Info": field,
		"chain.PrometheusInfo.Addr": small, "chain.PrometheusInfo.MarshalJSON": small, "chain.NewCallParams": small, "chain.RateLimitError.Error": small,
		"chain.RefusedError.As": small, "chain.RefusedError.Error": small, "chain.RefusedError.Unwrap": field,
		"chain.Registrar.Collect": "three gauges", "chain.Registrar.Describe": "three gauges", "chain.Registrar.InitPrometheus": request,
		"chain.Registrar.Run": "one request at a time", "chain.Registrar.Status": field, "chain.Registrar.SyncStatus": request, "chain.Results": "a fixed list",
		"chain.Subtensor.Axon": request, "chain.Subtensor.Block": request, "chain.Subtensor.Close": field, "chain.Subtensor.DoServePrometheus": request,
		"chain.Subtensor.ExternalIP": "one request to each of three services", "chain.Subtensor.List": subnet, "chain.Subtensor.Metagraph": subnet,
		"chain.Subtensor.PrometheusExtrinsic": request, "chain.Subtensor.PrometheusInfo": request, "chain.Subtensor.Registrar": "makes an object",
		"chain.Subtensor.ServePrometheus": request, "chain.Subtensor.Watch": subnet, "chain.UnknownOutcomeError.Error": small,
		"chain.UnknownOutcomeError.Unwrap": field, "chain.Wallet.Account": field, "chain.Wallet.Coldkey": field, "chain.Wallet.Hotkey": field,
		"chain.Wallet.LogValue": field, "chain.Wallet.Sign": "hashes the message once; POST …/state has a row of its bytes", "chain.Wallet.String": field,
	}
}

func TestEveryCallOfNetworksHasARow(t *testing.T) {
	calls := append(exported(t, "../../netstate", "netstate."), exported(t, "../../chain", "chain.")...)
	covered(t, "netstate_test.go", calls, append(names(databases()), names(nodes())...), callsOfNetworks())
}

func TestNetstate(t *testing.T) {
	short(t)
	// Each write waits for the disk: few of them, and nothing else runs beside them.
	ofPrograms(t, databases(), nil, cost{seconds: 0.04, bytes: 64 << 10, objects: 1_000, disk: 512 << 10})
	ofPrograms(t, nodes(), start, reserved())
}
