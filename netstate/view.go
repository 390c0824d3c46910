package netstate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"filippo.io/age"
	"golang.org/x/sync/errgroup"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/wallet"
)

// view is what a participant saw of all others: each record is judged once, and what
// changes with time (expiry, the subnet) at each read.
type view struct {
	mu   sync.Mutex
	next uint64     // of the server's list
	tip  state.Hash // of the record before next, zeros for none
	// proofs: the records before next were read from a server that sends evidence, and
	// chain is over all of it.
	proofs bool
	chain  state.Hash
	places map[state.Place]*seen
	runs   map[model.RunID]*shown
	// owed is what was not read, see strangers.go. plain: the server knows no lists
	// without payloads.
	owed  map[model.RunID]*debt
	plain bool
	shelf shelf // see limit.go
	// deleted are the runs that the server has in the trash, or purged: they have no
	// vote until they are restored.
	deleted map[model.RunID]bool
}

// seen is the newest record of a place that held when it came.
type seen struct {
	run     model.RunID
	record  *state.Record
	hash    state.Hash
	address string // of the hotkey: encoding it takes time
	config  config
	// verdict is Verified, SharedKey, Equivocated or Stale.
	verdict state.Verdict
	reason  string
}

// shown is how the newest record that the server showed of a run was judged.
type shown struct {
	notes   state.Notes
	verdict state.Verdict
	reason  string
}

// config is what records of others are read for. It is decoded once.
type config struct {
	Allocated, Penalized, Checklist []string
	Stats                           Stats
	Note                            string          // what of the stats has a wrong form
	Specs                           json.RawMessage // nil: none
	AllocatedBy                     string
	PortOpen                        bool
	Recipient                       string
}

// readConfig takes what has the right form and leaves the rest.
func readConfig(payload []byte) (c config) {
	if !utf8.Valid(payload) {
		return c
	}
	f := readFields(payload)
	c.Allocated, c.Penalized, c.Checklist = hotkeys(f["allocated_hotkeys"]), hotkeys(f["penalized_hotkeys"]), hotkeys(f["penalized_hotkeys_checklist"])
	c.Stats, c.Note = readStats(f["stats"])
	if specs := f["specs"]; len(specs) > 0 && specs[0] == '{' { // the real code writes "" when it fails
		c.Specs = specs
	}
	c.AllocatedBy, _ = field[string](f, "allocated")
	c.PortOpen, _ = field[bool](f, "is_port_open")
	if text, _ := field[string](f, "recipient"); text != "" {
		if key, err := age.ParseX25519Recipient(text); err == nil {
			c.Recipient = key.String()
		}
	}
	return c
}

// hotkeys are the addresses of a list, each once. Look-alikes are no addresses.
func hotkeys(raw json.RawMessage) (out []string) {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return nil
	}
	known := map[string]bool{}
	for _, item := range items {
		var text string
		if json.Unmarshal(item, &text) != nil || known[text] {
			continue
		}
		account, _, err := wallet.ParseAddress(text)
		if err == nil && account.String() == text {
			known[text] = true
			out = append(out, text)
		}
	}
	return out
}

// pageSize is how many records are asked for at once: of 1 MiB each, a page stays
// within what the server answers with.
const (
	pageSize = 100
	barePage = 1_000 // without payloads
)

// maxPages is how many are read in one call; a server that has more is read on by the
// next one.
const maxPages = 1_000

// Refresh reads the records that came since the last time. With wait it returns when
// one came, or after that time (at most 30 s); changed says whether there were any.
func (n *Node) Refresh(ctx context.Context, wait time.Duration) (changed bool, err error) {
	if _, err := n.registry.look(ctx); err != nil {
		return false, err
	}
	n.view.mu.Lock()
	defer n.view.mu.Unlock()
	again := false
	for range maxPages {
		page, err := n.page(ctx, wait)
		if err == nil {
			err = page.Follows(n.view.next)
		}
		if err != nil { // what was seen before stays
			return changed, fmt.Errorf("read the network's records: %w", err)
		}
		if n.view.outdated(page) && !again {
			n.view.restart()
			again = true
			continue
		}
		if err := n.receive(ctx, page); err != nil {
			return changed, err
		}
		if !n.view.complete(page) {
			if n.view.restart(); again {
				return changed, errWithheld()
			}
			again = true
			continue
		}
		changed = n.bury(page.Deleted) || changed || len(page.Entries)+len(page.Evidence) > 0
		n.view.proofs = page.Evidence != nil
		n.view.next, n.view.tip, wait = page.Next, page.Tip, 0
		if !page.More {
			counted, err := n.welcome(ctx)
			return changed || counted, err
		}
	}
	return changed, model.Errorf(model.CodeUnavailable, "the network's records do not end: %d pages were read", maxPages).
		WithHint("call again to read on")
}

