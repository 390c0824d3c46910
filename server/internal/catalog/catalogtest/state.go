package catalogtest

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

func set(path string, v *model.Value) model.Update {
	return model.Update{Op: model.OpSetAttribute, Path: path, Value: v}
}

func testInitial(t *testing.T, open Opener) {
	h := newHarness(t, open)
	step := int64(7)
	creating := request(1, func(r *model.OpenRequest) {
		r.DisplayName, r.Experiment, r.ForkFromRun, r.ForkAtStep = "My run", "exp", "parent", &step
		r.Initial = []model.Update{set("config/lr", model.FloatValue(0.5)), {Op: model.OpAddTags, Tags: []string{"b", "a"}}, {Op: model.OpSetDescription, Text: "text"}}
		rank, logger := int64(3), uint64(math.MaxUint64)
		r.Rank, r.LoggerID, r.Hotkey = &rank, &logger, "5F"
	})
	run := h.must(creating).Run
	h.must(request(2, func(r *model.OpenRequest) {
		r.DisplayName = "Another"
		r.Initial = []model.Update{set("config/lr", model.FloatValue(9)), {Op: model.OpAddTags, Tags: []string{"c"}}}
	}))
	h.must(creating)
	d := h.detail(run)
	equal(t, "attributes", []catalog.Attribute{{Path: "config/lr", Value: *model.FloatValue(0.5)}, {Path: "sys/experiment", Value: *model.StringValue("exp")}}, d.Attributes)
	equal(t, "tags", []string{"a", "b"}, d.Tags)
	if d.DisplayName != "My run" || d.Description != "text" || d.ParentRun != "parent" || *d.ForkStep != 7 || d.Writers != nil && len(d.Writers) != 2 {
		t.Errorf("detail: %+v", d)
	}
	logger, rank := uint64(math.MaxUint64), int64(3)
	equal(t, "the writer", catalog.WriterInfo{
		ID: writer(1), Attempt: 1, State: model.WriterOpen, Host: "host", PID: 1, Rank: &rank, Hotkey: "5F", SDK: "test/1",
		LoggerID: &logger, OpenedNs: atNs(1), SeenNs: atNs(1000),
	}, d.Writers[0])
	if d.Run.Writers != 2 {
		t.Errorf("%d writers are listed, want 2", d.Run.Writers)
	}
}

// Ranks that began offline cannot know which of them makes the run: the first
// value of a path wins, others are kept by rank. It is the same for values that
// come behind the open, wherever the configuration is cut.
func testConfigOfOfflineRanks(t *testing.T, open Opener) {
	for cut := range 4 {
		t.Run(fmt.Sprintf("cut at %d", cut), func(t *testing.T) { testConfigCutAt(t, open, cut) })
	}
}

func testConfigCutAt(t *testing.T, open Opener, cut int) {
	h := newHarness(t, open)
	begin := func(i int, r model.OpenRequest) model.RunID {
		t.Helper()
		all := r.Initial
		n := min(cut, len(all))
		r.Initial = all[:n]
		run := h.must(r).Run
		h.must(r)
		for _, u := range all[n:] {
			u.Initial = true
			h.apply(run, i, u)
		}
		return run
	}
	rank := func(i int, n int64, offline bool, values ...model.Update) model.RunID {
		return begin(i, request(i, func(r *model.OpenRequest) { r.Rank, r.Offline, r.Initial = &n, offline, values }))
	}
	run := rank(1, 0, true, set("config/lr", model.FloatValue(0.5)), set("config/seed", model.IntValue(1)))
	rank(2, 1, true, set("config/lr", model.FloatValue(0.5)), set("config/seed", model.IntValue(2)), set("config/more", model.BoolValue(true)))
	rank(3, 2, false, set("config/seed", model.IntValue(3)), set("config/late", model.IntValue(3))) // knew that it joins
	begin(4, request(4, func(r *model.OpenRequest) {
		r.OrchestrationID, r.ResumeStrategy, r.Offline = "another job", model.ResumeAllow, true
		r.Initial = []model.Update{set("config/seed", model.IntValue(4)), set("config/other", model.IntValue(4))}
	}))
	begin(5, request(5, offline, func(r *model.OpenRequest) { // has no rank
		r.Initial = []model.Update{set("config/seed", model.IntValue(5)), set("config/five", model.IntValue(5))}
	}))
	h.apply(run, 2, set("config/more", model.BoolValue(false))) // what a program says later is no initial value
	equal(t, "attributes", []catalog.Attribute{
		{Path: "config/five", Value: *model.IntValue(5)},
		{Path: "config/lr", Value: *model.FloatValue(0.5)},
		{Path: "config/more", Value: *model.BoolValue(false)},
		{Path: "config/seed", Value: *model.IntValue(1)},
		{Path: "ranks/1/config/seed", Value: *model.IntValue(2)},
	}, h.detail(run).Attributes)
}

