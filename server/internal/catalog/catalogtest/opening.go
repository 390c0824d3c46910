package catalogtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kymogram/kymogram/internal/model"
)

func testIdentity(t *testing.T, open Opener) {
	h := newHarness(t, open)
	first := h.must(request(1))
	if !first.Created || first.Run != local(1) || first.RunName != "r" || first.CreatedNs != atNs(1) || first.Attempt != 1 || first.LinkedFrom != "" {
		t.Errorf("the first open: %+v", first)
	}
	if rank := h.must(request(2)); rank.Run != first.Run || rank.Created || rank.Attempt != 1 {
		t.Errorf("a rank of the same job: %+v", rank)
	}
	h.refused(request(3, job("other")), model.CodeRunExists)
	if _, err := h.c.Open(h.ctx(), request(3, job("other")), at(1000)); err == nil || !strings.Contains(err.Error(), "\"other\"") || !strings.Contains(err.Error(), "\"job\"") ||
		!strings.Contains(err.Error(), time.Unix(0, first.CreatedNs).UTC().Format(time.DateTime)) {
		t.Errorf("a name that is taken does not say by whom: %v", err)
	}
	linked := h.must(request(4, job("other"), offline))
	if linked.RunName != "r-2" || linked.LinkedFrom != "r" || !linked.Created || linked.Run == first.Run {
		t.Errorf("an offline open of a taken name: %+v", linked)
	}
	for name, r := range map[string]model.OpenRequest{
		"its rank":          request(5, job("other")),
		"its offline rank":  request(6, job("other"), offline),
		"by the name given": request(7, job("other"), named("r-2")),
	} {
		if o := h.must(r); o.Run != linked.Run {
			t.Errorf("%s: %+v, want the linked run", name, o)
		}
	}
	if third := h.must(request(8, job("third"), offline)); third.RunName != "r-3" {
		t.Errorf("the next link: %+v", third)
	}
	joined := h.must(request(9, job("resumed"), allow))
	if joined.Run != first.Run || joined.Created || joined.Attempt != 2 {
		t.Errorf("allow: %+v", joined)
	}
	if again := h.must(request(10, job("resumed"))); again.Run != first.Run {
		t.Errorf("a rank of the job that resumed: %+v", again)
	}
	if same := h.must(request(1)); same.Run != first.Run || same.Attempt != 1 || same.Created {
		t.Errorf("the same writer: %+v", same)
	}
	elsewhere := request(1)
	elsewhere.Project = "secret"
	h.refused(elsewhere, model.CodeConflict)
	for _, alias := range []int{1, 2, 9, 10} {
		if d := h.detail(local(alias)); d.ID != first.Run {
			t.Errorf("the alias %d leads to %s", alias, d.Name)
		}
	}
	equal(t, "aliases", []model.RunID{local(2), local(9), local(10)}, h.detail(first.Run).Aliases)
	lone := h.must(request(11, job(""), named("lone")))
	h.refused(request(12, job(""), named("lone")), model.CodeRunExists)
	if again := h.must(request(11, job(""), named("lone"))); again.Run != lone.Run {
		t.Errorf("the same writer without a job: %+v", again)
	}
	long := strings.Repeat("é", 128) // 256 bytes
	h.must(request(13, named(long)))
	if o := h.must(request(14, named(long), job("other"), offline)); o.RunName != strings.Repeat("é", 127)+"-2" {
		t.Errorf("the link of a long name: %q", o.RunName)
	}
}

func testBadOpens(t *testing.T, open Opener) {
	h := newHarness(t, open)
	for name, change := range map[string]func(*model.OpenRequest){
		"no writer":           func(r *model.OpenRequest) { r.Writer = model.WriterID{} },
		"no workspace":        func(r *model.OpenRequest) { r.Workspace = "" },
		"a slash":             func(r *model.OpenRequest) { r.Project = "a/b" },
		"a dot in front":      func(r *model.OpenRequest) { r.Project = ".hidden" },
		"129 characters":      func(r *model.OpenRequest) { r.Workspace = strings.Repeat("a", 129) },
		"a line feed behind":  func(r *model.OpenRequest) { r.Workspace = "team\n" },
		"no name":             named(""),
		"a control character": named("a\x1bb"),
		"a C1 control":        named("a\u0085b"),
		"not UTF-8":           named("a\xffb"),
		"257 bytes":           named(strings.Repeat("a", 257)),
		"a strange strategy":  func(r *model.OpenRequest) { r.ResumeStrategy = "maybe" },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := h.c.Open(h.ctx(), request(1, change), at(1000))
			if model.CodeOf(err) != model.CodeInvalid {
				t.Errorf("%v, want %s", err, model.CodeInvalid)
			}
		})
	}
	page, _, err := h.c.ListProjects(h.ctx(), 10, "")
	if err != nil || len(page) > 0 {
		t.Errorf("a refused open left %v, %v", page, err)
	}
}