// outdated reports whether all is to be read again: the log is another one than before,
// since the server was restored or lied, or it began to send evidence.
func (v *view) outdated(page *state.Page) bool {
	return page.Before != v.tip || page.Size < v.next || v.next > 0 && page.Evidence != nil && !v.proofs
}

// restart makes the next page the first one. What was seen stays.
func (v *view) restart() {
	v.next, v.chain = 0, state.Hash{}
	for _, d := range v.owed { // evidence is listed again
		d.pairs = nil
	}
}

// complete reports whether the evidence of a page, behind that of the pages before it,
// is all that the server has. This server may have withheld some, or another before it.
func (v *view) complete(page *state.Page) bool {
	for i := range page.Evidence {
		if b := page.Evidence[i].B; b != nil {
			v.chain = state.ChainEvidence(v.chain, b.Hash())
		}
	}
	return page.Evidence == nil || page.Chain == v.chain
}

// bury takes the vote of runs that are deleted, and gives back that of the others.
func (n *Node) bury(ids []model.RunID) (changed bool) {
	now := make(map[model.RunID]bool, len(ids))
	for _, id := range ids {
		now[id] = true
	}
	changed = !maps.Equal(n.view.deleted, now)
	n.view.deleted = now
	return changed
}

// page asks for what came, without payloads where some will not be read: those that count
// are asked for one by one. A server of before does not know that, and is asked as before.
func (n *Node) page(ctx context.Context, wait time.Duration) (*state.Page, error) {
	query := url.Values{
		"netuid": {strconv.Itoa(n.opts.Netuid)}, "since": {strconv.FormatUint(n.view.next, 10)}, "limit": {strconv.Itoa(pageSize)},
	}
	bare := !n.view.plain && (n.registry.chain != nil || n.view.shelf.full)
	if bare {
		query.Set("bare", "1")
		query.Set("limit", strconv.Itoa(barePage))
	}
	if seconds := int(wait / time.Second); seconds > 0 {
		query.Set("wait", strconv.Itoa(min(seconds, 30)))
	}
	path := fmt.Sprintf("/api/v1/projects/%s/%s/state", url.PathEscape(n.opts.Entity), url.PathEscape(n.opts.Project))
	doc, err := n.server.Document(ctx, http.MethodGet, path, query)
	if bare && model.CodeOf(err) == model.CodeInvalid {
		n.view.plain = true
		return n.page(ctx, wait)
	}
	if err != nil {
		return nil, err
	}
	out := new(state.Page)
	return out, json.Unmarshal(doc, out)
}