// Only configuration of a rank that joins offline is taken.
func testOthersOfOfflineRanks(t *testing.T, open Opener) {
	h := newHarness(t, open)
	run := h.must(request(1, offline)).Run
	h.must(request(2, offline, func(r *model.OpenRequest) {
		r.Initial = []model.Update{set("host/name", model.StringValue("b")), set("config/a", model.IntValue(1)), {Op: model.OpAddTags, Tags: []string{"c"}}}
	}))
	d := h.detail(run)
	equal(t, "attributes", []catalog.Attribute{{Path: "config/a", Value: *model.IntValue(1)}}, d.Attributes)
	equal(t, "tags", []string(nil), d.Tags)
}

func testUpdates(t *testing.T, open Opener) {
	dir := t.TempDir()
	h := &harness{t: t, c: open(t, dir)}
	run := h.must(request(1)).Run
	five := int64(5)
	env := func(env string, episode *int64, path string, v *model.Value) model.Update {
		return model.Update{Op: model.OpSetEnvAttribute, Env: env, Episode: episode, Path: path, Value: v}
	}
	values := map[string]*model.Value{
		"bool": model.BoolValue(true), "int": model.IntValue(math.MinInt64), "big": model.IntValue(math.MaxInt64),
		"float": model.FloatValue(math.Copysign(0, -1)), "nan": model.FloatValue(math.NaN()), "inf": model.FloatValue(math.Inf(-1)),
		"string": model.StringValue("é\n\x00"), "set": model.SetValue([]string{"b", "a", "b"}), "time": model.TimeValue(math.MaxInt64), "empty": model.SetValue(nil),
	}
	for path, v := range values {
		h.apply(run, 1, set(path, v))
	}
	h.apply(run, 1, set("gone", model.IntValue(1)), set("bool", model.IntValue(2)), set("gone", nil), set("bool", model.BoolValue(true)))
	h.apply(run, 1, env("e", nil, "p", model.IntValue(1)), env("e", &five, "p", model.IntValue(2)), env("e", nil, "q", model.IntValue(3)), env("e", nil, "q", nil))
	h.apply(run, 1, model.Update{Op: model.OpSetTags, Tags: []string{"x", "y"}}, model.Update{Op: model.OpAddTags, Tags: []string{"z", "x"}},
		model.Update{Op: model.OpRemoveTags, Tags: []string{"y", "never"}}, model.Update{Op: model.OpSetDescription, Text: "d"}, model.Update{Op: model.OpSetDisplayName, Text: "n"})
	h.apply(run, 1, model.Update{Op: model.OpDropped, Count: 3}, model.Update{Op: model.OpDropped, Count: 4}, model.Update{Op: model.OpRefused, Count: 5})
	shared := func(env string, other int, timeNs int64) model.Update {
		with := writer(other)
		return model.Update{Op: model.OpShared, Env: env, Other: &with, TimeNs: timeNs}
	}
	h.apply(run, 1, shared("e", 2, 5), shared("e", 2, 6), shared("a", 9, 7))
	h.apply(run, 2, shared("e", 1, 8))
	for i := range 1005 {
		h.apply(run, 1, model.Update{Op: model.OpLog, TimeNs: int64(i + 1), Path: "alert", Text: strconv.Itoa(i), Value: model.SetValue([]string{"level=high", "flag"})})
	}
	h.check("Close", h.c.Close())
	h.c = open(t, dir)
	defer func() { h.check("Close", h.c.Close()) }()
	d := h.detail(run)
	got := map[string]*model.Value{}
	for _, a := range d.Attributes {
		got[a.Path] = &a.Value
	}
	equal(t, "attributes", values, got)
	if f := got["float"]; f != nil && !math.Signbit(f.Float) {
		t.Error("-0 lost its sign")
	}
	equal(t, "environment attributes", []catalog.EnvAttribute{
		{Env: "e", Attribute: catalog.Attribute{Path: "p", Value: *model.IntValue(1)}},
		{Env: "e", Episode: &five, Attribute: catalog.Attribute{Path: "p", Value: *model.IntValue(2)}},
	}, d.EnvAttributes)
	equal(t, "tags", []string{"x", "z"}, d.Tags)
	if d.Description != "d" || d.DisplayName != "n" || d.Dropped != 7 || d.Refused != 5 {
		t.Errorf("detail: %+v", d.Run)
	}
	equal(t, "shared environments", []model.SharedEnvironment{
		{Env: "a", TimeNs: 7, Writers: [2]model.WriterID{writer(1), writer(9)}}, {Env: "e", TimeNs: 5, Writers: [2]model.WriterID{writer(1), writer(2)}},
	}, d.Shared)
	for next := d.Next.Events; next != ""; {
		page, behind, err := h.c.Events(t.Context(), run, next)
		h.check("Events", err)
		d.Events, next = append(d.Events, page...), behind
	}
	if len(d.Events) != 1000 || d.Events[0].Text != "5" || d.Events[999].Text != "1004" {
		t.Fatalf("%d events", len(d.Events))
	}
	equal(t, "an event", catalog.Event{TimeNs: 6, Name: "alert", Text: "5", Tags: map[string]string{"level": "high", "flag": ""}}, d.Events[0])
}

