// Package failure keeps what the delivery of a run complains about, until somebody
// asks: the newest thousand errors, the first one, and the one that the next log
// call returns.
//
// Errors go in by [Log.Report], from any goroutine; the same words count once until
// delivery works again ([Log.Forget]). They come out to listeners at once and to
// [Log.Take] later. Nothing is reported under the log's lock.
package failure

import (
	"sync"
	"sync/atomic"
)

// Kept is how many errors wait for [Log.Take].
const Kept = 1000

// Log keeps errors. Set its listeners before the first one.
type Log struct {
	Warn  func(string) // nil: nobody is warned
	Hear  func(error)  // nil: nobody listens
	Raise bool         // the next log call returns the error

	due atomic.Pointer[error]

	mu       sync.Mutex
	kept     []error
	reported uint64
	evicted  uint64
	first    error
	told     map[string]bool
}

// Report takes an error; the same words count once until [Log.Forget].
func (l *Log) Report(err error) {
	if !l.add(err) {
		return
	}
	if l.Warn != nil {
		l.Warn(err.Error())
	}
	if l.Raise {
		l.due.CompareAndSwap(nil, &err)
	}
	if l.Hear != nil {
		l.Hear(err)
	}
}

func (l *Log) add(err error) (fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told[err.Error()] {
		return false
	}
	if l.told == nil {
		l.told = map[string]bool{}
	}
	l.told[err.Error()] = true
	l.reported++
	if len(l.kept) == Kept {
		l.kept, l.evicted = l.kept[1:], l.evicted+1
	}
	l.kept = append(l.kept, err)
	if l.first == nil {
		l.first = err
	}
	return true
}

// Forget makes the same words an error again when they come back.
func (l *Log) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.told)
}

// Due is the error that a log call is to return, once.
func (l *Log) Due() error {
	if l.due.Load() == nil {
		return nil
	}
	if err := l.due.Swap(nil); err != nil {
		return *err
	}
	return nil
}

// First is the first error of all.
func (l *Log) First() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first
}

// Counts are the errors reported, and those that were evicted unread.
func (l *Log) Counts() (reported, evicted uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reported, l.evicted
}

// Take gives the errors since the last call, oldest first.
func (l *Log) Take() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.kept
	l.kept = nil
	return out
}
