//go:build e2e

package e2e

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/kymogram/kymogram"
	"github.com/kymogram/kymogram/test/rig"
)

// Random values of a run: about 7 bytes each.
const retained = 500_000

// Runs leave a real server by their age and by their size, the oldest first; those
// with the tag keep stay, whatever it costs, and the bytes come back.
func TestRetentionOfARealServer(t *testing.T) {
	r := rig.New(t)
	server := r.Serve(t)
	long := []string{"first", "second", "third", "fourth"}
	for _, run := range long {
		logRandom(t, r, server, run, retained)
	}
	logRandom(t, r, server, "old", 1000)
	logRandom(t, r, server, "old but kept", 1000, "keep")
	server.Stop(t)
	before := segmentBytes(t, server.Data)
	if before < 4*retained*6 {
		t.Fatalf("%d bytes of segments for %d random values", before, 4*retained)
	}
	age(t, server.Data, "old", "old but kept")

	const limit = 2*retained*8 + retained*4 // two runs, not three
	server.Restart(t, "--retention-age", "2h", "--retention-bytes", strconv.Itoa(limit))
	c := server.Client(t)
	names := func() (names []string) {
		for _, run := range c.Runs(t, "default/retention") {
			names = append(names, run.Name)
		}
		slices.Sort(names)
		return names
	}
	want := []string{"fourth", "old but kept", "third"}
	// A run is counted behind its deletion.
	rig.Eventually(t, 20*time.Second, "retention deletes runs", func() bool {
		return c.Metric(t, "kymogram_retention_age_runs_total") == 1 && c.Metric(t, "kymogram_retention_size_runs_total") == 2
	})
	if got := names(); !slices.Equal(got, want) {
		t.Fatalf("there are %q, want %q", got, want)
	}
	if live := c.Metric(t, "kymogram_store_live_bytes"); live > limit || live < 2*retained*6 {
		t.Errorf("%v live bytes, the limit is %d", live, limit)
	}
	for run, n := range map[string]int{"third": retained, "fourth": retained, "old but kept": 1000} {
		if list := c.Series(t, c.Run(t, "default/retention", run).ID); len(list) != 1 || list[0].Count != n {
			t.Errorf("%s has %+v, want %d points", run, list, n)
		}
	}
	// The background frees them by itself: more than a fifth is deleted.
	rig.Eventually(t, 60*time.Second, "the bytes are free", func() bool { return segmentBytes(t, server.Data) < before*6/10 })
	server.Stop(t)
	server.Restart(t)
	if got := names(); !slices.Equal(got, want) {
		t.Errorf("after another start there are %q, want %q", got, want)
	}
}

func logRandom(t *testing.T, r *rig.Rig, server *rig.Server, name string, n int, tags ...string) {
	t.Helper()
	run, err := kymogram.Init(t.Context(), kymogram.Options{
		Server: server.Address, APIKey: server.Key(t), SpoolDir: filepath.Join(r.Dir, "spool of "+name), Project: "retention", RunName: name,
		Tags: tags, NoSystemMetrics: true, CloseTimeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(uint64(n), uint64(len(name))))
	for range n {
		run.Log("noise", random.Float64())
	}
	r.Closed(t, run.Close(context.WithoutCancel(t.Context())))
}

// age sets a stopped server's last sign of life of runs back by three hours.
func age(t *testing.T, data string, runs ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(data, "catalog.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, run := range runs {
		done, err := db.Exec(`UPDATE runs SET seen_ns = seen_ns - ? WHERE name = ?`, 3*time.Hour, run)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := done.RowsAffected(); err != nil || n != 1 {
			t.Fatal(fmt.Errorf("%d runs %q, %w", n, run, err))
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	seal(t, filepath.Join(data, "catalog.db"))
}

// seal writes the checksums that SQLite alone does not, after docs/format/catalog.md,
// and removes the mirror, which does not know of the edit: the server makes it anew.
func seal(t *testing.T, catalog string) {
	t.Helper()
	b, err := os.ReadFile(catalog)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(b); at += 4096 {
		page := b[at : at+4096]
		binary.LittleEndian.PutUint32(page[4092:], uint32(at/4096+1))
		covered := append(slices.Clone(page[:4088]), page[4092:]...)
		binary.LittleEndian.PutUint32(page[4088:], crc32.Checksum(covered, crc32.MakeTable(crc32.Castagnoli)))
	}
	if err := errors.Join(os.WriteFile(catalog, b, 0o600), os.RemoveAll(catalog+"-mirror")); err != nil {
		t.Fatal(err)
	}
}

func segmentBytes(t *testing.T, data string) (n int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(data, "store", "segments", "*.kgs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		info, err := os.Stat(name)
		if err == nil { // else merged away meanwhile
			n += info.Size()
		}
	}
	return n
}