func testAppliedOnce(t *testing.T, open Opener) {
	h := newHarness(t, open)
	run := h.must(request(1)).Run
	other := h.must(request(2, named("other"))).Run
	apply := func(run model.RunID, lsn uint64, u model.Update) {
		t.Helper()
		h.check("Apply", h.c.Apply(h.ctx(), run, writer(1), lsn, []model.Update{u}, at(1)))
	}
	dropped := model.Update{Op: model.OpDropped, Count: 1}
	apply(run, 10, dropped)
	apply(run, 10, dropped)
	apply(run, 9, dropped)
	apply(other, 5, dropped) // LSNs count a run on its own
	apply(run, 11, dropped)
	apply(run, 0, dropped) // without an LSN: always
	apply(run, 11, dropped)
	apply(model.RunID{1, 2, 3}, 12, dropped) // an unknown run is passed over
	if a, b := h.detail(run).Dropped, h.detail(other).Dropped; a != 3 || b != 1 {
		t.Errorf("applied %d and %d times, want 3 and 1", a, b)
	}
	err := h.c.Apply(h.ctx(), run, writer(1), 12, []model.Update{dropped, {Op: "strange"}}, at(1))
	h.wantCode("an unknown update", err, model.CodeBadRecord)
	h.check("Apply", h.c.Apply(h.ctx(), run, model.WriterID{}, 0, []model.Update{{Op: model.OpSetDescription, Text: "edited"}}, at(9000)))
	if d := h.detail(run); d.Description != "edited" || d.LastNs != atNs(1000) {
		t.Errorf("after an edit: %q, last sign of life %d", d.Description, d.LastNs)
	}
	if got := h.detail(run).Dropped; got != 3 {
		t.Errorf("half of a refused list was applied: %d", got)
	}
}

