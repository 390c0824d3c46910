package promapi

import (
	"github.com/kymogram/kymogram/internal/model"
)

// room is the memory that a request may still take for what it reads.
type room struct{ left, all int64 }

// Of the memory of a request two thirds are for what it reads and one for what the engine
// makes of that.
const (
	readPart   = 3
	sampleSize = 16 // of the engine
)

func newRoom(memory int64) *room { return &room{memory / readPart * 2, memory} }

// samplesOf is how many samples the engine may have at a time.
func samplesOf(memory int64) int { return int(max(1, memory/readPart/sampleSize)) }

// tooMuch says that a request needs more memory than it has.
type tooMuch struct{ memory int64 }

func (t tooMuch) Error() string { return t.shown().Error() }

func (t tooMuch) shown() *model.Error {
	return model.Errorf(model.CodeLimit, "the query would take more than the %d KiB of memory that one query may have: samples read up to %d, each series counts as ten to forty", t.memory>>10, t.memory/readPart*2/sampleBytes).
		WithHint("Ask for fewer series or a shorter time, with more labels or a larger step; the operator's memory.limit_mib raises the limit.")
}

func (r *room) take(bytes int64) error {
	if r.left -= bytes; r.left < 0 {
		return tooMuch{r.all}
	}
	return nil
}
