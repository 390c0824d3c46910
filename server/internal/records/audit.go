package records

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/server/internal/progress"
	"github.com/kymogram/kymogram/server/internal/table"
	"github.com/kymogram/kymogram/server/internal/transparency"
)

// The kinds of what an audit finds.
const (
	Hidden     = "hidden"      // the log has records of a run, and the server shows none
	RolledBack = "rolled_back" // the server shows an older record than the log has
	Broken     = "broken"      // what the server shows is not what was signed
	Unknown    = "unknown"     // the server shows a record that the log lacks
	BadLeaf    = "leaf"        // a leaf that no honest server takes
)

// Finding is one thing that speaks against a server.
type Finding struct {
	Kind   string `json:"kind"`
	Run    string `json:"run"`
	Hotkey string `json:"hotkey,omitempty"`
	Reason string `json:"reason"`
}

// AuditReport is what an audit found.
type AuditReport struct {
	Log      string    `json:"log"`
	From     uint64    `json:"from"` // leaves below were read by an audit before
	Size     uint64    `json:"size"`
	Runs     int       `json:"runs"`    // of the log
	Shown    int       `json:"shown"`   // newest records that the server shows
	Second   uint64    `json:"second"`  // leaves read that are second records with their sequence
	Unasked  int       `json:"unasked"` // subnets of which no list was asked for: all others together
	Deleted  []string  `json:"deleted"`
	Findings []Finding `json:"findings"`
	More     int       `json:"more"` // findings that are not listed
}

// maxFindings is how many findings are listed.
const maxFindings = 1_000

// MaxSubnets is how many subnets are asked for, each as its readers do. A stranger with
// a key can sign for all 65,536.
const MaxSubnets = 16

// OK reports whether nothing speaks against the server.
func (r *AuditReport) OK() bool { return len(r.Findings) == 0 }

// Print shows what an audit found.
func (r *AuditReport) Print(out io.Writer, _ bool) error {
	fmt.Fprintf(out, "%s: %d leaves of %d runs, %d read now; %d newest records shown\n", table.Printable(r.Log), r.Size, r.Runs, r.Size-r.From, r.Shown)
	if r.Second > 0 {
		fmt.Fprintf(out, "%d leaves are second records with their sequence: state verify RUN shows them\n", r.Second)
	}
	if r.Unasked > 0 {
		fmt.Fprintf(out, "%d subnets were looked for in the list of all, and the %d with the most runs as their readers ask\n", r.Unasked, MaxSubnets)
	}
	for _, run := range r.Deleted {
		fmt.Fprintf(out, "deleted, by the server's word: %s\n", table.Printable(run))
	}
	for _, f := range r.Findings {
		fmt.Fprintf(out, "%s: %s: %s\n", strings.ToUpper(f.Kind), table.Printable(f.Run), table.Printable(f.Reason))
	}
	if r.More > 0 {
		fmt.Fprintf(out, "and %d more\n", r.More)
	}
	if r.OK() {
		_, err := fmt.Fprintln(out, "the server shows the newest record of every run that its log has")
		return err
	}
	return nil
}

// auditor walks a log and holds what the server shows beside it.
type auditor struct {
	log    Log
	report AuditReport
	edge   *compact.Range
	// tips are the newest records of each place, one for each beginning: a run that was
	// purged and made again begins anew.
	tips map[state.Place][]tip
	bar  progress.Bar
	// waiting are records that the server showed and that came after the first head.
	waiting map[state.Hash]state.Place
	older   map[state.Place]uint64 // the highest sequence that was shown, where it is not the newest
	seen    map[state.Place]bool   // places whose newest record was shown
	bare    map[state.Place]bool   // and those where it was, or a later one, in lists without payloads
}

// tip is the last record of one history in the log.
type tip struct {
	Sequence uint64     `json:"sequence"`
	Index    uint64     `json:"index"`
	Hash     state.Hash `json:"hash"`
}