func testAttempts(t *testing.T, open Opener) {
	h := newHarness(t, open)
	expect := func(what string, r model.OpenRequest, attempt uint32) model.Attempt {
		t.Helper()
		o := h.must(r)
		if o.Attempt != attempt || o.AttemptInfo.Number != attempt {
			t.Errorf("%s: attempt %d (%+v), want %d", what, o.Attempt, o.AttemptInfo, attempt)
		}
		return o.AttemptInfo
	}
	run := h.must(request(1)).Run
	expect("a rank while a writer is open", request(2), 1)
	h.apply(run, 1, closeWith(model.StatusFinished))
	expect("a rank while another is open", request(3, resume(70)), 1)
	if a := expect("a rank that resumes earlier", request(4, resume(50)), 1); *a.ResumeFrom != 50 {
		t.Errorf("resume from %d, want 50", *a.ResumeFrom)
	}
	if a := expect("a rank that resumes later", request(5, resume(60)), 1); *a.ResumeFrom != 50 {
		t.Errorf("resume from %d, want 50", *a.ResumeFrom)
	}
	for _, n := range []int{2, 3, 4, 5} {
		h.apply(run, n, closeWith(model.StatusFinished))
	}
	if a := expect("the second life", request(6, resume(90)), 2); *a.ResumeFrom != 90 {
		t.Errorf("resume from %d, want 90", *a.ResumeFrom)
	}
	expect("the child of a writer of the first", request(7, child(2)), 1)
	h.apply(run, 6, model.Update{Op: model.OpGone})
	h.apply(run, 7, model.Update{Op: model.OpGone})
	expect("a child before its parent", request(8, child(20)), 3)
	h.apply(run, 8, closeWith(model.StatusFinished))
	expect("its sibling", request(9, child(20)), 3)
	h.apply(run, 9, closeWith(model.StatusFinished))
	expect("the parent", request(20), 3)
	ended := func(writers ...int) func(*model.OpenRequest) {
		return func(r *model.OpenRequest) {
			for _, n := range writers {
				r.Ended = append(r.Ended, request(n).Writer)
			}
		}
	}
	expect("a rank beside the parent", request(21), 3)
	expect("an open that knows of one dead writer of two", request(22, ended(20, 999)), 3)
	expect("one that knows that all are dead", request(23, ended(22, 21, 20)), 4)
	expect("a foreign word for writers of this run", request(24, job("b"), named("elsewhere"), ended(23)), 1)
	expect("a rank of the living one", request(25), 4)
	h.apply(run, 20, closeWith(model.StatusFinished))
	expect("restart 1", request(30, restart(1)), 5)
	expect("restart 0, late", request(31, restart(0)), 6)
	expect("restart 1 again", request(32, restart(1)), 5)
	expect("restart 1 of another job", request(33, restart(1), job("b"), allow), 7)
	if latest := h.detail(run).Attempt; latest != 7 {
		t.Errorf("the latest attempt is %d", latest)
	}
}

func testPrecedence(t *testing.T, open Opener) {
	h := newHarness(t, open)
	run := h.must(request(1, restart(2), opened(10))).Run
	h.must(request(2, restart(0), opened(30)))                  // its clock is ahead
	h.must(request(3, restart(1), opened(20)))                  // comes last, lies between
	h.must(request(4, restart(3), opened(5)))                   // its clock is behind
	h.must(request(5, job("b"), restart(0), opened(40), allow)) // another job: by time
	h.must(request(6, job("c"), opened(1), allow))              // another job, before all
	h.must(request(7, restart(4), opened(50)))                  // the newest of the first job
	order := map[uint32]int64{}
	for _, a := range h.detail(run).Attempts {
		order[a.Number] = a.Precedence
	}
	for _, pair := range [][2]uint32{{2, 3}, {3, 1}, {1, 4}, {4, 7}, {1, 5}, {6, 1}, {5, 7}} {
		if order[pair[0]] >= order[pair[1]] {
			t.Errorf("attempt %d is not before %d: %v", pair[0], pair[1], order)
		}
	}
	if latest := h.detail(run).Attempt; latest != 7 {
		t.Errorf("the latest attempt is %d", latest)
	}
}

