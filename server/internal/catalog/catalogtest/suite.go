// Package catalogtest is the suite that every catalog passes: package catalog's
// contract and the rules of opening (docs/design/points.md), checked against
// tables and naive models that live here.
package catalogtest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// Opener opens the catalog that lies in a folder; it is called again on the same
// folder to look at what is durable.
type Opener func(t testing.TB, dir string) catalog.Catalog

// Test runs the suite.
func Test(t *testing.T, open Opener) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, open Opener)
	}{
		{"Identity", testIdentity},
		{"BadOpens", testBadOpens},
		{"Attempts", testAttempts},
		{"Precedence", testPrecedence},
		{"OpeningRules", testOpeningRules},
		{"Initial", testInitial},
		{"Forks", testForks},
		{"ConfigOfOfflineRanks", testConfigOfOfflineRanks},
		{"OthersOfOfflineRanks", testOthersOfOfflineRanks},
		{"AttemptsOfOfflineRanks", testAttemptsOfOfflineRanks},
		{"Updates", testUpdates},
		{"AppliedOnce", testAppliedOnce},
		{"Status", testStatus},
		{"Observers", testObservers},
		{"Workers", testWorkers},
		{"Silence", testSilence},
		{"LastTime", testLastTime},
		{"WithoutEnd", testWithoutEnd},
		{"Renderings", testRenderings},
		{"Trees", testTrees},
		{"Files", testFiles},
		{"FilePages", testFilePages},
		{"Trash", testTrash},
		{"Retention", testRetention},
		{"Recovery", testRecovery},
		{"Return", testReturn},
		{"Lists", testLists},
		{"ForgedCursors", testForgedCursors},
		{"LongTags", testLongTags},
		{"LongTexts", testLongTexts},
		{"LongLists", testLongLists},
		{"ListModel", testListModel},
		{"Filters", testFilters},
		{"Summaries", testSummaries},
		{"Columns", testColumns},
		{"Names", testNames},
		{"ShownNewest", testShownNewest},
		{"Projects", testProjects},
		{"Views", testViews},
		{"Artifacts", testArtifacts},
		{"Manifests", testManifests},
		{"Keys", testKeys},
		{"Damage", testDamage},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open) })
	}
}

// start is the suite's time zero.
var start = time.Unix(1_700_000_000, 0)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

func atNs(seconds int) int64 { return at(seconds).UnixNano() }

// writer and local make ids from numbers.
func writer(n int) (id model.WriterID) {
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return id
}

func local(n int) (id model.RunID) {
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return id
}

// request is an open of writer n for run "r" of job "job".
func request(n int, change ...func(*model.OpenRequest)) model.OpenRequest {
	r := model.OpenRequest{
		Writer: writer(n), Workspace: "team", Project: "project", RunName: "r", LocalRun: local(n),
		OrchestrationID: "job", ResumeStrategy: model.ResumeNever, Host: "host", PID: int64(n), OpenedNs: atNs(n), SDK: "test/1",
	}
	for _, f := range change {
		f(&r)
	}
	return r
}

func named(name string) func(*model.OpenRequest) {
	return func(r *model.OpenRequest) { r.RunName = name }
}

func job(id string) func(*model.OpenRequest) {
	return func(r *model.OpenRequest) { r.OrchestrationID = id }
}
func offline(r *model.OpenRequest) { r.Offline = true }
func allow(r *model.OpenRequest)   { r.ResumeStrategy = model.ResumeAllow }
func opened(seconds int) func(*model.OpenRequest) {
	return func(r *model.OpenRequest) { r.OpenedNs = atNs(seconds) }
}

func ranked(n int64) func(*model.OpenRequest) {
	return func(r *model.OpenRequest) { r.Rank = &n }
}

func restart(n int64) func(*model.OpenRequest) {
	return func(r *model.OpenRequest) { r.RestartCount = &n }
}

func child(of int) func(*model.OpenRequest) {
	return func(r *model.OpenRequest) { id := writer(of); r.ParentAttempt = &id }
}

func resume(step int64) func(*model.OpenRequest) {
	return func(r *model.OpenRequest) { r.ResumeFromStep = &step }
}

// reporter is what testing.T and rapid.T have in common.
type reporter interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// harness drives one catalog.
type harness struct {
	t   reporter
	c   catalog.Catalog
	lsn uint64

	// Rounds of a random test share a catalog, each with a project and ids.
	project string
	base    int
}

// round is a fresh start in the same catalog.
func (h *harness) round(t reporter) *harness {
	h.base += 100
	h.project = fmt.Sprint("project-", h.base)
	return &harness{t: t, c: h.c, project: h.project, base: h.base}
}

func (h *harness) inProject(r *model.OpenRequest) { r.Project = h.project }

func newHarness(t testing.TB, open Opener) *harness {
	c := open(t, t.TempDir())
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return &harness{t: t, c: c, project: "project"}
}

func (h *harness) ctx() context.Context { return context.Background() }

