package tables

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// withTrees fills a project with runs that have two trees each.
func withTrees(t testing.TB, runs, bytes int) *DB {
	t.Helper()
	db := OpenSQLite(t)
	text := `{"a":"` + strings.Repeat("x", bytes-8) + `"}`
	for i := range runs {
		w := model.WriterID{byte(i), byte(i >> 8), byte(i >> 16), 1}
		name := fmt.Sprintf("run%d", i)
		o, err := db.Open(t.Context(), model.OpenRequest{Writer: w, LocalRun: model.RunID(w), Workspace: "team", Project: "p", RunName: name, OrchestrationID: name}, time.Unix(int64(i), 0))
		if err != nil {
			t.Fatal(err)
		}
		updates := []model.Update{{Op: model.OpSetTree, Path: "wandb/config", Text: text}, {Op: model.OpSetTree, Path: "wandb/summary", Text: text}}
		if err := db.Apply(t.Context(), o.Run, w, uint64(i+1), updates, time.Unix(int64(i), 0)); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// TestPagesOfTrees: pages end by their number and by their bytes, and miss no run.
func TestPagesOfTrees(t *testing.T) {
	for _, c := range []struct{ runs, bytes int }{{treesPage, 10}, {treesPage + 1, 10}, {2*treesPage + 7, 10}, {7, treesBytes / 4}, {3, model.MaxTreeBytes}} {
		db := withTrees(t, c.runs, c.bytes)
		seen := map[model.RunID]bool{}
		for run, err := range db.RunsWithTrees(t.Context(), catalog.TreeQuery{Workspace: "team", Project: "p", Names: []string{"wandb/summary"}}) {
			if err != nil || len(run.Texts[0]) != c.bytes {
				t.Fatalf("%d bytes, %v", len(run.Texts[0]), err)
			}
			seen[run.ID] = true
		}
		if len(seen) != c.runs {
			t.Errorf("%d of %d runs", len(seen), c.runs)
		}
	}
}

// TestLongDescriptionsEndPages: what is read besides the texts is bounded, too.
func TestLongDescriptionsEndPages(t *testing.T) {
	db := withTrees(t, 3, 10)
	var ids []model.RunID
	for run, err := range db.RunsWithTrees(t.Context(), catalog.TreeQuery{Workspace: "team", Project: "p"}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, run.ID)
	}
	for i, id := range ids {
		update := model.Update{Op: model.OpSetDescription, Text: strings.Repeat("x", treesBytes+i)}
		if err := db.Apply(t.Context(), id, model.WriterID{}, 0, []model.Update{update}, time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	seen := 0
	for run, err := range db.RunsWithTrees(t.Context(), catalog.TreeQuery{Workspace: "team", Project: "p", Names: []string{"wandb/config"}}) {
		if err != nil || len(run.Description) != treesBytes+seen || len(run.Texts[0]) != 10 {
			t.Fatal(len(run.Description), run.Texts, err)
		}
		seen++
	}
	if seen != len(ids) {
		t.Errorf("%d of %d runs", seen, len(ids))
	}
}

// TestKeptTexts: a full cache changes nothing of what is read, and stays as small as it is told to.
func TestKeptTexts(t *testing.T) {
	db := withTrees(t, 300, 1000)
	names := []string{"wandb/config", "none", "wandb/summary"}
	for _, most := range []int64{0, 50_000, 1 << 30} {
		db.trees = newTreeCache(most)
		for range 3 {
			n := 0
			for run, err := range db.RunsWithTrees(t.Context(), catalog.TreeQuery{Workspace: "team", Project: "p", Names: names}) {
				if n++; err != nil || len(run.Texts[0]) != 1000 || run.Texts[1] != "" || run.Texts[2] != run.Texts[0] {
					t.Fatalf("%q, %v", run.Texts, err)
				}
			}
			sum := int64(0)
			for _, kept := range db.trees.texts {
				sum += int64(len(kept.text))*3/2 + treeEntry
			}
			if n != 300 || sum != db.trees.bytes || sum > most || most > 1<<20 && len(db.trees.texts) != 600 {
				t.Fatalf("%d runs; %d texts of %d bytes, counted as %d, are kept", n, len(db.trees.texts), sum, db.trees.bytes)
			}
		}
	}
}

// TestTreesAtOnce reads side by side while texts change, with a cache that is too small: each
// run has a text of its own.
func TestTreesAtOnce(t *testing.T) {
	db := withTrees(t, 20, 100)
	db.trees = newTreeCache(1000)
	var ids []model.RunID
	for run := range db.RunsWithTrees(t.Context(), catalog.TreeQuery{Workspace: "team", Project: "p"}) {
		ids = append(ids, run.ID)
	}
	set := func(i int, text string) {
		update := model.Update{Op: model.OpSetTree, Path: "own", Text: text}
		if err := db.Apply(t.Context(), ids[i], model.WriterID{}, 0, []model.Update{update}, time.Unix(1, 0)); err != nil {
			t.Error(err)
		}
	}
	for i := range ids {
		set(i, ids[i].String())
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 20 {
				for run, err := range db.RunsWithTrees(t.Context(), catalog.TreeQuery{Workspace: "team", Project: "p", Names: []string{"own"}}) {
					if err != nil || !strings.HasPrefix(run.Texts[0], run.ID.String()) {
						t.Errorf("run %s has %q, %v", run.ID, run.Texts, err)
						return
					}
				}
			}
		})
	}
	for i := range 60 {
		set(i%20, ids[i%20].String()+strings.Repeat("x", i))
	}
	group.Wait()
}

func TestTreesAreReadAlongTheAges(t *testing.T) {
	db := withTrees(t, 1, 10)
	for _, newest := range []bool{false, true} {
		got := plan(t, db, db.treeQuery(&catalog.TreeQuery{Names: []string{"a", "b"}, Newest: newest}), "a", "b", "team", "p", 0, 0, 10)
		if strings.Contains(got, "TEMP B-TREE") || strings.Contains(got, "SCAN") || !strings.Contains(got, "(project=? AND (created_ns,pk)") && !strings.Contains(got, "(project=? AND created_ns") {
			t.Errorf("newest %v:\n%s", newest, got)
		}
		if strings.Count(got, "COVERING INDEX trees_version") != 2 {
			t.Errorf("texts are read before it is known that they are wanted:\n%s", got)
		}
	}
}

func TestTreesOfNamedRunsAreReadByTheirIDs(t *testing.T) {
	db := withTrees(t, 1, 10)
	got := plan(t, db, db.treeQuery(&catalog.TreeQuery{Names: []string{"a"}, IDs: []model.RunID{{1}}}), `["01"]`, "a", "team", "p", 10)
	if strings.Contains(got, "TEMP B-TREE") || strings.Contains(got, "SCAN r") || !strings.Contains(got, "(id=?)") {
		t.Error(got)
	}
}

// used is the processor time of this process.
func used(t testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkRunsWithTrees(b *testing.B) {
	db := withTrees(b, 10_000, 2_000)
	for _, names := range [][]string{nil, {"wandb/summary"}, {"wandb/config", "wandb/summary"}} {
		b.Run(fmt.Sprintf("trees=%d", len(names)), func(b *testing.B) {
			b.ReportAllocs()
			before := used(b)
			for b.Loop() {
				n := 0
				for run, err := range db.RunsWithTrees(b.Context(), catalog.TreeQuery{Workspace: "team", Project: "p", Newest: true, Names: names}) {
					if n++; err != nil || run.Name == "" {
						b.Fatal(err)
					}
				}
				if n != 10_000 {
					b.Fatal(n)
				}
			}
			b.ReportMetric(float64((used(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}
