package network

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/report"
	"github.com/kymogram/kymogram/internal/state"
)

// The most rows and columns of an answer; what is beyond is counted.
const (
	MaxMiners     = 1024
	MaxValidators = 256
	maxFindings   = 200
)

// builder makes one document: first [begin], then what the chosen validators say, then
// [builder.finish]. Its steps stand in this order.
type builder struct {
	of     *picture
	net    *subnet // nil without a chain
	now    time.Time
	netuid *uint16
	doc    *Document

	columns []column
	rows    map[uint16]int // place of a uid
	keys    map[string]int // place of a hotkey
	gpus    map[GPU]int
	// named are the hotkeys that reports give a uid, with their votes.
	named map[uint16]map[string]int
}

// column is a validator on its way into the document.
type column struct {
	Validator
	node    *node // nil for a legacy run
	reports report.Reports
	cells   []*report.Stat // by row
	// others counts the miners for which it names another hotkey; other is the first.
	others int
	other  string
}

// begin chooses the columns, by what does not depend on their reports.
func begin(p *picture, net *subnet, netuid *uint16, now time.Time) *builder {
	b := &builder{
		of: p, net: net, now: now, netuid: netuid, rows: map[uint16]int{}, keys: map[string]int{}, gpus: map[GPU]int{}, named: map[uint16]map[string]int{},
		doc: &Document{
			Netuid: netuid, Netuids: p.netuids(), Index: p.next, TimeMs: now.UnixMilli(), GPUs: []GPU{}, Miners: []Miner{}, Validators: []Validator{}, Findings: []Finding{},
			LeftOut: LeftOut{Miners: p.full},
		},
	}
	if net != nil {
		b.doc.Chain = &ChainState{Block: net.block, Error: net.failed}
	}
	b.addColumns()
	b.countOnce()
	b.orderColumns()
	return b
}

// speakers are the nodes of the columns.
func (b *builder) speakers() (out []*node) {
	for i := range b.columns {
		if n := b.columns[i].node; n != nil {
			out = append(out, n)
		}
	}
	return out
}

// finish makes the document of what the columns say; of so many nothing is known yet.
func (b *builder) finish(heard map[model.RunID]said, waiting int) *Document {
	for i := range b.columns {
		b.columns[i].hear(heard)
	}
	b.addReportedRows(true)
	b.addMiners()
	b.addReportedRows(false)
	b.orderRows()
	b.fill()
	b.mergeRows()
	b.find()
	if left := b.of.size - b.of.next + uint64(waiting+b.of.unread); left > 0 {
		of := b.of.size + uint64(b.of.unread)
		b.doc.Judging = &Judging{Done: of - min(left, of), Of: of}
		b.doc.Index = min(b.doc.Index, max(b.of.size, 1)-1) // who waits for more gets the next answer at once
	}
	return b.doc
}

// hear adds what a validator says.
func (c *column) hear(heard map[model.RunID]said) {
	if c.node == nil {
		return
	}
	found, ok := heard[c.node.runID]
	if !ok {
		c.Notes = append(c.Notes, "its reports were not read yet")
		return
	}
	c.reports, c.Version = found.section.reports, found.section.version
	if note := c.reports.Note(); note != "" {
		c.Notes = append(c.Notes, note)
	}
}

// netuids lists the subnets that records name.
func (p *picture) netuids() []int {
	seen := map[int]bool{}
	for _, n := range p.nodes {
		if n.record != nil {
			seen[int(n.record.Netuid)] = true
		}
	}
	out := make([]int, 0, len(seen))
	for netuid := range seen {
		out = append(out, netuid)
	}
	slices.Sort(out)
	return out
}

// mostUsed is the subnet of most records, nil without any.
func (p *picture) mostUsed() *uint16 {
	counts := map[uint16]int{}
	for _, n := range p.nodes {
		if n.record != nil {
			counts[n.record.Netuid]++
		}
	}
	var best *uint16
	for netuid, n := range counts {
		if best == nil || n > counts[*best] || n == counts[*best] && netuid < *best {
			best = &netuid
		}
	}
	return best
}

