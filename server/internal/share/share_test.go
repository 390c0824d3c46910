package share_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/share"
)

func as(t *testing.T, caller string) context.Context {
	return share.WithCaller(t.Context(), caller)
}

func mustAcquire(t *testing.T, p *share.Pool, caller string, n int64) func() {
	t.Helper()
	release, err := p.Acquire(as(t, caller), n)
	if err != nil {
		t.Fatalf("%s: %v", caller, err)
	}
	return release
}

// When four callers share all there is, a fifth still gets little, though others wait;
// it gets no more than that, and the reserve ends, too.
func TestASmallFirstLeaseDoesNotWait(t *testing.T) {
	const size = 1 << 20
	p := share.New("memory", size, time.Millisecond)
	for _, greedy := range []string{"a", "b", "c", "d"} {
		defer mustAcquire(t, p, greedy, size/4)()
	}
	const little = size / 4 / 64
	defer mustAcquire(t, p, "e", little)()
	if _, err := p.Acquire(as(t, "e"), little); model.CodeOf(err) != model.CodeBusy {
		t.Errorf("a second one: %v", err)
	}
	if _, err := p.Acquire(as(t, "f"), little+1); model.CodeOf(err) != model.CodeBusy {
		t.Errorf("a larger one: %v", err)
	}
	got := 1
	for i := range 100 {
		if release, err := p.Try(as(t, strconv.Itoa(i)), little); err == nil {
			defer release()
			got++
		}
	}
	if s := p.Stats(); got != 64 || s.Used != size+size/4 {
		t.Errorf("%d got little, %+v", got, s)
	}
}

// A caller that has its quarter waits, and holds nobody else up.
func TestAQuarterForEach(t *testing.T) {
	p := share.New("memory", 100, 30*time.Second)
	first := mustAcquire(t, p, "greedy", 25)
	second := make(chan func())
	go func() { second <- mustAcquire(t, p, "greedy", 1) }()
	for p.Stats().Waiting == 0 {
		time.Sleep(time.Millisecond)
	}
	for _, other := range []string{"b", "c", "d"} {
		defer mustAcquire(t, p, other, 25)()
	}
	if s := p.Stats(); s.Used != 100 || s.Waiting != 1 {
		t.Fatalf("%+v", s)
	}
	first()
	first() // twice is once
	(<-second)()
}

func TestARequestLargerThanItsPartGetsThePart(t *testing.T) {
	p := share.New("memory", 100, time.Second)
	release := mustAcquire(t, p, "a", 1000)
	if s := p.Stats(); s.Used != p.Part() {
		t.Fatalf("%+v", s)
	}
	release()
	if s := p.Stats(); s.Used != 0 {
		t.Fatalf("%+v", s)
	}
}

func TestRefusals(t *testing.T) {
	p := share.New("memory", 4, time.Millisecond)
	defer mustAcquire(t, p, "a", 1)()
	if _, err := p.Acquire(as(t, "a"), 1); model.CodeOf(err) != model.CodeBusy {
		t.Errorf("out of patience: %v", err)
	}
	if _, err := p.Try(as(t, "a"), 1); model.CodeOf(err) != model.CodeBusy {
		t.Errorf("try: %v", err)
	}
	if s := p.Stats(); s.Refused != 2 || s.Waiting != 0 || s.Used != 1 {
		t.Errorf("%+v", s)
	}
	gone, cancel := context.WithCancel(as(t, "a"))
	cancel()
	if _, err := p.Acquire(gone, 1); err == nil {
		t.Error("a caller that had left got a share")
	}
	if release, err := p.Try(as(t, "b"), 1); err != nil {
		t.Error(err)
	} else {
		release()
	}
}

// A large request comes to its turn though small ones keep coming.
func TestLargeRequestsAreNotPassed(t *testing.T) {
	p := share.New("memory", 8, 30*time.Second)
	var holders []func()
	for i := range 8 {
		holders = append(holders, mustAcquire(t, p, strconv.Itoa(i), 1))
	}
	large, small := make(chan func(), 1), make(chan func(), 1)
	go func() { large <- mustAcquire(t, p, "large", 2) }()
	for p.Stats().Waiting < 1 {
		time.Sleep(time.Millisecond)
	}
	go func() { small <- mustAcquire(t, p, "small", 1) }()
	for p.Stats().Waiting < 2 {
		time.Sleep(time.Millisecond)
	}
	holders[0]()
	if s := p.Stats(); s.Waiting != 2 {
		t.Fatalf("the small one passed the large one: %+v", s)
	}
	holders[1]()
	(<-large)()
	(<-small)()
}

// A pool of turns has one more for who has none.
func TestATurnForWhoHasNone(t *testing.T) {
	p := share.NewTurns("reads", 4, 2, time.Millisecond)
	for _, greedy := range []string{"a", "a", "b", "b"} {
		defer mustAcquire(t, p, greedy, 1)()
	}
	if _, err := p.Acquire(as(t, "a"), 1); model.CodeOf(err) != model.CodeBusy {
		t.Errorf("a third for a: %v", err)
	}
	defer mustAcquire(t, p, "c", 1)()
	if _, err := p.Acquire(as(t, "d"), 1); model.CodeOf(err) != model.CodeBusy {
		t.Errorf("a sixth: %v", err)
	}
}

// Callers take turns: who comes with one request waits for one lease of each other
// caller, not for the fifty that each of them has asked for.
func TestCallersTakeTurns(t *testing.T) {
	p := share.NewWide("reads", 4, 2, time.Minute)
	var first []func()
	for _, greedy := range []string{"a", "a", "b", "b"} {
		first = append(first, mustAcquire(t, p, greedy, 1))
	}
	end := make(chan struct{})
	var all sync.WaitGroup
	ask := func(caller string, served func()) {
		all.Go(func() {
			release := mustAcquire(t, p, caller, 1)
			served()
			<-end
			release()
		})
	}
	for range 50 {
		ask("a", func() {})
		ask("b", func() {})
	}
	for p.Stats().Waiting < 100 {
		time.Sleep(time.Millisecond)
	}
	served := make(chan struct{})
	ask("c", func() { close(served) })
	for p.Stats().Waiting < 101 {
		time.Sleep(time.Millisecond)
	}
	for _, release := range first {
		release()
	}
	select {
	case <-served:
	case <-time.After(30 * time.Second):
		t.Error("four leases ended, and none was for c")
	}
	close(end)
	all.Wait()
}

// Whatever callers do, the size and the parts hold, and nothing leaks.
func TestBoundsHold(t *testing.T) {
	const size, callers = 64, 7
	p := share.New("memory", size, 50*time.Millisecond)
	var used atomic.Int64
	var held [callers]atomic.Int64
	var all sync.WaitGroup
	for i := range 4 * callers {
		all.Go(func() {
			random, who := rand.New(rand.NewPCG(1, uint64(i))), i%callers
			for range 200 {
				n := 1 + random.Int64N(size/4)
				ctx, cancel := context.WithTimeout(share.WithCaller(t.Context(), strconv.Itoa(who)), time.Duration(random.IntN(3000))*time.Microsecond)
				if release, err := p.Acquire(ctx, n); err == nil {
					if all, own := used.Add(n), held[who].Add(n); all > size+size/4 || own > size/4 {
						t.Errorf("%d in all, %d of one", all, own)
					}
					used.Add(-n)
					held[who].Add(-n)
					release()
				}
				cancel()
			}
		})
	}
	all.Wait()
	if s := p.Stats(); s.Used != 0 || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
}
