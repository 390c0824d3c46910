package postgres_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	server "github.com/kymogram/kymogram/internal/testkit/postgres"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// TestTextsAreSentOnce: long texts of runs that are read page by page come over the network
// once, whatever a page ends at.
func TestTextsAreSentOnce(t *testing.T) {
	through, seen := counted(t, server.Any(t).URL(t))
	db := openAt(t, through)
	const runs, size = 13, 1 << 20
	for i := range runs {
		update := model.Update{Op: model.OpSetTree, Path: "a", Text: strings.Repeat(string(rune('a'+i)), size)}
		other := model.Update{Op: model.OpSetTree, Path: "b", Text: strings.Repeat("\x00", i)}
		if _, err := db.Open(t.Context(), model.OpenRequest{Writer: model.WriterID{byte(i + 1)}, Workspace: "w", Project: "p", RunName: fmt.Sprint("run", i), Initial: []model.Update{update, other}}, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	before, at := seen.bytes.Load(), 0
	for run, err := range db.RunsWithTrees(t.Context(), catalog.TreeQuery{Workspace: "w", Project: "p", Names: []string{"a", "b"}}) {
		if err != nil || run.Texts[0] != strings.Repeat(string(rune('a'+at)), size) || run.Texts[1] != strings.Repeat("\x00", at) {
			t.Fatalf("run %d: %d and %d bytes, %v", at, len(run.Texts[0]), len(run.Texts[1]), err)
		}
		at++
	}
	if sent := seen.bytes.Load() - before; at != runs || sent > (runs+1)*size {
		t.Errorf("%d runs; %d bytes were sent for %d", at, sent, runs*size)
	}
}