func testStatus(t *testing.T, open Opener) {
	h := newHarness(t, open)
	n := 0
	// Each case is a list of (attempt, end) of writers; "" stays open.
	for _, c := range []struct {
		ends []string
		want model.RunStatus
	}{
		{[]string{"1 "}, model.StatusRunning},
		{[]string{"1 finished"}, model.StatusFinished},
		{[]string{"1 failed"}, model.StatusFailed},
		{[]string{"1 gone"}, model.StatusLost},
		{[]string{"1 finished", "1 gone"}, model.StatusLost},
		{[]string{"1 gone", "1 failed"}, model.StatusFailed},
		{[]string{"1 gone", "2 finished"}, model.StatusFinished},
		{[]string{"1 failed", "2 finished"}, model.StatusFinished},
		{[]string{"1 finished", "2 gone"}, model.StatusLost},
		{[]string{"1 ", "2 failed"}, model.StatusRunning},
		{[]string{"1 gone finished"}, model.StatusFinished},
		{[]string{"1 finished gone"}, model.StatusFinished},
		{[]string{"1 failed finished"}, model.StatusFailed},
		{[]string{"1 SIGTERM"}, model.StatusInterrupted},
		{[]string{"1 SIGINT"}, model.StatusInterrupted},
		{[]string{"1 finished", "1 SIGTERM"}, model.StatusInterrupted},
		{[]string{"1 SIGTERM", "1 gone"}, model.StatusLost},
		{[]string{"1 SIGTERM", "1 failed"}, model.StatusFailed},
		{[]string{"1 SIGTERM", "2 finished"}, model.StatusFinished},
		{[]string{"1 SIGTERM", "2 "}, model.StatusRunning},
		{[]string{"1 gone SIGTERM"}, model.StatusInterrupted},
		{[]string{"1 SIGTERM gone"}, model.StatusInterrupted},
		{[]string{"1 finished SIGTERM"}, model.StatusFinished},
		{[]string{"1 SIGINT finished"}, model.StatusInterrupted},
	} {
		t.Run(fmt.Sprint(c.ends), func(t *testing.T) {
			name := fmt.Sprint("run-", n)
			var run model.RunID
			for _, end := range c.ends {
				n++
				var attempt int64
				var first, second string
				_, _ = fmt.Sscan(end, &attempt, &first, &second)
				run = h.must(request(n, named(name), restart(attempt), opened(int(attempt)))).Run
				for _, e := range []string{first, second} {
					switch e {
					case "":
					case "gone":
						h.apply(run, n, model.Update{Op: model.OpGone})
					case "SIGTERM":
						h.apply(run, n, model.Update{Op: model.OpGone, Signal: e})
					case "SIGINT":
						h.apply(run, n, model.Update{Op: model.OpClose, Text: string(model.StatusFailed), Signal: e})
					default:
						h.apply(run, n, closeWith(model.RunStatus(e)))
					}
				}
			}
			for _, w := range h.detail(run).Writers {
				if (w.Signal != "") != (w.State == model.WriterInterrupted) {
					t.Errorf("a writer is %s by %q", w.State, w.Signal)
				}
			}
			if got := h.detail(run).Status; got != c.want {
				t.Errorf("status %s, want %s", got, c.want)
			}
			page, _, err := h.c.ListRuns(h.ctx(), catalog.RunFilter{Workspace: "team", Project: "project", Name: name, Status: c.want, Limit: 5})
			if err != nil || len(page) != 1 {
				t.Errorf("listed by status: %v, %v", page, err)
			}
		})
	}
}

func testSilence(t *testing.T, open Opener) {
	h := newHarness(t, open)
	run := h.must(request(1)).Run // seen at 1000
	h.must(request(2))
	status := func(want model.RunStatus) {
		t.Helper()
		if got := h.detail(run).Status; got != want {
			t.Errorf("status %s, want %s", got, want)
		}
	}
	news := []model.RunChange{{Run: run, Workspace: "team", Project: "project"}}
	seen := func(at time.Time, want []model.RunChange, who ...int) {
		t.Helper()
		signs := map[model.WriterID]time.Time{}
		for _, n := range who {
			signs[writer(n)] = at
		}
		revived, err := h.c.Seen(h.ctx(), signs)
		h.check("Seen", err)
		if diff := cmp.Diff(want, revived, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("revived (-want +got):\n%s", diff)
		}
	}
	expire := func(before time.Time, want []model.RunChange) {
		t.Helper()
		lost, err := h.c.Expire(h.ctx(), before)
		h.check("Expire", err)
		if diff := cmp.Diff(want, lost, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("lost (-want +got):\n%s", diff)
		}
	}
	silent := func(want bool) {
		t.Helper()
		for _, w := range h.detail(run).Writers {
			if w.ID == request(1).Writer && (w.State != model.WriterGone || w.Silent != want) {
				t.Errorf("writer 1 is %s, silent %v, want %v", w.State, w.Silent, want)
			}
		}
	}
	seen(at(1500), nil, 1, 99)
	expire(at(1400), news)      // writer 2
	status(model.StatusRunning) // writer 1 was seen
	expire(at(1600), news)
	status(model.StatusLost)
	expire(at(1600), nil)
	silent(true)
	seen(at(1450), nil, 1)
	status(model.StatusLost) // an old sign
	seen(at(1700), news, 1)
	status(model.StatusRunning)
	if got := h.detail(run).LastNs; got != atNs(1700) {
		t.Errorf("last sign of life %d, want %d", got, atNs(1700))
	}
	// A writer whose end was reported stays gone.
	h.apply(run, 1, model.Update{Op: model.OpGone})
	seen(at(1800), nil, 1)
	silent(false)
	status(model.StatusLost)
	// Opening again is a sign of life of one that was only silent.
	if _, err := h.c.Open(h.ctx(), request(2), at(1900)); err != nil {
		t.Fatal(err)
	}
	status(model.StatusRunning)
}