// Audit reads the leaves of the log that were not read before, checks them against its
// signed head, and compares the newest record of every run with what the server shows.
// The file at path holds what was read before; it is replaced when the log holds. With
// again all leaves are read, and must make the head in the file on the way.
func (l Log) Audit(ctx context.Context, path string, again bool, bar func(leaves int64) progress.Bar) (*AuditReport, error) {
	before, err := readAudited(path)
	if err != nil {
		return nil, err
	}
	if again {
		before.Edge = nil
	}
	a := &auditor{
		log: l, tips: before.tips(), waiting: map[state.Hash]state.Place{}, older: map[state.Place]uint64{}, seen: map[state.Place]bool{}, bare: map[state.Place]bool{},
		report: AuditReport{Log: l.Workspace + "/" + l.Project, From: before.read(), Deleted: []string{}, Findings: []Finding{}},
	}
	if a.edge, err = before.edge(); err != nil {
		return nil, err
	}
	witness := &transparency.Witness{Last: before.head()}
	first, err := a.follow(ctx, witness)
	if err != nil {
		return nil, err
	}
	a.bar = bar(int64(first.Size - a.report.From))
	defer a.bar.End()
	if err := a.walk(ctx, first, before.head()); err != nil {
		return nil, err
	}
	known := a.newest() // what the server must show now, or what came later
	if err := a.shown(ctx, known); err != nil {
		return nil, err
	}
	last, err := a.follow(ctx, witness)
	if err != nil {
		return nil, err
	}
	if err := a.walk(ctx, last, first); err != nil {
		return nil, err
	}
	a.compare(known)
	a.report.Size, a.report.Runs = last.Size, len(a.tips)
	if path == "" || slices.ContainsFunc(a.report.Findings, func(f Finding) bool { return f.Kind == BadLeaf }) {
		return &a.report, nil // the next audit finds the leaf again
	}
	return &a.report, a.keep(path, last)
}

// follow reads a head that continues what was read.
func (a *auditor) follow(ctx context.Context, w *transparency.Witness) (*transparency.SignedHead, error) {
	head, err := w.Follow(ctx, a.log)
	if err == nil && head.Size < a.edge.End() {
		err = model.Errorf(model.CodeInvalid, "the server shows a head of %d records, and a longer one was seen, of %d: it takes the log back", head.Size, a.edge.End())
	}
	return head, err
}

// walk reads leaves up to a head, and checks that they make it. On the way they must
// make the head that was seen before, where it was not read to its end.
func (a *auditor) walk(ctx context.Context, to, seen *transparency.SignedHead) error {
	for a.edge.End() < to.Size {
		from := a.edge.End()
		leaves, err := a.log.leaves(ctx, from, to.Size)
		if err != nil {
			return err
		}
		for _, record := range leaves {
			if err := a.edge.Append(transparency.Leaf(record), nil); err != nil {
				return err
			}
			a.leaf(record)
			if seen != nil && a.edge.End() == seen.Size {
				if err := a.makes(seen); err != nil {
					return err
				}
			}
		}
		a.bar.Done(int64(len(leaves)))
	}
	return a.makes(to)
}

// makes checks that the leaves read so far make a head.
func (a *auditor) makes(head *transparency.SignedHead) error {
	if a.edge.End() != head.Size || head.Size == 0 {
		return nil
	}
	root, err := a.edge.GetRootHash(nil)
	if err == nil && string(root) != string(head.Root[:]) {
		err = model.Errorf(model.CodeInvalid, "the first %d records that the server shows do not make the head that it signed: its root is %s, theirs %x", head.Size, head.Root, root).
			WithHint("the server lies about its records or its head; keep the --seen file, and compare with others")
	}
	return err
}

// leaves is a page of the log.
func (l Log) leaves(ctx context.Context, from, size uint64) ([][]byte, error) {
	var doc struct {
		Leaves [][]byte `json:"leaves"`
	}
	query := url.Values{"from": {strconv.FormatUint(from, 10)}, "size": {strconv.FormatUint(size, 10)}}
	err := l.get(ctx, projectPath(l.Workspace, l.Project, "log", "leaves"), query, &doc)
	if n := uint64(len(doc.Leaves)); err == nil && (n == 0 || n > size-from) {
		err = model.Errorf(model.CodeInvalid, "the server answered %d leaves behind leaf %d of %d", n, from, size)
	}
	return doc.Leaves, err
}

