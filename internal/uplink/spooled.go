package uplink

import (
	"time"

	"github.com/kymogram/kymogram/internal/spool"
)

// countEvery is how often the rest of a backlog is counted anew.
const countEvery = time.Second

// backlog is what lies in the spool behind the batches of a session.
type backlog struct {
	rest    spool.Rest
	counted time.Time
	points  uint64
	known   bool
}

// behind is the number of points behind a batch of size sent that was just made;
// nil while it is not known. Where the tail met the end of the spool there is
// nothing to count.
func (s *session) behind(atEnd bool, sent uint64) *uint64 {
	b := &s.backlog
	switch {
	case atEnd:
		b.points, b.known, b.counted = 0, true, time.Time{}
	case time.Since(b.counted) >= countEvery:
		s.countBehind()
	default:
		b.points -= min(b.points, sent)
	}
	if !b.known {
		return nil
	}
	points := b.points
	return &points
}

func (s *session) countBehind() {
	b := &s.backlog
	var err error
	if b.points, b.known, err = b.rest.Count(s.tail); err != nil {
		s.log.Debug("count the rest of the spool", "writer", s.id, "error", err)
	}
	b.counted = time.Now() // after the count, which may take long
}