// testWithoutEnd has a run of a protocol that has no end, and one beside a client
// that was killed.
func testWithoutEnd(t *testing.T, open Opener) {
	h := newHarness(t, open)
	receiver := func(r *model.OpenRequest) { r.SDK, r.ResumeStrategy = model.ReceiverSDK+"x", model.ResumeAllow }
	run := h.must(request(1, receiver)).Run
	status := func(want model.RunStatus) {
		t.Helper()
		if got := h.detail(run).Status; got != want {
			t.Errorf("the run is %s, want %s", got, want)
		}
	}
	expire := func() {
		t.Helper()
		_, err := h.c.Expire(h.ctx(), at(5000))
		h.check("Expire", err)
	}
	status(model.StatusRunning)
	expire()
	status(model.StatusSilent)
	runs, _, err := h.c.ListRuns(h.ctx(), catalog.RunFilter{Workspace: "team", Project: "project", Status: model.StatusSilent, Limit: 9})
	if err != nil || len(runs) != 1 || runs[0].ID != run {
		t.Errorf("the silent runs: %v, %v", runs, err)
	}
	_, err = h.c.Seen(h.ctx(), map[model.WriterID]time.Time{writer(1): at(6000)})
	h.check("Seen", err)
	status(model.StatusRunning)
	_, err = h.c.Expire(h.ctx(), at(7000))
	h.check("Expire", err)
	status(model.StatusSilent)
	h.must(request(2)) // a client that says when it ends
	status(model.StatusRunning)
	h.apply(run, 2, model.Update{Op: model.OpGone})
	status(model.StatusLost)
}

// testLastTime has two writers of one run, delivered long after they ended: the
// run's last time is what they say, and what retention goes by is when they came.
func testLastTime(t *testing.T, open Opener) {
	h := &harness{t: t, c: open(t, t.TempDir())}
	run := h.must(request(1)).Run
	h.must(request(2))
	ended := func(n, seconds int) {
		h.apply(run, n, model.Update{Op: model.OpClose, TimeNs: atNs(seconds), Text: string(model.StatusFinished)})
	}
	last := func(what string, want int) {
		t.Helper()
		if got := h.detail(run).LastNs; got != atNs(want) {
			t.Errorf("%s: the last time is %d, want %d", what, got, atNs(want))
		}
	}
	idle := func(before, want int) {
		t.Helper()
		runs, err := h.c.Idle(h.ctx(), at(before), 10)
		h.check("Idle", err)
		if len(runs) != want {
			t.Errorf("%d runs are idle since %d, want %d", len(runs), before, want)
		}
	}
	last("both write", 1000)
	ended(1, 300)
	last("one writes", 1000)
	ended(2, 200)
	last("both ended", 300)
	idle(1000, 0)
	idle(1001, 1)
	if _, err := h.c.Seen(h.ctx(), map[model.WriterID]time.Time{writer(2): at(1100)}); err != nil {
		t.Fatal(err)
	}
	last("a sign of life that was noted late", 300)
	idle(1100, 0)
	h.check("Apply", h.c.Apply(h.ctx(), run, model.WriterID{}, 0, []model.Update{{Op: model.OpSetDescription, Text: "edited"}}, at(9000)))
	last("an edit", 300)

	again := request(3)
	again.ResumeStrategy = model.ResumeAllow
	if _, err := h.c.Open(h.ctx(), again, at(1200)); err != nil {
		t.Fatal(err)
	}
	last("it goes on", 1200)
	h.check("Apply", h.c.Apply(h.ctx(), run, again.Writer, 9, []model.Update{{Op: model.OpClose, TimeNs: atNs(5000), Text: string(model.StatusFinished)}}, at(1300)))
	last("a clock ahead", 1300)

	gone := h.must(request(4, named("killed"), job("killed"))).Run
	run = gone
	h.apply(run, 4, model.Update{Op: model.OpGone, TimeNs: atNs(10)})
	last("no end is known", 1000)
}

