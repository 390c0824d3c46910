package spool

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
)

func TestEnded(t *testing.T) {
	f := testFolder(t)
	begin := func(n byte, run, job string, over bool) {
		t.Helper()
		w, err := Create(f, "http://127.0.0.1:7070", model.OpenRequest{
			Writer: model.WriterID{n}, Workspace: "w", Project: "p", RunName: run, OrchestrationID: job, OpenedNs: int64(n),
		}, WriterOptions{Cap: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		if over {
			w.Close()
			return
		}
		t.Cleanup(func() { w.Close() })
	}
	begin(1, "r", "job", true)
	begin(2, "other run", "job", true)
	begin(3, "r", "other job", true)
	begin(4, "other run", "other job", true)
	begin(5, "r", "job", false)
	const odd = `ä "<&'\` // written in more than one way in JSON
	begin(6, odd, "third job", true)
	if err := os.MkdirAll(filepath.Join(f.writersPath(), model.WriterID{9}.String()), 0o700); err != nil {
		t.Fatal(err) // a folder that lost its open.json
	}
	got := f.Ended(&model.OpenRequest{Workspace: "w", Project: "p", RunName: "r", OrchestrationID: "job"})
	if diff := cmp.Diff([]model.WriterID{{3}, {2}, {1}}, got); diff != "" {
		t.Error(diff)
	}
	if got := f.Ended(&model.OpenRequest{Workspace: "w", Project: "q", RunName: "r", OrchestrationID: "job"}); got != nil {
		t.Errorf("of another project: %v", got)
	}
	if got := f.Ended(&model.OpenRequest{Workspace: "w", Project: "p", RunName: odd, OrchestrationID: "fourth job"}); len(got) != 1 || got[0] != (model.WriterID{6}) {
		t.Errorf("of a name with odd characters: %v", got)
	}
}

// names are all names of the index, without folders.
func names(t *testing.T, f *Folder) (out []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(f.jobsPath(), "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		out = append(out, filepath.Base(file))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func opening(n byte, run string) model.OpenRequest {
	return model.OpenRequest{Writer: model.WriterID{n}, Workspace: "w", Project: "p", RunName: run, OrchestrationID: "job-" + run, OpenedNs: int64(n)}
}

// over makes a writer whose process is gone.
func over(t *testing.T, f *Folder, r model.OpenRequest) {
	t.Helper()
	w, err := Create(f, "http://127.0.0.1:7070", r, WriterOptions{Cap: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w.Status().Close()
}

// Whatever a kill leaves between the steps of making, listing and removing a
// writer, the index names each writer of the folder.
func TestIndexAfterKills(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, f *Folder){
		"no index: programs before it": func(t *testing.T, f *Folder) {
			if err := os.RemoveAll(f.jobsPath()); err != nil {
				t.Fatal(err)
			}
		},
		"half an index": func(t *testing.T, f *Folder) {
			if err := os.Remove(filepath.Join(f.jobsPath(), whole)); err != nil {
				t.Fatal(err)
			}
			f.unlist(new(opening(1, "r")))
		},
		"listed, and no folder yet": func(t *testing.T, f *Folder) {
			if err := f.List(new(opening(9, "r"))); err != nil {
				t.Fatal(err)
			}
		},
		"removed, and listed still": func(t *testing.T, f *Folder) {
			over(t, f, opening(8, "r"))
			if err := os.RemoveAll(f.WriterPath(model.WriterID{8})); err != nil {
				t.Fatal(err)
			}
		},
		"a name that means nothing": func(t *testing.T, f *Folder) {
			if err := touchIn(f.lists(new(opening(1, "r")))[0], "odd"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := testFolder(t)
			over(t, f, opening(1, "r"))
			over(t, f, opening(2, "other"))
			f.Ended(new(opening(3, "r"))) // the index is whole
			leave(t, f)
			if got := f.Ended(new(opening(3, "r"))); !slices.Equal(got, []model.WriterID{{1}}) {
				t.Errorf("ended of r: %v", got)
			}
			if got := f.Ended(new(opening(3, "other"))); !slices.Equal(got, []model.WriterID{{2}}) {
				t.Errorf("ended of other: %v", got)
			}
		})
	}
}

// What is gone leaves nothing behind, and what is young stays.
func TestIndexIsSwept(t *testing.T) {
	f := testFolder(t)
	for n, run := range []string{"a", "b", "c", "d"} {
		over(t, f, opening(byte(n+1), run))
	}
	want := func(when string, left ...string) {
		t.Helper()
		if diff := cmp.Diff(left, names(t, f)); diff != "" {
			t.Errorf("%s: %s", when, diff)
		}
	}
	name := func(n byte) string { return listName(new(opening(n, ""))) }
	want("made", name(1), name(2), name(3), name(4))
	if err := f.Remove(model.WriterID{1}); err != nil {
		t.Fatal(err)
	}
	want("removed", name(2), name(3), name(4))
	for n, run := range map[byte]string{2: "b", 3: "c"} { // by a program before the index
		if err := os.RemoveAll(f.WriterPath(model.WriterID{n})); err != nil {
			t.Fatal(err)
		}
		if n == 2 {
			old := time.Now().Add(-2 * time.Hour)
			for _, dir := range f.lists(new(opening(n, run))) {
				if err := os.Chtimes(filepath.Join(dir, name(n)), old, old); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := f.Sweep(time.Now()); err != nil {
		t.Fatal(err)
	}
	want("swept", name(3), name(4))
	dirs, err := os.ReadDir(f.jobsPath())
	if err != nil || len(dirs) != 4 {
		t.Errorf("%d folders, %v", len(dirs), err)
	}
}

// A job of thousands keeps the newest of those that are over, and all that live.
func TestIndexOfAJobIsBounded(t *testing.T) {
	f := testFolder(t)
	r := opening(0, "r")
	old := r
	old.Writer, old.OpenedNs = model.WriterID{0xff}, 1
	w, err := Create(f, "http://127.0.0.1:7070", old, WriterOptions{Cap: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxNames + 10 {
		r.Writer, r.OpenedNs = model.WriterID{1, byte(i >> 8), byte(i)}, int64(i+2)
		dir := f.WriterPath(r.Writer)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := writeOpen(dir, Open{Format: formatVersion, Open: r}); err != nil {
			t.Fatal(err)
		}
		if err := f.List(&r); err != nil {
			t.Fatal(err)
		}
	}
	var want []model.WriterID
	for i := range model.MaxEnded {
		n := maxNames + 9 - i
		want = append(want, model.WriterID{1, byte(n >> 8), byte(n)})
	}
	for range 2 {
		if diff := cmp.Diff(want, f.Ended(&r)); diff != "" {
			t.Error(diff)
		}
	}
	left := names(t, f)
	if len(left) != maxNames/2+1 || left[0] != listName(&old) {
		t.Errorf("%d names, the first %s", len(left), left[0])
	}
	w.Close()
	if got := f.Ended(&old); slices.Contains(got, old.Writer) {
		t.Error("the oldest is among the newest")
	}
}

// Both languages name a run's writers alike.
func TestIndexNames(t *testing.T) {
	r := model.OpenRequest{Writer: model.WriterID{0xab, 0xcd}, OpenedNs: 1_700_000_000_000_000_000}
	if got := JobFolder("w", "p", "ä run") + "/" + listName(&r); got != "4691e0a7/17979cfe362a0000-abcd0000000000000000000000000000" {
		t.Error(got)
	}
}

// The kept count never says less than what one writer made of it, and is made anew
// near the cap, after a minute, and where it cannot be read.
func TestUsageIsCounted(t *testing.T) {
	f := testFolder(t)
	over(t, f, opening(1, "r"))
	exact, err := f.Used()
	if err != nil || exact < firstSegment {
		t.Fatal(exact, err)
	}
	kept := filepath.Join(f.Path, usedFile)
	keep := func(used int64) {
		t.Helper()
		if err := os.WriteFile(kept, fmt.Appendf(nil, "%d %d\n", used, 0), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	u := usage{folder: f}
	fits := func(when string, room, limit, used int64, want bool) {
		t.Helper()
		if got, ok, err := u.fits(room, limit); got != used || ok != want || err != nil {
			t.Errorf("%s: %d, %v, %v, want %d, %v", when, got, ok, err, used, want)
		}
	}
	fits("never counted", 1000, 1<<30, exact, true)
	keep(7)
	fits("as counted", 1000, 1<<30, 7, true)
	u.added = 1 << 20
	fits("with its own", 1000, 1<<30, 7+1<<20, true)
	keep(7) // by another, later: another time of change
	if err := os.Chtimes(kept, time.Now(), time.Now().Add(-30*time.Second)); err != nil {
		t.Fatal(err)
	}
	fits("with the next count's", 1000, 1<<30, 7, true)
	keep(exact - 1)
	fits("near the cap", 1000, exact+1000, exact, true)
	keep(exact - 1)
	fits("past the cap", 1000, exact+999, exact, false)
	keep(7)
	if err := os.Chtimes(kept, time.Now(), time.Now().Add(-2*time.Minute)); err != nil {
		t.Fatal(err)
	}
	fits("an old count", 1000, 1<<30, exact, true)
	if err := os.WriteFile(kept, []byte("odd"), 0o600); err != nil {
		t.Fatal(err)
	}
	fits("a damaged count", 1000, 1<<30, exact, true)
}

// A folder that another removes just then is made again; a file in its place is an error.
func TestListingMeetsRemoval(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs")
	var writers sync.WaitGroup
	for i := range 8 {
		name := fmt.Sprint(i)
		writers.Go(func() {
			for range 5_000 {
				if err := touchIn(dir, name); err != nil {
					t.Error(err)
					return
				}
				_ = os.Remove(filepath.Join(dir, name))
				_ = os.Remove(dir) // unless another is in it
			}
		})
	}
	writers.Wait()
	_ = os.RemoveAll(dir) // it may be gone
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := touchIn(dir, "w"); err == nil {
		t.Error("a file in the place of the folder is taken for one")
	}
}
