package console

import (
	"fmt"
	"sync"
	"time"
)

// Bounds of what is kept.
const (
	linesPerSecond = 5_000
	linesAtOnce    = 20_000
	mostBytes      = 256 << 20 // of a stream
	mostWaiting    = 8 << 20   // bytes that wait for the keeper
	replaceEvery   = 500 * time.Millisecond
)

// sink takes the lines of a stream: step is the number of the line, which replaces an
// earlier one of the same number.
type sink func(stream string, step, timeNs int64, text string) error

// chunk is a piece of a stream's output.
type chunk struct {
	stream string
	data   []byte
	at     time.Time
	lost   int           // bytes that came before it and found no room
	done   chan struct{} // closed when all before it is kept
}

// keeper makes lines of output. push never waits for it.
type keeper struct {
	mu      sync.Mutex
	chunks  []chunk
	waiting int
	lost    map[string]int // bytes by stream, since the last chunk of it that found room
	wake    chan struct{}

	sink    sink
	masker  *masker
	fail    func(error)
	streams map[string]*stream
	last    time.Time // of a line: each has a time of its own, so that they have an order
}

func newKeeper(to sink, secrets []string, fail func(error)) *keeper {
	return &keeper{lost: map[string]int{}, wake: make(chan struct{}, 1), sink: to, masker: newMasker(secrets), fail: fail, streams: map[string]*stream{}}
}

// push hands a piece of output over, or drops and counts it.
func (k *keeper) push(stream string, data []byte, at time.Time) {
	k.mu.Lock()
	if k.waiting+len(data) > mostWaiting {
		k.lost[stream] += len(data)
	} else {
		k.chunks = append(k.chunks, chunk{stream: stream, data: append([]byte(nil), data...), at: at, lost: k.lost[stream]})
		k.waiting += len(data)
		delete(k.lost, stream)
	}
	k.mu.Unlock()
	k.rouse()
}

// settle waits until all that was pushed is kept, also lines without an end.
func (k *keeper) settle() {
	done := make(chan struct{})
	k.mu.Lock()
	for stream, lost := range k.lost {
		k.chunks = append(k.chunks, chunk{stream: stream, at: time.Now(), lost: lost})
		delete(k.lost, stream)
	}
	k.chunks = append(k.chunks, chunk{done: done})
	k.mu.Unlock()
	k.rouse()
	<-done
}

func (k *keeper) rouse() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// run keeps lines until stop is closed.
func (k *keeper) run(stop <-chan struct{}) {
	ticker := time.NewTicker(replaceEvery)
	defer ticker.Stop()
	for {
		select {
		case <-k.wake:
			for _, one := range k.take() {
				k.handle(one)
			}
		case <-ticker.C:
			k.each((*screen).settle)
		case <-stop:
			return
		}
	}
}

func (k *keeper) take() []chunk {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.chunks
	k.chunks, k.waiting = nil, 0
	return all
}

func (k *keeper) handle(one chunk) {
	if one.done != nil {
		k.each((*screen).end)
		close(one.done)
		return
	}
	s := k.of(one.stream)
	if !one.at.After(k.last) {
		one.at = k.last.Add(1)
	}
	if one.lost > 0 {
		if s.screen.x > 0 {
			s.screen.write([]byte("\n"), one.at)
		}
		note := fmt.Sprintf("[kymogram: %d bytes are missing here: they came faster than they could be kept]\n", one.lost)
		s.screen.write([]byte(note), one.at)
	}
	s.screen.write(one.data, one.at)
	k.last = s.screen.now
}

// each has every stream's screen hand on what has changed.
func (k *keeper) each(do func(*screen)) {
	for _, s := range k.streams {
		do(s.screen)
		s.tell()
	}
}

func (k *keeper) of(name string) *stream {
	s := k.streams[name]
	if s == nil {
		s = &stream{keeper: k, name: name, tokens: linesAtOnce}
		s.screen = newScreen(s.keep)
		k.streams[name] = s
	}
	return s
}

// stream is what is kept of stdout or stderr.
type stream struct {
	keeper *keeper
	name   string
	screen *screen

	tokens float64 // lines that may still come at once
	filled time.Time
	bytes  int

	missing      int64 // lines in a row that are dropped
	missingBytes int
	from         line // the first of them
	told         int64
}

// keep stores a line, or counts it as missing.
func (s *stream) keep(l line) bool {
	if !s.room(&l) {
		if l.again {
			return false // the line of before stays
		}
		if s.missing == 0 {
			s.from, s.told = l, 0
		}
		s.missing++
		s.missingBytes += len(l.text)
		return false
	}
	if !l.again && s.missing > 0 {
		s.tell()
		s.missing, s.missingBytes = 0, 0
	}
	text := shorten(s.keeper.masker.mask(l.text, l.whole && l.more == 0), l.more)
	s.bytes += len(text)
	s.store(l.number, l.at, text)
	return true
}

// room says whether a line is within the bounds.
func (s *stream) room(l *line) bool {
	if s.bytes+len(l.text) > mostBytes {
		return false
	}
	if l.again {
		return true // the ticker bounds these
	}
	if !s.filled.IsZero() {
		s.tokens = min(linesAtOnce, s.tokens+l.at.Sub(s.filled).Seconds()*linesPerSecond)
	}
	s.filled = l.at
	if s.tokens < 1 {
		return false
	}
	s.tokens--
	return true
}

// tell keeps one line, at the number of the first that is missing, that counts them.
func (s *stream) tell() {
	if s.missing == 0 || s.missing == s.told {
		return
	}
	s.told = s.missing
	why := fmt.Sprintf("more than %d lines a second", linesPerSecond)
	if s.bytes+s.missingBytes > mostBytes {
		why = fmt.Sprintf("a run keeps %d MiB of a stream", mostBytes>>20)
	}
	s.store(s.from.number, s.from.at, fmt.Sprintf("[kymogram: %d lines (%d bytes) are missing here: %s]", s.missing, s.missingBytes, why))
}

func (s *stream) store(number int64, at time.Time, text string) {
	if err := s.keeper.sink(s.name, number, at.UnixNano(), text); err != nil {
		s.keeper.fail(err)
	}
}