func testTrash(t *testing.T, open Opener) {
	h := newHarness(t, open)
	run := h.must(request(1)).Run
	h.must(request(2))
	kept := h.must(request(3, named("kept"))).Run
	h.check("Trash", h.c.Trash(h.ctx(), local(2), at(2000))) // by alias
	h.check("Trash", h.c.Trash(h.ctx(), run, at(2500)))
	if d := h.detail(run); d.DeletedNs != atNs(2000) {
		t.Errorf("in the trash since %d, want %d", d.DeletedNs, atNs(2000))
	}
	names := func(deleted bool) (out []string) {
		page, _, err := h.c.ListRuns(h.ctx(), catalog.RunFilter{Workspace: "team", Project: "project", Deleted: deleted, Limit: 9})
		h.check("ListRuns", err)
		for _, r := range page {
			out = append(out, r.Name)
		}
		return out
	}
	equal(t, "the list", []string{"kept"}, names(false))
	equal(t, "the trash", []string{"r"}, names(true))
	_, err := h.c.FindRun(h.ctx(), "team", "project", "r")
	h.wantCode("FindRun", err, model.CodeNotFound)
	if o := h.must(request(1)); o.Run != run || !o.Deleted {
		t.Errorf("a writer of the run in the trash: %+v", o)
	}
	h.refused(request(4), model.CodeRunDeleted)
	h.refused(request(5, job("other")), model.CodeRunExists)
	h.refused(request(5, job("other"), allow), model.CodeRunExists)
	if o := h.must(request(6, job("other"), offline)); o.RunName != "r-2" {
		t.Errorf("offline beside the trash: %+v", o)
	}
	h.check("Restore", h.c.Restore(h.ctx(), run))
	if o := h.must(request(4)); o.Run != run || o.Deleted {
		t.Errorf("after the restore: %+v", o)
	}
	h.check("Trash", h.c.Trash(h.ctx(), run, at(2000)))
	due, err := h.c.TrashedBefore(h.ctx(), at(2001))
	h.check("TrashedBefore", err)
	equal(t, "due", []model.RunID{run}, due)
	if early, err := h.c.TrashedBefore(h.ctx(), at(1999)); err != nil || len(early) > 0 {
		t.Errorf("due too early: %v, %v", early, err)
	}
	h.purged(run)
	if d := h.detail(kept); d.Name != "kept" {
		t.Errorf("the other run: %+v", d.Run)
	}
}

func (h *harness) purged(run model.RunID) {
	h.t.Helper()
	h.check("Purge", h.c.Purge(h.ctx(), run))
	h.check("Purge again", h.c.Purge(h.ctx(), run))
	_, err := h.c.GetRun(h.ctx(), run)
	if code := model.CodeOf(err); code != model.CodeNotFound && code != model.CodeRunDeleted {
		h.t.Errorf("GetRun of a purged run: %v", err)
	}
	_, err = h.c.Lookup(h.ctx(), local(2))
	h.wantCode("Lookup of a purged run", err, model.CodeRunDeleted)
	_, err = h.c.Lookup(h.ctx(), model.RunID{9, 9})
	h.wantCode("Lookup of nobody", err, model.CodeNotFound)
	h.wantCode("Trash of nobody", h.c.Trash(h.ctx(), model.RunID{9, 9}, at(1)), model.CodeNotFound)
	h.refused(request(1), model.CodeRunDeleted) // a writer of it
	h.refused(request(7), model.CodeRunDeleted) // a late spool of its job
	late := h.lateOpen(request(7, opened(2600)))
	if !late.Created || late.Run == run {
		h.t.Errorf("the same job after the deletion: %+v", late)
	}
	for _, id := range []model.RunID{run, local(2)} {
		if _, err := h.c.GetRun(h.ctx(), id); err == nil {
			h.t.Error("a reserved id leads to another run")
		}
	}
}

