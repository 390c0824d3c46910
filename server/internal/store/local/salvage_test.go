package local_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal/faultfs"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// TestDamagedDirectory flips a bit in every byte behind the indexes of a segment,
// and cuts the file at each: the ledgers of its runs, which nothing else knows,
// tell what it had, but for the one whose entry was hit.
func TestDamagedDirectory(t *testing.T) {
	const runs = 5
	random := rand.New(rand.NewPCG(8, 1))
	base := faultfs.New()
	e, err := local.Open(t.Context(), config(base))
	if err != nil {
		t.Fatal(err)
	}
	want := map[model.RunID]model.Damage{}
	for i := range byte(runs) {
		run, writer := model.RunID{i, i, 0x80}, model.WriterID{i + 1}
		if err := e.PutAttempt(t.Context(), run, model.Attempt{Number: 1}); err != nil {
			t.Fatal(err)
		}
		n := uint64(7 + i)
		for seq := uint64(1); seq <= n; seq++ {
			b := oneRow(run, writer, seq)
			b.Groups[0].TimeNs[0] = int64(1000*uint64(i) + seq)
			if _, err := e.Append(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
		want[run] = model.Damage{Points: n, MinTimeNs: 1000*int64(i) + 1, MaxTimeNs: int64(1000*uint64(i) + n)}
	}
	flush := func() {
		t.Helper()
		if err := e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	other := model.RunID{0xff}
	if err := e.PutAttempt(t.Context(), other, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	more := func(from uint64) {
		for seq := from; seq < from+50; seq++ {
			ack, err := e.Append(t.Context(), oneRow(other, model.WriterID{0xff}, seq))
			if err != nil {
				t.Fatal(err)
			}
			e.ReleaseMeta(ack.LSN)
		}
	}
	flush()
	const name = "segments/0000000000000001.kgs"
	file := "/data/" + name
	for run, d := range want {
		d.File = name
		want[run] = d
	}
	// The log has all of it still: nothing is lost.
	whole := base.Crash(random)
	whole.Corrupt(file, func(b []byte) []byte { b[len(b)-1] ^= 1; return b })
	again, err := local.Open(t.Context(), config(whole))
	if err != nil {
		t.Fatal(err)
	}
	for run, d := range want {
		if stats, err := again.RunStats(t.Context(), run); err != nil || stats.Stored != d.Points || stats.Damaged != nil {
			t.Errorf("run %s: %+v, %v", run, stats, err)
		}
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	// Now it has not.
	more(1)
	flush()
	more(51)
	flush()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	size, directory := 0, 0
	base.Corrupt(file, func(b []byte) []byte {
		size, directory = len(b), int(binary.LittleEndian.Uint64(b[len(b)-24:]))
		return b
	})
	if size-directory < 200 {
		t.Fatalf("the directory and the trailer have %d bytes", size-directory)
	}
	cut := 0
	for at := directory; at < size; at++ {
		fs := base.Crash(random)
		fs.Corrupt(file, func(b []byte) []byte { b[at] ^= 1 << random.IntN(8); return b })
		if told := ledgers(t, fs, want); told < runs-1 || at >= size-24 && told < runs {
			t.Errorf("byte %d of the directory, %d of the end: the ledgers of %d runs tell of it", at-directory, size-at, told)
		}
		fs = base.Crash(random)
		fs.Corrupt(file, func(b []byte) []byte { return b[:at] })
		told := ledgers(t, fs, want)
		if told < cut || at >= size-24 && told < runs {
			t.Errorf("cut at byte %d of the directory: the ledgers of %d runs tell of it", at-directory, told)
		}
		cut = told
	}
}

// ledgers counts the runs whose ledger tells of all their points, and fails on
// one that tells of others.
func ledgers(t *testing.T, fs *faultfs.FS, want map[model.RunID]model.Damage) (told int) {
	t.Helper()
	e, err := local.Open(t.Context(), config(fs))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for run, d := range want {
		stats, err := e.RunStats(t.Context(), run)
		if model.CodeOf(err) == model.CodeNotFound {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]model.Damage{d}, stats.Damaged); diff != "" || stats.Stored != 0 {
			t.Fatalf("run %s, %d points stored: %s", run, stats.Stored, diff)
		}
		told++
	}
	return told
}
