package wal_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/internal/wal/faultfs"
)

// slowSync is how long a sync of a sleepyDisk takes.
const slowSync = time.Millisecond

// sleepyDisk counts syncs.
type sleepyDisk struct {
	*faultfs.FS
	syncs int
}

type sleepyFile struct {
	wal.File
	disk *sleepyDisk
}

func (d *sleepyDisk) Open(name string, create bool) (wal.File, error) {
	f, err := d.FS.Open(name, create)
	return &sleepyFile{f, d}, err
}

func (f *sleepyFile) Sync() error {
	f.disk.syncs++
	time.Sleep(slowSync)
	return f.File.Sync()
}

// gathered runs a test in time that only sleeps make pass, with an open log.
func gathered(t *testing.T, run func(t *testing.T, l *wal.Log, disk *sleepyDisk)) {
	synctest.Test(t, func(t *testing.T) {
		disk := &sleepyDisk{FS: faultfs.New()}
		l, _, _ := open(t, disk, 1<<20)
		disk.syncs = 0
		run(t, l, disk)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

func appendOnce(t *testing.T, l *wal.Log) time.Duration {
	begun := time.Now()
	if _, err := l.Append(t.Context(), []byte("x")); err != nil {
		t.Error(err)
	}
	return time.Since(begun)
}

func TestALoneCallerNeverWaitsForOthers(t *testing.T) {
	gathered(t, func(t *testing.T, l *wal.Log, disk *sleepyDisk) {
		for range 10 {
			if took := appendOnce(t, l); took != slowSync {
				t.Errorf("a record took %v, a sync takes %v", took, slowSync)
			}
			time.Sleep(slowSync / 3)
		}
		if disk.syncs != 10 {
			t.Errorf("%d syncs for 10 records", disk.syncs)
		}
	})
}

// Callers that write one record after the other come to share each sync, all of them.
func TestCallersGatherForASync(t *testing.T) {
	gathered(t, func(t *testing.T, l *wal.Log, disk *sleepyDisk) {
		const callers, each = 8, 50
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				for range each {
					time.Sleep(time.Duration(i+1) * slowSync / 20) // what one does between two records
					appendOnce(t, l)
				}
			})
		}
		all.Wait()
		if most := each + 5; disk.syncs > most {
			t.Errorf("%d syncs for %d records of %d callers, want at most %d", disk.syncs, callers*each, callers, most)
		}
	})
}

// Callers that come slowly, one after the other, share a sync, too: that they still come says
// that it is worth to wait for the rest.
func TestSlowCallersGatherForASync(t *testing.T) {
	gathered(t, func(t *testing.T, l *wal.Log, disk *sleepyDisk) {
		const callers, each = 4, 50
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				for range each {
					time.Sleep(slowSync/2 + time.Duration(i)*slowSync*2/5) // the last is 1.2 syncs after the first
					appendOnce(t, l)
				}
			})
		}
		all.Wait()
		if most := each + 5; disk.syncs > most {
			t.Errorf("%d syncs for %d records of %d callers, want at most %d", disk.syncs, callers*each, callers, most)
		}
	})
}

// Who comes no more is waited for once, for as long as a sync takes.
func TestACallerThatStaysAwayIsForgotten(t *testing.T) {
	gathered(t, func(t *testing.T, l *wal.Log, _ *sleepyDisk) {
		var all sync.WaitGroup
		all.Go(func() { appendOnce(t, l) })
		synctest.Wait() // it syncs
		for range 2 {   // they share the next sync
			all.Go(func() { appendOnce(t, l) })
		}
		all.Wait()
		if took := appendOnce(t, l); took != 2*slowSync {
			t.Errorf("the first record alone took %v, want %v", took, 2*slowSync)
		}
		for range 3 {
			if took := appendOnce(t, l); took != slowSync {
				t.Errorf("a later one took %v, want %v", took, slowSync)
			}
		}
	})
}

// Nor is one waited for that gave up.
func TestACallerThatGaveUpIsNotCounted(t *testing.T) {
	gathered(t, func(t *testing.T, l *wal.Log, _ *sleepyDisk) {
		var all sync.WaitGroup
		all.Go(func() { appendOnce(t, l) })
		synctest.Wait() // it syncs
		ctx, cancel := context.WithCancel(t.Context())
		all.Go(func() {
			if _, err := l.Append(ctx, []byte("y")); !errors.Is(err, context.Canceled) {
				t.Errorf("a caller that gave up got %v", err)
			}
		})
		synctest.Wait()
		cancel()
		all.Wait()
		for range 2 {
			if took := appendOnce(t, l); took != slowSync {
				t.Errorf("a record took %v, a sync takes %v", took, slowSync)
			}
		}
	})
}
