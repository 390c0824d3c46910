package netstate

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/wallet"
	"github.com/kymogram/kymogram/read"
)

// Select says whose word counts.
type Select struct {
	// Validators are the seed's valid_validator_hotkeys. They count only where Listed
	// is set, the seed's flag: else every validator does whose record holds.
	Validators []string
	Listed     bool
	// OwnScoreOnly counts reports of miners that nobody has allocated too, as the
	// compute subnet's code does, and not its documents.
	OwnScoreOnly bool
	// ByStake weighs a vote by the validator's stake, which needs a chain; without
	// stake there is no vote. Else a hotkey has one vote.
	ByStake bool
}

// voters are the validators whose word counts, by hotkey.
func (n *Node) voters(ctx context.Context, s Select) ([]*seen, error) {
	if s.Listed {
		n.name(s.Validators...)
	}
	all, err := n.trusted(ctx, Validator)
	if err != nil || !s.Listed {
		return all, err
	}
	return slices.DeleteFunc(all, func(v *seen) bool { return !slices.Contains(s.Validators, v.address) }), nil
}

// StatsAllocated is what the validators together say of the miners: all reports of
// own scores on allocated machines, by UID, and of each UID the dominant one.
func (n *Node) StatsAllocated(ctx context.Context, s Select) (Stats, error) {
	if s.ByStake && n.registry.chain == nil {
		return nil, model.Errorf(model.CodeInvalid, "votes by stake need a chain").WithHint("set Chain, or leave ByStake out")
	}
	voters, err := n.voters(ctx, s)
	if err != nil {
		return nil, err
	}
	ballots := make([]ballot, len(voters))
	for i, v := range voters {
		ballots[i] = ballot{v, 1}
		if s.ByStake {
			neuron, _ := n.registry.neuron(v.record.Hotkey)
			ballots[i].weight = float64(neuron.Stake)
		}
	}
	return n.totals.of(ballots, s.OwnScoreOnly), nil
}

// ballot is what a voter says, and what its word weighs.
type ballot struct {
	*seen
	weight float64
}

// totals are results that were counted before.
type totals struct {
	mu   sync.Mutex
	kept map[state.Hash]Stats
}

// keptTotals are as many as programs ask for in turns, and some.
const keptTotals = 8

// of is what aggregate says, counted once. A result follows from the records of the
// voters in their order, whose hashes cover what is counted, from their weights and
// from the rule: these are its name.
func (t *totals) of(ballots []ballot, ownScoreOnly bool) Stats {
	name := []byte{0}
	if ownScoreOnly {
		name[0] = 1
	}
	for _, b := range ballots {
		name = binary.BigEndian.AppendUint64(append(name, b.hash[:]...), math.Float64bits(b.weight))
	}
	key := state.HashOf(name)
	t.mu.Lock()
	defer t.mu.Unlock()
	found, known := t.kept[key]
	if !known {
		if found = aggregate(ballots, ownScoreOnly); t.kept == nil || len(t.kept) == keptTotals {
			t.kept = map[state.Hash]Stats{}
		}
		t.kept[key] = found
	}
	out := make(Stats, len(found)) // the caller's own, to the last GPU
	for uid, s := range found {
		if s.GPU != nil {
			gpu := *s.GPU
			s.GPU = &gpu
		}
		out[uid] = s
	}
	return out
}

// aggregate counts the reports of voters, each voter once a UID. Who has no stake where
// stake weighs has no vote, also where nobody else has one.
func aggregate(ballots []ballot, ownScoreOnly bool) Stats {
	reports := map[int][]Report{}
	for _, b := range ballots {
		if b.weight == 0 {
			continue
		}
		for uid, one := range b.config.Stats {
			if one.OwnScore && (one.Allocated || ownScoreOnly) {
				reports[uid] = append(reports[uid], Report{Stat: one, Weight: b.weight})
			}
		}
	}
	out := Stats{}
	for uid, all := range reports {
		if winner, ok := PickDominant(all); ok {
			out[uid] = winner
		}
	}
	return out
}

// AllocatedHotkeys are the miners that validators have allocated, each once.
func (n *Node) AllocatedHotkeys(ctx context.Context, s Select) ([]string, error) {
	return n.union(ctx, s, func(c *config) []string { return c.Allocated })
}

// PenalizedHotkeys are those that validators hold to be cheating.
func (n *Node) PenalizedHotkeys(ctx context.Context, s Select) ([]string, error) {
	return n.union(ctx, s, func(c *config) []string { return c.Penalized })
}

// PenalizedHotkeysChecklist are those that validators want looked at.
func (n *Node) PenalizedHotkeysChecklist(ctx context.Context, s Select) ([]string, error) {
	return n.union(ctx, s, func(c *config) []string { return c.Checklist })
}

func (n *Node) union(ctx context.Context, s Select, of func(*config) []string) ([]string, error) {
	voters, err := n.voters(ctx, s)
	out, known := []string{}, map[string]bool{}
	for _, v := range voters {
		for _, hotkey := range of(&v.config) {
			if !known[hotkey] {
				known[hotkey] = true
				out = append(out, hotkey)
			}
		}
	}
	return out, err
}