func (b *builder) here(n *node) bool {
	return n.record != nil && (b.netuid == nil || n.record.Netuid == *b.netuid)
}

func (b *builder) hereLegacy(n *legacyNode) bool {
	return b.netuid == nil || n.netuid == "" || n.netuid == strconv.Itoa(int(*b.netuid))
}

func (b *builder) addColumns() {
	for _, n := range b.of.nodes {
		if b.here(n) && n.record.Role == state.Validator {
			verdict, reason := judge(n, b.of.proofs[n.runID], b.now, b.net)
			v := Validator{Node: b.node(n, verdict, reason), Counted: verdict.Trusted(), Notes: []string{}, Index: n.index}
			b.columns = append(b.columns, column{Validator: v, node: n})
		}
	}
	for _, n := range b.of.legacy {
		if n.role == state.Validator && b.hereLegacy(n) {
			v := Validator{Node: b.legacyNode(n), Notes: []string{}, Index: math.MaxInt64}
			b.columns = append(b.columns, column{Validator: v, reports: n.section.reports})
		}
	}
	for i := range b.columns {
		b.columns[i].Stake = b.stake(b.columns[i].Hotkey)
	}
}

func (b *builder) node(n *node, verdict state.Verdict, reason string) Node {
	r := n.record
	out := Node{
		Hotkey: r.Hotkey.String(), RunID: n.runID.String(), Run: r.Run, Verdict: verdict, Reason: reason,
		Sequence: r.Sequence, Block: r.Block, TimeMs: r.TimeMs, ExpiresMs: r.ExpiresMs, Version: n.section.version,
	}
	b.fromChain(&out)
	return out
}

func (b *builder) legacyNode(n *legacyNode) Node {
	out := Node{
		Hotkey: n.hotkey, RunID: n.run.ID.String(), Run: n.run.Name, Verdict: n.judgement.Verdict, Reason: n.judgement.Reason,
		TimeMs: uint64(max(n.run.LastNs, 0)) / uint64(time.Millisecond), Version: n.section.version,
	}
	b.fromChain(&out)
	return out
}

// fromChain adds a hotkey's place and endpoint.
func (b *builder) fromChain(n *Node) {
	if b.net == nil {
		return
	}
	if neuron, ok := b.net.neurons[n.Hotkey]; ok {
		n.UID = &neuron.UID
	}
	if e, ok := b.net.endpoints[n.Hotkey]; ok {
		n.Endpoint = &e
	}
}

const tokenUnits = 1e9 // the chain counts in 10⁻⁹ of a token

func (b *builder) stake(hotkey string) *float64 {
	if b.net == nil {
		return nil
	}
	neuron, ok := b.net.neurons[hotkey]
	if !ok {
		return nil
	}
	stake := float64(neuron.Stake) / tokenUnits
	return &stake
}

// countOnce leaves each hotkey one vote: its newest record that may be trusted. Of two
// runs the time says which that is, as for readers: sequences are of one run each.
func (b *builder) countOnce() {
	newest := map[string]*column{}
	for i := range b.columns {
		c := &b.columns[i]
		if !c.Counted {
			c.Notes = append(c.Notes, c.Reason)
		} else if other := newest[c.Hotkey]; other == nil || cmp.Or(cmp.Compare(c.TimeMs, other.TimeMs), cmp.Compare(c.Run, other.Run)) > 0 {
			newest[c.Hotkey] = c
		}
	}
	for i := range b.columns {
		c := &b.columns[i]
		if winner := newest[c.Hotkey]; c.Counted && winner != c {
			c.Counted = false
			c.Notes = append(c.Notes, "double vote: the hotkey has another run, "+winner.Run+", with a newer record; a hotkey has one vote")
			b.report("double_vote", c, fmt.Sprintf("votes in two runs, %s and %s; only the newest record counts", c.Run, winner.Run))
		}
	}
}

