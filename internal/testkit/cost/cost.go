// Package cost measures what a piece of code costs, for tests that bound it.
//
// In: a function. Out: bytes that it allocated, or the processor time that it took. Both
// are the least of a few tries, so a busy machine and other goroutines rarely count.
package cost

import (
	"bytes"
	"flag"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// tries is how often something is measured.
const tries = 3

// Allocated is how many bytes a function allocates, garbage included. That is an upper
// bound of the memory that it needs at any time.
func Allocated(work func()) uint64 {
	least := ^uint64(0)
	for range tries {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		work()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// Time is how much processor time a function takes on its own goroutine.
func Time(work func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	least := time.Duration(1<<63 - 1)
	for range tries {
		before := threadTime()
		work()
		least = min(least, threadTime()-before)
	}
	return least
}

// Fuzzing reports whether a fuzzer runs. Only then is time judged: an ordinary test must pass
// on a busy machine.
func Fuzzing() bool {
	f := flag.Lookup("test.fuzz")
	return f != nil && f.Value.String() != ""
}

// Bounds are what a decoder may take.
type Bounds struct {
	Bytes   uint64 // in all
	PerByte uint64 // of input: bytes more
	// TimePerByte of input, besides a hundredth of a second.
	TimePerByte time.Duration
}

// grain is time that no test can measure well.
const grain = 10 * time.Millisecond

// Check fails when reading an input takes more than its bounds. The input is also read
// repeated until it is large: what is not linear shows only there.
func (b Bounds) Check(t *testing.T, input []byte, read func(input []byte)) {
	t.Helper()
	const large = 64 << 10
	inputs := [][]byte{input}
	if n := len(input); n > 0 && n < large {
		inputs = append(inputs, bytes.Repeat(input, large/n))
	}
	for _, one := range inputs {
		n := uint64(len(one))
		if got, most := Allocated(func() { read(one) }), b.Bytes+n*b.PerByte; got > most {
			t.Errorf("%d bytes are allocated for an input of %d, at most %d", got, n, most)
		}
		if !Fuzzing() {
			continue
		}
		if got, most := Time(func() { read(one) }), grain+time.Duration(n)*b.TimePerByte; got > most {
			t.Errorf("an input of %d bytes takes %v, at most %v", n, got, most)
		}
	}
}

// Peak is how much memory a function needs at once: what is in use, sampled while garbage is
// collected at once. A short peak may be missed, and on a busy machine some garbage counts:
// above most it is measured again, a few times, and the least is taken.
func Peak(most uint64, work func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(2))
	least := peak(work)
	for try := 1; try < tries && least > most; try++ {
		least = min(least, peak(work))
	}
	return least
}

func peak(work func()) uint64 {
	runtime.GC()
	before, most := inUse(), uint64(0)
	done, sampled := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sampled)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			most = max(most, inUse())
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	}()
	work()
	close(done)
	<-sampled
	return most - min(before, most)
}

// inUse is what the last collection found in use: what became garbage since does not count.
func inUse() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