// MinerSpecs is what one miner has.
type MinerSpecs struct {
	Hotkey string
	// Specs is nil where Err says why they cannot be read.
	Specs       json.RawMessage
	AllocatedBy string // the validator, "" for none
	PortOpen    bool
	Err         error
}

// MinerSpecs are the specs of miners, given as UID → hotkey (the seed's
// queryable_uids). Miners without specs are left out.
func (n *Node) MinerSpecs(ctx context.Context, queryable map[int]string) (map[int]MinerSpecs, error) {
	n.name(slices.Collect(maps.Values(queryable))...)
	miners, err := n.trusted(ctx, Miner)
	if err != nil {
		return nil, err
	}
	byHotkey := map[string]*seen{}
	for _, m := range miners {
		byHotkey[m.record.Hotkey.String()] = m
	}
	out := map[int]MinerSpecs{}
	for uid, hotkey := range queryable {
		if m := byHotkey[hotkey]; m != nil && m.config.Specs != nil {
			one := MinerSpecs{Hotkey: hotkey, AllocatedBy: m.config.AllocatedBy, PortOpen: m.config.PortOpen}
			one.Specs, one.Err = n.specs(hotkey, m.config.Specs)
			out[uid] = one
		}
	}
	return out, nil
}

// specs decrypts what is encrypted.
func (n *Node) specs(hotkey string, raw json.RawMessage) (json.RawMessage, error) {
	sealed, encrypted := field[[]byte](readFields(raw), "age")
	if !encrypted {
		return raw, nil
	}
	return DecryptSpecs(&Sealed{sealed}, hotkey, n.identity)
}

// RunVerdict is how a run is judged now.
type RunVerdict struct {
	Run     string `json:"run"`    // its name
	Hotkey  string `json:"hotkey"` // as the server reports it
	Role    string `json:"role"`
	Verdict string `json:"verdict"`
	Reason  string `json:"reason"` // one sentence for a person
}

// Verdicts judge every run of the network that the server showed, by run.
func (n *Node) Verdicts(ctx context.Context) ([]RunVerdict, error) {
	if _, err := n.Refresh(ctx, 0); err != nil {
		return nil, err
	}
	n.view.mu.Lock()
	defer n.view.mu.Unlock()
	signed := map[string]*seen{}
	for place, s := range n.view.places {
		signed[place.Run] = s
	}
	out, clock := make([]RunVerdict, 0, len(n.view.runs)), n.clock()
	for id, one := range n.view.runs {
		if n.view.deleted[id] {
			continue
		}
		verdict, reason := one.verdict, cmp.Or(n.stranger(id), one.reason)
		if s := signed[one.notes.Run]; verdict.Trusted() && s != nil {
			verdict, reason = n.now(s, clock)
			if note := s.config.Note; note != "" && verdict.Trusted() {
				reason += "; " + note
			}
		}
		out = append(out, RunVerdict{one.notes.Run, one.notes.Hotkey, one.notes.Role, string(verdict), reason})
	}
	slices.SortFunc(out, func(a, b RunVerdict) int { return cmp.Compare(a.Run, b.Run) })
	return out, nil
}

// VerifyRun judges one run of the network, by its name. One without a record is
// judged by the old signature, which covers no content: it is legacy at best.
func (n *Node) VerifyRun(ctx context.Context, name string) (Judgement, error) {
	run, err := read.Over(n.server).Run(ctx, n.opts.Entity+"/"+n.opts.Project+"/"+name)
	if err != nil {
		return Judgement{}, err
	}
	if _, err := n.registry.look(ctx); err != nil {
		return Judgement{}, err
	}
	var newest state.Newest
	if err := n.server.Exchange(ctx, "GET", remote.RunPath(run.ID, "state"), nil, &newest); err != nil {
		return Judgement{}, err
	}
	if newest.Head == nil {
		return legacy(ctx, run)
	}
	var j Judgement
	err = n.db.write(ctx, func(tx execer) error {
		r := n.reader(tx, run.Name)
		if at, err := n.expected(newest.Head.Record); err == nil {
			known, err := lookUp(ctx, tx, at.Place)
			if err != nil {
				return err
			}
			if !n.counts(at.Place, known.counted) { // nothing is kept of it
				r.Memory = state.NewMemory()
			}
		}
		for i := range newest.Evidence {
			if err := r.Convict(ctx, &newest.Evidence[i].Proof); err != nil {
				return err
			}
		}
		j, err = r.Check(ctx, &newest.Head.Envelope)
		return err
	})
	if err == nil && j.Verdict.Trusted() {
		if why := n.registry.refusal(j.Record.Role, j.Record.Hotkey); why != "" {
			j.Verdict, j.Reason, j.Payload = state.Unregistered, why, nil
		}
	}
	return j, err
}

func legacy(ctx context.Context, run *read.Run) (Judgement, error) {
	attributes, err := run.Attributes(ctx)
	if err != nil {
		return Judgement{}, err
	}
	account, _, err := wallet.ParseAddress(attributes["config/hotkey"].Str)
	if err != nil {
		return Judgement{Verdict: state.Broken, Reason: "the run has no record and names no hotkey"}, nil
	}
	return state.CheckLegacy(account, run.Name, attributes["config/signature"].Str), nil
}