func (h *harness) lateOpen(r model.OpenRequest) *catalog.Opened {
	h.t.Helper()
	o, err := h.c.Open(h.ctx(), r, at(3000))
	h.check("Open", err)
	return o
}

// testWorkers: the process that opened the run says how it ended, not those it started.
func testWorkers(t *testing.T, open Opener) {
	for _, c := range []struct {
		opener, worker string
		want           model.RunStatus
	}{
		{"finished", "gone", model.StatusFinished},
		{"finished", "failed", model.StatusFinished},
		{"failed", "finished", model.StatusFailed},
		{"gone", "finished", model.StatusLost},
		{"finished", "SIGTERM", model.StatusFinished},
		{"SIGTERM", "finished", model.StatusInterrupted},
		{"", "gone", model.StatusRunning},
		{"finished", "", model.StatusRunning},
	} {
		h := newHarness(t, open)
		run := h.must(request(1)).Run
		h.must(request(2, child(1)))
		end := func(n int, how string) {
			switch how {
			case "":
			case "gone":
				h.apply(run, n, model.Update{Op: model.OpGone})
			case "SIGTERM":
				h.apply(run, n, model.Update{Op: model.OpGone, Signal: how})
			default:
				h.apply(run, n, closeWith(model.RunStatus(how)))
			}
		}
		end(1, c.opener)
		end(2, c.worker)
		d := h.detail(run)
		if d.Status != c.want {
			t.Errorf("opener %q, worker %q: %s, want %s", c.opener, c.worker, d.Status, c.want)
		}
		for _, w := range d.Writers {
			if worker := strings.HasPrefix(w.SDK, model.WorkerSDK); worker != (w.ID == writer(2)) {
				t.Errorf("writer %s is %q", w.ID, w.SDK)
			}
			if w.ID == writer(2) && c.worker == "gone" && w.State != model.WriterGone {
				t.Errorf("the worker that is gone is %s", w.State)
			}
		}
	}
	// Of workers alone, whose opener was never delivered, nobody says how the run ended.
	h := newHarness(t, open)
	run := h.must(request(2, child(1))).Run
	h.apply(run, 2, model.Update{Op: model.OpGone})
	if got := h.detail(run).Status; got != model.StatusLost {
		t.Errorf("with a worker alone, gone: %s", got)
	}
	// A silent worker that lives again.
	h = newHarness(t, open)
	run = h.must(request(1)).Run
	h.must(request(2, child(1)))
	h.apply(run, 1, closeWith(model.StatusFinished))
	_, err := h.c.Expire(h.ctx(), at(5000))
	h.check("Expire", err)
	if got := h.detail(run).Status; got != model.StatusFinished {
		t.Errorf("with a silent worker: %s", got)
	}
	_, err = h.c.Seen(h.ctx(), map[model.WriterID]time.Time{writer(2): at(6000)})
	h.check("Seen", err)
	if got := h.detail(run).Status; got != model.StatusRunning {
		t.Errorf("with a worker that lives again: %s", got)
	}
}

// testObservers: a writer that watches the machine neither keeps a run running
// nor makes it lost, and the next life is a new attempt while it is open.
func testObservers(t *testing.T, open Opener) {
	h := newHarness(t, open)
	observer := func(r *model.OpenRequest) { r.SDK = model.ObserverSDK + "1" }
	run := h.must(request(1)).Run
	if o := h.must(request(2, observer, child(1))); o.Run != run || o.Attempt != 1 {
		t.Fatalf("the observer joined run %s, attempt %d", o.Run, o.Attempt)
	}
	h.apply(run, 1, model.Update{Op: model.OpClose, Text: string(model.StatusFinished)})
	if got := h.detail(run).Status; got != model.StatusFinished {
		t.Errorf("with the observer open the run is %s", got)
	}
	h.apply(run, 2, model.Update{Op: model.OpGone})
	if got := h.detail(run).Status; got != model.StatusFinished {
		t.Errorf("with the observer gone the run is %s", got)
	}
	h.must(request(3, observer, child(1)))
	if o := h.must(request(4)); o.Attempt != 2 {
		t.Errorf("the next life joined attempt %d", o.Attempt)
	}
}