// take judges a page in one transaction, then keeps what it found.
func (n *Node) take(ctx context.Context, page *state.Page) error {
	if len(page.Entries)+len(page.Evidence) == 0 {
		return nil
	}
	if err := n.verify(ctx, page); err != nil {
		return err
	}
	judged := make([]Judgement, len(page.Entries))
	var doubted []*seen
	err := n.db.write(ctx, func(tx execer) (err error) {
		if doubted, err = n.convict(ctx, tx, page.Evidence); err != nil {
			return err
		}
		for i := range page.Entries {
			if judged[i], err = n.reader(tx, page.Entries[i].Run).Check(ctx, &page.Entries[i].Envelope); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, s := range doubted {
		n.view.places[s.record.Place] = s
		if one := n.view.runs[s.run]; one != nil && one.verdict != state.Broken && one.verdict != state.Rollback {
			one.verdict, one.reason = s.verdict, s.reason
		}
	}
	configs := readConfigs(judged)
	for i := range page.Entries {
		n.keep(&page.Entries[i], judged[i], configs[i])
	}
	return nil
}

// convict keeps what evidence proves, and judges again what was seen of its signers.
func (n *Node) convict(ctx context.Context, tx execer, evidence []state.Evidence) (doubted []*seen, err error) {
	r := n.reader(tx, "")
	for i := range evidence {
		if err := r.Convict(ctx, &evidence[i].Proof); err != nil {
			return nil, err
		}
		if evidence[i].B == nil {
			continue // it proved nothing
		}
		record, err := state.Decode(evidence[i].B.Record)
		if err != nil || n.view.places[record.Place] == nil {
			continue
		}
		now := *n.view.places[record.Place]
		j, err := r.Doubt(ctx, Judgement{Record: now.record, Verdict: now.verdict, Reason: now.reason})
		if err != nil {
			return nil, err
		}
		now.verdict, now.reason = j.Verdict, j.Reason
		doubted = append(doubted, &now)
	}
	return doubted, nil
}

// readConfigs reads what may be trusted, on all cores.
func readConfigs(judged []Judgement) []config {
	out := make([]config, len(judged))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, j := range judged {
		if j.Verdict.Trusted() && j.Record.PayloadType == state.ConfigPayload {
			group.Go(func() error {
				out[i] = readConfig(j.Payload)
				return nil
			})
		}
	}
	_ = group.Wait() // nothing fails
	return out
}

// verify checks the signatures of what was never seen on all cores, before the
// database is locked.
func (n *Node) verify(ctx context.Context, page *state.Page) error {
	var unseen []*state.Envelope
	for i := range page.Entries {
		e := &page.Entries[i].Envelope
		r, err := state.Decode(e.Record)
		if err != nil {
			continue // judged broken
		}
		var hash string
		if _, err := n.db.row(ctx, "SELECT hash FROM state_seen WHERE place = ?", []any{keyOf(r.Place)}, &hash); err != nil {
			return wrap("look for "+r.Place.String(), err)
		}
		if hash != e.Hash().String() {
			unseen = append(unseen, e)
		}
	}
	state.VerifyAll(unseen)
	return nil
}

func (n *Node) clock() state.Clock {
	return state.Clock{Now: n.opts.Now(), Skew: n.opts.Skew, Block: n.registry.block(), MaxBlocks: n.opts.MaxBlocks}
}

// reader judges records of a run, "" for any, by what the database knows. Whether a
// hotkey is in the subnet is asked at each read.
func (n *Node) reader(tx execer, run string) *state.Reader {
	return &state.Reader{
		Expect: state.Expect{
			Genesis: n.place.Genesis, Netuid: n.place.Netuid, Workspace: n.place.Workspace, Project: n.place.Project, Run: run,
		},
		Memory: memory{tx}, Clock: n.clock,
	}
}

func (n *Node) keep(e *state.Entry, j Judgement, c config) {
	n.view.show(e, j)
	n.view.paid(e.RunID, func(d *debt) { d.head = nil })
	if j.Record == nil || j.Verdict == state.Broken || j.Verdict == state.Rollback {
		return // what was seen before stays the newest that holds
	}
	n.view.places[j.Record.Place] = &seen{run: e.RunID, record: j.Record, hash: j.Hash, address: j.Record.Hotkey.String(), config: c, verdict: j.Verdict, reason: j.Reason}
}

func (v *view) show(e *state.Entry, j Judgement) {
	v.runs[e.RunID] = &shown{e.Notes, j.Verdict, j.Reason}
}

// now is the verdict as of this moment.
func (n *Node) now(s *seen, clock state.Clock) (state.Verdict, string) {
	if !s.verdict.Trusted() {
		return s.verdict, s.reason
	}
	if err := clock.Check(s.record); err != nil {
		return state.Stale, err.Error()
	}
	if why := n.registry.refusal(s.record.Role, s.record.Hotkey); why != "" {
		return state.Unregistered, why
	}
	return s.verdict, s.reason
}

// trusted are the newest records that hold now, one a hotkey and role, by hotkey.
func (n *Node) trusted(ctx context.Context, role string) ([]*seen, error) {
	if _, err := n.Refresh(ctx, 0); err != nil {
		return nil, err
	}
	type speaker struct {
		role   string
		hotkey wallet.Account
	}
	n.view.mu.Lock()
	defer n.view.mu.Unlock()
	newest, clock := map[speaker]*seen{}, n.clock()
	for place, s := range n.view.places {
		if role != "" && place.Role != role || n.view.deleted[s.run] {
			continue
		}
		if verdict, _ := n.now(s, clock); !verdict.Trusted() {
			continue
		}
		who := speaker{place.Role, place.Hotkey}
		if before := newest[who]; before == nil || newer(s.record, before.record) {
			newest[who] = s
		}
	}
	out := make([]*seen, 0, len(newest))
	for _, s := range newest {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *seen) int {
		return cmp.Or(strings.Compare(a.address, b.address), strings.Compare(a.record.Role, b.record.Role))
	})
	return out, nil
}

// newer orders records of one hotkey in several runs.
func newer(a, b *state.Record) bool {
	if a.TimeMs != b.TimeMs {
		return a.TimeMs > b.TimeMs
	}
	return a.Run > b.Run
}