// Ranks of several hosts that were offline come one host after the other, each
// ended long ago: what they logged at one step is of one attempt.
func testAttemptsOfOfflineRanks(t *testing.T, open Opener) {
	h := newHarness(t, open)
	n := 0
	life := func(rank int64, second int, change ...func(*model.OpenRequest)) uint32 {
		n++
		o := h.must(request(n, append([]func(*model.OpenRequest){offline, ranked(rank), opened(second)}, change...)...))
		h.apply(o.Run, n, closeWith(model.StatusFinished))
		return o.Attempt
	}
	for _, one := range []struct {
		rank   int64
		second int
		want   uint32
		why    string
	}{
		{0, 100, 1, "the first"},
		{0, 500, 2, "its second life"},
		{1, 101, 1, "another host's first life"},
		{1, 499, 2, "and its second"},
		{2, 99, 1, "an earlier start"},
		{2, 501, 2, "and a restart"},
		{2, 900, 3, "a third life"},
		{0, 902, 3, "the others follow"},
	} {
		if got := life(one.rank, one.second); got != one.want {
			t.Errorf("%s (rank %d at %d s): attempt %d, want %d", one.why, one.rank, one.second, got, one.want)
		}
	}
	if got := life(3, 100, job("other"), allow); got != 4 {
		t.Errorf("a rank of another job: attempt %d", got)
	}
	if got := life(3, 100, restart(0)); got != 5 {
		t.Errorf("a rank whose restart count is known: attempt %d", got)
	}
	online := h.must(request(90, ranked(4), opened(1000)))
	if online.Attempt != 6 {
		t.Errorf("a rank that is online finds nobody: attempt %d", online.Attempt)
	}
}

// rules is the naive model of opening: lists that are searched from front to end.
type rules struct {
	runs    []*ruleRun
	writers []*ruleWriter
}

type ruleRun struct {
	name     string
	asked    map[string]bool // name and job, by which it is found
	attempts []*ruleAttempt
}

type ruleAttempt struct {
	job      string
	count    *int64
	children map[int]bool // parents whose children are in it
	openedAt int
	resume   *int64
}

type ruleWriter struct {
	n       int
	rank    *int64
	run     *ruleRun
	attempt int
	open    bool
}

// do is an open: the run's name and the attempt, or a code.
func (m *rules) do(r model.OpenRequest, n, parent, second int) (string, int, model.Code) {
	for _, w := range m.writers {
		if w.n == n {
			return w.run.name, w.attempt, ""
		}
	}
	run, code := m.findRun(r)
	if code != "" {
		return "", 0, code
	}
	number := m.findAttempt(run, r, n, parent, second)
	if number == 0 {
		run.attempts = append(run.attempts, &ruleAttempt{job: r.OrchestrationID, count: r.RestartCount, openedAt: second, children: map[int]bool{}, resume: r.ResumeFromStep})
		number = len(run.attempts)
	}
	a := run.attempts[number-1]
	if r.ResumeFromStep != nil && (a.resume == nil || *r.ResumeFromStep < *a.resume) {
		a.resume = r.ResumeFromStep
	}
	if parent > 0 && !m.knowsParent(run, parent) {
		a.children[parent] = true
	}
	m.writers = append(m.writers, &ruleWriter{n, r.Rank, run, number, true})
	return run.name, number, ""
}

func (m *rules) named(name string) *ruleRun {
	for _, run := range m.runs {
		if run.name == name {
			return run
		}
	}
	return nil
}

func (m *rules) findRun(r model.OpenRequest) (*ruleRun, model.Code) {
	key := r.RunName + "\n" + r.OrchestrationID
	for _, run := range m.runs {
		if run.asked[key] {
			return run, ""
		}
	}
	taken := m.named(r.RunName)
	if taken != nil && r.ResumeStrategy == model.ResumeAllow {
		taken.asked[key] = true
		return taken, ""
	}
	if taken != nil && !r.Offline {
		return nil, model.CodeRunExists
	}
	name := r.RunName
	for i := 2; m.named(name) != nil; i++ {
		name = fmt.Sprintf("%s-%d", r.RunName, i)
	}
	run := &ruleRun{name: name, asked: map[string]bool{key: true, name + "\n" + r.OrchestrationID: true}}
	m.runs = append(m.runs, run)
	return run, ""
}

func (m *rules) knowsParent(run *ruleRun, parent int) bool { return m.ofParent(run, parent) > 0 }

func (m *rules) ofParent(run *ruleRun, parent int) int {
	for _, w := range m.writers {
		if w.n == parent && w.run == run {
			return w.attempt
		}
	}
	for i, a := range run.attempts {
		if a.children[parent] {
			return i + 1
		}
	}
	return 0
}

func (m *rules) findAttempt(run *ruleRun, r model.OpenRequest, n, parent, second int) int {
	if r.RestartCount != nil {
		for i, a := range run.attempts {
			if a.job == r.OrchestrationID && a.count != nil && *a.count == *r.RestartCount {
				return i + 1
			}
		}
		return 0
	}
	if number := m.ofParent(run, n); number > 0 {
		return number
	}
	if parent > 0 {
		if number := m.ofParent(run, parent); number > 0 {
			return number
		}
	}
	if r.Offline && r.Rank != nil {
		if number := m.lacking(run, r, second); number > 0 {
			return number
		}
	}
	latest := 0
	for i, a := range run.attempts {
		if a.job == r.OrchestrationID && (latest == 0 || !a.before(run.attempts[latest-1])) {
			latest = i + 1
		}
	}
	for _, w := range m.writers {
		if w.run == run && w.attempt == latest && w.open {
			return latest
		}
	}
	return 0
}