// leaf takes in the record that was added last.
func (a *auditor) leaf(record []byte) {
	index := a.edge.End() - 1
	r, err := state.Decode(record)
	if err != nil {
		a.find(BadLeaf, "", "", "leaf %d is no record: %v", index, err)
		return
	}
	if r.Workspace != a.log.Workspace || r.Project != a.log.Project {
		a.find(BadLeaf, r.Run, r.Hotkey.String(), "leaf %d is of another project: %s", index, r.Place)
		return
	}
	now := tip{r.Sequence, index, state.HashOf(record)}
	if place, ok := a.waiting[now.Hash]; ok {
		a.seen[place] = true
		delete(a.waiting, now.Hash)
	}
	tips, highest := a.tips[r.Place], uint64(0)
	for i, t := range tips {
		if r.Previous == t.Hash && r.Sequence > t.Sequence {
			tips[i] = now
			return
		}
		highest = max(highest, t.Sequence)
	}
	switch {
	case r.Previous.IsZero():
		a.tips[r.Place] = append(tips, now)
		if r.Sequence <= highest { // of a first record; a run that begins anew goes on counting
			a.report.Second++
		}
	case r.Sequence <= highest:
		a.report.Second++
	default:
		a.find(BadLeaf, r.Run, r.Hotkey.String(), "leaf %d, sequence %d, follows no record of the log", index, r.Sequence)
		a.tips[r.Place] = append(tips, now)
	}
}

// newest is what a server must show of each place: the highest sequence, the first of
// those that have one.
func (a *auditor) newest() map[state.Place]tip {
	out := make(map[state.Place]tip, len(a.tips))
	for place, tips := range a.tips {
		out[place] = slices.MaxFunc(tips, func(a, b tip) int {
			return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(b.Index, a.Index))
		})
	}
	return out
}

// shown reads the newest record of every run, as readers of each subnet of the log ask
// for it: what is left out there has no vote, whatever other lists show. Behind the
// subnets with the most runs one list of all stands for the rest.
func (a *auditor) shown(ctx context.Context, known map[state.Place]tip) error {
	runs := map[uint16]int{}
	for place := range known {
		runs[place.Netuid]++
	}
	subnets := slices.SortedFunc(maps.Keys(runs), func(x, y uint16) int { return cmp.Or(cmp.Compare(runs[y], runs[x]), cmp.Compare(x, y)) })
	asked := subnets[:min(len(subnets), MaxSubnets)]
	for _, netuid := range asked {
		if err := a.shownIn(ctx, url.Values{"netuid": {strconv.Itoa(int(netuid))}}, nil, known); err != nil {
			return err
		}
	}
	if a.report.Unasked = len(subnets) - len(asked); a.report.Unasked == 0 {
		return nil
	}
	return a.shownIn(ctx, url.Values{}, asked, known)
}

// shownIn reads one list, but for the records of subnets that were asked for: as readers
// do that believe everybody, and as those do that have a chain.
func (a *auditor) shownIn(ctx context.Context, query url.Values, asked []uint16, known map[state.Place]tip) error {
	err := a.list(ctx, query, asked, func(e *state.Entry, deleted map[model.RunID]bool) { a.entry(e, known, deleted) })
	if err != nil {
		return err
	}
	query.Set("bare", "1")
	err = a.list(ctx, query, asked, func(e *state.Entry, _ map[model.RunID]bool) {
		r, err := e.Signed()
		if err == nil && r.Sequence >= known[r.Place].Sequence {
			a.bare[r.Place] = true
		}
	})
	if model.CodeOf(err) != model.CodeInvalid {
		return err
	}
	for place := range known { // a server of before, where all readers ask for the list above
		a.bare[place] = true
	}
	return nil
}