func (b *builder) report(kind string, c *column, text string) {
	b.doc.Findings = append(b.doc.Findings, Finding{Kind: kind, Role: state.Validator, Hotkey: c.Hotkey, RunID: c.RunID, Text: text})
}

// orderColumns keeps the columns that fit, those with a vote and with more stake
// first, and puts them in the order of their places.
func (b *builder) orderColumns() {
	value := func(v *float64) float64 {
		if v == nil {
			return 0
		}
		return *v
	}
	slices.SortFunc(b.columns, func(x, y column) int {
		return cmp.Or(-cmp.Compare(rank(x.Counted), rank(y.Counted)), -cmp.Compare(value(x.Stake), value(y.Stake)), cmp.Compare(x.Index, y.Index), cmp.Compare(x.RunID, y.RunID))
	})
	if over := len(b.columns) - MaxValidators; over > 0 {
		b.doc.LeftOut.Validators += over
		b.columns = b.columns[:MaxValidators]
	}
	slices.SortFunc(b.columns, func(x, y column) int {
		return cmp.Or(byPlace(&x.Node, &y.Node), -cmp.Compare(rank(x.Counted), rank(y.Counted)), cmp.Compare(x.RunID, y.RunID))
	})
}

func rank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// byPlace orders by uid, those without one last, then by hotkey.
func byPlace(x, y *Node) int {
	place := func(n *Node) int {
		if n.UID == nil {
			return math.MaxUint16 + 1
		}
		return int(*n.UID)
	}
	return cmp.Or(place(x)-place(y), cmp.Compare(x.Hotkey, y.Hotkey))
}

// addReportedRows makes a row of each uid that reports name, the lowest first; those
// of validators with a vote come first, so that others cannot take all rows. Of each
// column the lowest uids were read, so a row has the votes of all columns.
func (b *builder) addReportedRows(counted bool) {
	var uids []int
	for i := range b.columns {
		if b.columns[i].Counted != counted {
			continue
		}
		reports := &b.columns[i].reports
		uids = append(uids, reports.Rest...)
		for j := range reports.Stats {
			uids = append(uids, reports.Stats[j].UID)
			b.call(&reports.Stats[j], counted)
		}
	}
	slices.Sort(uids)
	for _, uid := range slices.Compact(uids) {
		b.row(uint16(uid))
	}
}

// call notes which hotkey a report gives a uid.
func (b *builder) call(s *report.Stat, counted bool) {
	names := b.named[uint16(s.UID)]
	if names == nil {
		names = map[string]int{}
		b.named[uint16(s.UID)] = names
	} else if !counted {
		return
	}
	names[s.Hotkey]++
}

// row is the place of a uid, -1 when there is no room.
func (b *builder) row(uid uint16) int {
	if i, ok := b.rows[uid]; ok {
		return i
	}
	if len(b.doc.Miners) >= MaxMiners {
		b.rows[uid] = -1
		b.doc.LeftOut.Miners++
		return -1
	}
	m := Miner{Node: Node{UID: &uid, Reason: "it has no record of its own in this project"}}
	if b.net != nil {
		m.Hotkey = b.net.hotkeys[uid]
		b.keys[m.Hotkey] = len(b.doc.Miners)
	}
	b.rows[uid] = len(b.doc.Miners)
	b.doc.Miners = append(b.doc.Miners, m)
	return b.rows[uid]
}

// addMiners gives the rows their hotkeys and their own records.
func (b *builder) addMiners() {
	for i := range b.doc.Miners {
		m := &b.doc.Miners[i]
		if m.Hotkey == "" {
			m.Hotkey = mostNamed(b.named[*m.UID])
		}
		if m.Hotkey != "" {
			b.keys[m.Hotkey] = i
			b.fromChain(&m.Node)
		}
	}
	for _, n := range b.of.nodes {
		if b.here(n) && n.record.Role == state.Miner {
			verdict, reason := judge(n, b.of.proofs[n.runID], b.now, b.net)
			b.place(Miner{Node: b.node(n, verdict, reason), Allocated: n.section.allocated, PortOpen: n.section.portOpen})
		}
	}
	for _, n := range b.of.legacy {
		if n.role == state.Miner && b.hereLegacy(n) {
			b.place(Miner{Node: b.legacyNode(n), Allocated: n.section.allocated, PortOpen: n.section.portOpen})
		}
	}
}