// lacking is the job's attempt without this rank that was opened nearest to second.
func (m *rules) lacking(run *ruleRun, r model.OpenRequest, second int) int {
	found, nearest := 0, 0
	for i, a := range run.attempts {
		lacks := a.job == r.OrchestrationID && a.count == nil
		for _, w := range m.writers {
			if w.run == run && w.attempt == i+1 && w.rank != nil && *w.rank == *r.Rank {
				lacks = false
			}
		}
		distance := max(second-a.openedAt, a.openedAt-second)
		if lacks && (found == 0 || distance < nearest) {
			found, nearest = i+1, distance
		}
	}
	return found
}

// before compares by (restart count, opening time); the model's times differ.
func (a *ruleAttempt) before(b *ruleAttempt) bool {
	var x, y int64
	if a.count != nil {
		x = *a.count
	}
	if b.count != nil {
		y = *b.count
	}
	return x < y || (x == y && a.openedAt < b.openedAt)
}

func testOpeningRules(t *testing.T, open Opener) {
	shared := newHarness(t, open)
	rapid.Check(t, func(rt *rapid.T) {
		h := shared.round(rt)
		m := &rules{}
		ids := map[string]model.RunID{}
		steps := rapid.IntRange(1, 25).Draw(rt, "steps")
		for second := 1; second <= steps; second++ {
			if len(m.writers) > 0 && rapid.IntRange(0, 3).Draw(rt, "close") == 0 {
				w := rapid.SampledFrom(m.writers).Draw(rt, "writer")
				h.apply(ids[w.run.name], h.base+w.n, closeWith(model.StatusFinished))
				w.open = false
				continue
			}
			h.openBoth(rt, m, ids, second)
		}
		for name, id := range ids {
			h.compareAttempts(m.named(name), h.detail(id).Attempts)
		}
	})
}

// openBoth makes one random open in the catalog and in the model.
func (h *harness) openBoth(rt *rapid.T, m *rules, ids map[string]model.RunID, second int) {
	n := rapid.IntRange(1, 30).Draw(rt, "n")
	r := request(h.base+n, h.inProject, named(rapid.SampledFrom([]string{"r", "r-2", "s"}).Draw(rt, "name")),
		job(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "job")), opened(second))
	r.Offline = rapid.Bool().Draw(rt, "offline")
	if rapid.Bool().Draw(rt, "ranked") {
		ranked(rapid.Int64Range(0, 2).Draw(rt, "rank"))(&r)
	}
	if rapid.IntRange(0, 3).Draw(rt, "allow") == 0 {
		allow(&r)
	}
	if rapid.Bool().Draw(rt, "counted") {
		restart(rapid.Int64Range(0, 2).Draw(rt, "count"))(&r)
	}
	if rapid.IntRange(0, 2).Draw(rt, "resumes") == 0 {
		resume(rapid.Int64Range(0, 9).Draw(rt, "from"))(&r)
	}
	parent := 0
	if rapid.IntRange(0, 2).Draw(rt, "child") == 0 {
		parent = rapid.IntRange(1, 30).Draw(rt, "parent")
		child(h.base + parent)(&r)
	}
	name, attempt, code := m.do(r, n, parent, second)
	o, err := h.c.Open(h.ctx(), r, at(1000))
	if got := model.CodeOf(err); got != code {
		rt.Fatalf("open %d: %v, the rules say %q", n, err, code)
	}
	if code != "" {
		return
	}
	if o.RunName != name || int(o.Attempt) != attempt {
		rt.Fatalf("open %d: %s attempt %d, the rules say %s attempt %d", n, o.RunName, o.Attempt, name, attempt)
	}
	ids[name] = o.Run
}

func (h *harness) compareAttempts(run *ruleRun, got []model.Attempt) {
	h.t.Helper()
	if len(got) != len(run.attempts) {
		h.t.Fatalf("%s: %d attempts, the rules say %d", run.name, len(got), len(run.attempts))
	}
	for i, a := range run.attempts {
		equal(h.t, "resume from", a.resume, got[i].ResumeFrom)
		for j, b := range run.attempts {
			if a.job == b.job && a.before(b) && got[i].Precedence >= got[j].Precedence {
				h.t.Fatalf("%s: attempt %d is not before %d: %+v", run.name, i+1, j+1, got)
			}
		}
	}
}
