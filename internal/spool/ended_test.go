package spool

import (
	"os"
	"path/filepath"
	"testing"

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