// must opens at a time late enough for every OpenedNs.
func (h *harness) must(r model.OpenRequest) *catalog.Opened {
	h.t.Helper()
	o, err := h.c.Open(h.ctx(), r, at(1000))
	if err != nil {
		h.t.Fatalf("Open %s as %s: %v", r.RunName, r.OrchestrationID, err)
	}
	return o
}

func (h *harness) refused(r model.OpenRequest, code model.Code) {
	h.t.Helper()
	_, err := h.c.Open(h.ctx(), r, at(1000))
	if got := model.CodeOf(err); got != code {
		h.t.Errorf("Open %q as %q: %v, want %s", r.RunName, r.OrchestrationID, err, code)
	}
}

// apply applies updates under the next LSN.
func (h *harness) apply(run model.RunID, n int, updates ...model.Update) {
	h.t.Helper()
	h.lsn++
	if err := h.c.Apply(h.ctx(), run, writer(n), h.lsn, updates, at(1000)); err != nil {
		h.t.Fatalf("Apply: %v", err)
	}
}

func (h *harness) detail(id model.RunID) *catalog.Detail {
	h.t.Helper()
	d, err := h.c.GetRun(h.ctx(), id)
	if err != nil {
		h.t.Fatalf("GetRun %s: %v", id, err)
	}
	return d
}

func (h *harness) check(act string, err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatalf("%s: %v", act, err)
	}
}

func (h *harness) wantCode(act string, err error, code model.Code) {
	h.t.Helper()
	if model.CodeOf(err) != code {
		h.t.Errorf("%s: %v, want %s", act, err, code)
	}
}

// equal compares; nil and empty are the same.
func equal(t reporter, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func closeWith(status model.RunStatus) model.Update {
	return model.Update{Op: model.OpClose, Text: string(status)}
}

func testKeys(t *testing.T, open Opener) {
	h := newHarness(t, open)
	k := catalog.Key{
		ID: "k1", Name: "laptop", SHA256: sha256.Sum256([]byte("a")), Scopes: []catalog.Scope{catalog.ScopeIngest, catalog.ScopeRead},
		Workspace: "team", Project: "project", CreatedNs: 5, ExpiresNs: 9,
	}
	h.check("PutKey", h.c.PutKey(h.ctx(), k))
	other := catalog.Key{ID: "k2", SHA256: sha256.Sum256([]byte("b")), Scopes: []catalog.Scope{catalog.ScopeAdmin}, CreatedNs: 6}
	h.check("PutKey", h.c.PutKey(h.ctx(), other))
	h.check("UseKey", h.c.UseKey(h.ctx(), "k1", at(1)))
	h.check("UseKey", h.c.UseKey(h.ctx(), "k1", at(0)))
	h.check("RevokeKey", h.c.RevokeKey(h.ctx(), "k1", at(2)))
	h.check("RevokeKey", h.c.RevokeKey(h.ctx(), "k1", at(3)))
	k.LastNs, k.RevokedNs = atNs(1), atNs(2)
	got, err := h.c.FindKey(h.ctx(), k.SHA256)
	h.check("FindKey", err)
	equal(t, "FindKey", &k, got)
	keys, err := h.c.ListKeys(h.ctx())
	h.check("ListKeys", err)
	equal(t, "ListKeys", []catalog.Key{k, other}, keys)
	_, err = h.c.FindKey(h.ctx(), sha256.Sum256(nil))
	h.wantCode("FindKey of nobody", err, model.CodeNotFound)
	h.wantCode("RevokeKey of nobody", h.c.RevokeKey(h.ctx(), "k9", at(1)), model.CodeNotFound)
}

func testProjects(t *testing.T, open Opener) {
	h := newHarness(t, open)
	n := 0
	for _, place := range [][2]string{{"b", "x"}, {"a", "z"}, {"a", "y"}, {"a", "y"}} {
		n++
		r := request(n, job("j"+place[0]+place[1]), named("run-"+string(rune('0'+n))))
		r.Workspace, r.Project = place[0], place[1]
		h.must(r)
	}
	var got []string
	for cursor := ""; ; {
		page, next, err := h.c.ListProjects(h.ctx(), 2, cursor)
		h.check("ListProjects", err)
		for _, p := range page {
			got = append(got, p.Workspace+"/"+p.Name)
			if want := map[bool]int{true: 2, false: 1}[p.Name == "y"]; p.Runs != want || p.LastNs != atNs(1000) {
				t.Errorf("%s/%s: %+v, want %d runs", p.Workspace, p.Name, p, want)
			}
		}
		if cursor = next; next == "" {
			break
		}
	}
	equal(t, "projects", []string{"a/y", "a/z", "b/x"}, got)
	for _, place := range [][2]string{{"a", "y"}, {"b", "x"}, {"a", "x"}, {"c", "x"}} {
		there, err := h.c.HasProject(h.ctx(), place[0], place[1])
		h.check("HasProject", err)
		equal(t, "there is "+place[0]+"/"+place[1], slices.Contains(got, place[0]+"/"+place[1]), there)
	}
	_, _, err := h.c.ListProjects(h.ctx(), 2, "no cursor")
	h.wantCode("a bad cursor", err, model.CodeInvalid)
}