func mostNamed(names map[string]int) string {
	best := ""
	for name, n := range names {
		if m := names[best]; n > m || n == m && name < best {
			best = name
		}
	}
	return best
}

// place puts a miner into its row. Of two runs of one hotkey the newer record
// counts, and one that may be trusted before one that may not.
func (b *builder) place(m Miner) {
	i, ok := b.keys[m.Hotkey]
	if !ok {
		if len(b.doc.Miners) >= MaxMiners {
			b.doc.LeftOut.Miners++
			return
		}
		i = len(b.doc.Miners)
		b.keys[m.Hotkey] = i
		if m.UID != nil {
			b.rows[*m.UID] = i
		}
		b.doc.Miners = append(b.doc.Miners, m)
		return
	}
	old := &b.doc.Miners[i]
	newer := cmp.Or(cmp.Compare(rank(m.Verdict.Trusted()), rank(old.Verdict.Trusted())), cmp.Compare(m.Sequence, old.Sequence))
	if old.RunID == "" || newer > 0 {
		m.UID = old.UID
		*old = m
	}
}

func (b *builder) orderRows() {
	slices.SortFunc(b.doc.Miners, func(x, y Miner) int { return byPlace(&x.Node, &y.Node) })
	for i := range b.doc.Miners {
		if uid := b.doc.Miners[i].UID; uid != nil {
			b.rows[*uid] = i
		}
	}
}

// fill writes the cells.
func (b *builder) fill() {
	rows := len(b.doc.Miners)
	for i := range b.columns {
		c := &b.columns[i]
		v := &c.Validator
		v.Scores, v.Flags, v.GPUs, c.cells = make(scores, rows), make(numbers, rows), make(numbers, rows), make([]*report.Stat, rows)
		for r := range rows {
			v.Scores[r], v.GPUs[r] = math.NaN(), -1
		}
		for j := range c.reports.Stats {
			s := &c.reports.Stats[j]
			row := b.rows[uint16(s.UID)]
			if row < 0 {
				continue
			}
			c.cells[row] = s
			v.Scores[row], v.Flags[row], v.GPUs[row] = s.Score, flagsOf(s, b.doc.Miners[row].Hotkey), int16(b.gpu(s.GPU))
		}
		b.doc.Validators = append(b.doc.Validators, *v)
	}
}

func flagsOf(s *report.Stat, hotkey string) int16 {
	return flagOf(s.OwnScore, flagOwn) | flagOf(s.Allocated, flagAllocated) | flagOf(s.Hotkey != "" && s.Hotkey != hotkey, flagOtherHotkey)
}

func flagOf(set bool, flag int16) int16 {
	if set {
		return flag
	}
	return 0
}

const maxGPUs = math.MaxInt16

func (b *builder) gpu(g *report.GPU) int {
	if g == nil {
		return -1
	}
	i, ok := b.gpus[GPU(*g)]
	if !ok {
		if i = len(b.doc.GPUs); i >= maxGPUs {
			return -1
		}
		b.gpus[GPU(*g)] = i
		b.doc.GPUs = append(b.doc.GPUs, GPU(*g))
	}
	return i
}