func (a *auditor) list(ctx context.Context, query url.Values, asked []uint16, each func(*state.Entry, map[model.RunID]bool)) error {
	deleted := map[model.RunID]bool{}
	for since := uint64(0); ; {
		query.Set("since", strconv.FormatUint(since, 10))
		var page state.Page
		if err := a.log.get(ctx, projectPath(a.log.Workspace, a.log.Project, "state"), query, &page); err != nil {
			return err
		}
		unseen := make([]*state.Envelope, len(page.Entries))
		for i := range page.Entries {
			unseen[i] = &page.Entries[i].Envelope
		}
		state.VerifyAll(unseen)
		for _, id := range page.Deleted {
			deleted[id] = true
		}
		for i := range page.Entries {
			if r, err := state.Decode(page.Entries[i].Record); err == nil && slices.Contains(asked, r.Netuid) {
				continue
			}
			each(&page.Entries[i], deleted)
		}
		if !page.More {
			return nil
		}
		if page.Next <= since {
			return model.Errorf(model.CodeInvalid, "the server's list of newest records does not continue after index %d", since)
		}
		since = page.Next
	}
}

// entry holds one record that the server shows beside the log.
func (a *auditor) entry(e *state.Entry, known map[state.Place]tip, deleted map[model.RunID]bool) {
	a.report.Shown++
	r, err := e.Open()
	if r == nil && err != nil {
		r, _ = state.Decode(e.Record)
	}
	if r == nil {
		a.find(Broken, e.Run, e.Hotkey, "%v", err)
		return
	}
	if deleted[e.RunID] {
		a.report.Deleted = append(a.report.Deleted, r.Run)
	}
	if err != nil {
		a.find(Broken, r.Run, r.Hotkey.String(), "sequence %d: %v", r.Sequence, err)
	}
	switch now, ok := known[r.Place]; {
	case ok && now.Hash == e.Envelope.Hash():
		a.seen[r.Place] = true
	case !ok || r.Sequence > now.Sequence:
		a.waiting[e.Envelope.Hash()] = r.Place
	default:
		a.older[r.Place] = max(a.older[r.Place], r.Sequence)
	}
}

// compare names what the server must show and does not, and what it shows and has not.
func (a *auditor) compare(known map[state.Place]tip) {
	for hash, place := range a.waiting {
		a.find(Unknown, place.Run, place.Hotkey.String(), "the server shows record %s, which is no leaf of its log", hash)
	}
	for place, now := range known {
		if a.seen[place] {
			if !a.bare[place] {
				a.find(Hidden, place.Run, place.Hotkey.String(), "the server shows sequence %d, and hides it from readers with a chain, who ask for lists without payloads", now.Sequence)
			}
			continue
		}
		if sequence, ok := a.older[place]; ok {
			a.find(RolledBack, place.Run, place.Hotkey.String(), "the server shows sequence %d, and its log has sequence %d as leaf %d", sequence, now.Sequence, now.Index)
			continue
		}
		a.find(Hidden, place.Run, place.Hotkey.String(), "the log has sequence %d as leaf %d, and the server shows no record of %s", now.Sequence, now.Index, place)
	}
	slices.SortFunc(a.report.Findings, func(a, b Finding) int {
		return strings.Compare(a.Kind+a.Run+a.Reason, b.Kind+b.Run+b.Reason)
	})
	slices.Sort(a.report.Deleted)
}

func (a *auditor) find(kind, run, hotkey, format string, args ...any) {
	if len(a.report.Findings) == maxFindings {
		a.report.More++
		return
	}
	a.report.Findings = append(a.report.Findings, Finding{kind, run, hotkey, fmt.Sprintf(format, args...)})
}

// rangeOf is the right edge of a tree of some size.
func rangeOf(size uint64, hashes []state.Hash) (*compact.Range, error) {
	raw := make([][]byte, len(hashes))
	for i := range hashes {
		raw[i] = hashes[i][:]
	}
	return (&compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}).NewRange(0, size, raw)
}