// mergeRows finds each row's result: own scores of allocated miners, one vote a
// hotkey, a score of 0 is no report (spec of NI Compute, §6).
func (b *builder) mergeRows() {
	order := make([]int, len(b.doc.Validators))
	for i := range order {
		order[i] = i
	}
	// Of equal reports the first counts, and first is by hotkey, as other readers have it.
	slices.SortFunc(order, func(x, y int) int { return cmp.Compare(b.doc.Validators[x].Hotkey, b.doc.Validators[y].Hotkey) })
	var votes []report.Vote
	var voters []int
	for row := range b.doc.Miners {
		votes, voters = votes[:0], voters[:0]
		for _, i := range order {
			if b.doc.Validators[i].votes(row) {
				votes, voters = append(votes, report.Vote{Stat: *b.columns[i].cells[row], Weight: 1}), append(voters, i)
			}
		}
		if winner, carried := report.Dominant(votes); len(carried) > 0 {
			b.doc.Miners[row].Result = b.result(row, winner, carried, voters)
		}
	}
}

// result says who carries the winner of a row, and who names another hotkey for it.
func (b *builder) result(row int, winner report.Stat, carried, voters []int) *Result {
	out := &Result{Hotkey: winner.Hotkey, Score: winner.Score, GPU: b.gpu(winner.GPU), Reliability: winner.Reliability, CreatedAt: winner.CreatedAt, Against: len(voters) - len(carried)}
	right := winner.Hotkey
	if b.net != nil && b.net.hotkeys[uint16(winner.UID)] != "" {
		right = b.net.hotkeys[uint16(winner.UID)]
	}
	for at, i := range voters {
		v := &b.doc.Validators[i]
		if slices.Contains(carried, at) {
			out.Carried = append(out.Carried, i)
			v.Agrees++
		} else {
			v.Differs++
			v.Flags[row] |= flagDiffers
		}
		if said := b.columns[i].cells[row].Hotkey; said != right {
			if b.columns[i].others++; b.columns[i].other == "" {
				b.columns[i].other = fmt.Sprintf("uid %d: %s in place of %s", winner.UID, said, right)
			}
		}
	}
	slices.Sort(out.Carried)
	return out
}

func (v *Validator) votes(row int) bool {
	const wanted = flagOwn | flagAllocated
	return v.Counted && v.Flags[row]&wanted == wanted && v.Scores[row] != 0
}

// The worst come first.
var severity = []string{
	string(state.Equivocated), "double_vote", "dissent", "other_hotkey", string(state.Broken), string(state.Unregistered),
	string(state.SharedKey), string(state.Stale), string(state.Legacy),
}

// A validator that differs from so many results, and from so large a part of them,
// is named.
const (
	dissentLeast = 3
	dissentPart  = 10
)

// find names those who need a look.
func (b *builder) find() {
	for i := range b.doc.Validators {
		v := &b.doc.Validators[i]
		if v.Verdict != state.Verified {
			b.name(string(v.Verdict), state.Validator, &v.Node, v.Reason)
		}
		if all := v.Agrees + v.Differs; v.Differs >= dissentLeast && v.Differs*dissentPart >= all {
			b.name("dissent", state.Validator, &v.Node, fmt.Sprintf("its reports differ from %d of %d merged results", v.Differs, all))
		}
		if c := &b.columns[i]; c.others > 0 {
			b.name("other_hotkey", state.Validator, &v.Node, fmt.Sprintf("it names another hotkey for %d miners, for example %s", c.others, c.other))
		}
	}
	for i := range b.doc.Miners {
		if m := &b.doc.Miners[i]; m.Verdict != state.Verified && m.Verdict != "" {
			b.name(string(m.Verdict), state.Miner, &m.Node, m.Reason)
		}
	}
	slices.SortStableFunc(b.doc.Findings, func(x, y Finding) int {
		return slices.Index(severity, x.Kind) - slices.Index(severity, y.Kind)
	})
	b.doc.Findings = b.doc.Findings[:min(len(b.doc.Findings), maxFindings)]
}

func (b *builder) name(kind, role string, n *Node, text string) {
	b.doc.Findings = append(b.doc.Findings, Finding{Kind: kind, Role: role, Hotkey: n.Hotkey, RunID: n.RunID, Text: text})
}
