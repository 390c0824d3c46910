package local

import (
	"log/slog"
	"time"

	"github.com/kymogram/kymogram/internal/wal"
)

// Config is what a user sets. The zero value of all but Dir works.
type Config struct {
	Dir string
	// Marks is a folder apart from Dir. It has a second copy of what says that a file
	// of Dir is lost: the log's tip and the list of segments. Empty: there is none.
	Marks string
	// SeriesPerRunLimit refuses records that would make more series; 1,000,000.
	SeriesPerRunLimit int
	// A run is flushed when it holds FlushRows rows (1024) or FlushBytes (8 MiB) in
	// memory, or rows older than FlushAge (10 min), or the largest ones when all
	// runs together pass MemoryBytes (256 MiB). A write waits for a flush while all
	// runs hold a quarter more than MemoryBytes, or its own eight times FlushBytes,
	// each with what is being flushed.
	FlushRows   int
	FlushBytes  int
	FlushAge    time.Duration
	MemoryBytes int
	// PageBytes is how much a page has of texts and documents; 8 MiB.
	PageBytes int
	// WALSegmentBytes is the size of a log file; 64 MiB.
	WALSegmentBytes int64
	// CompactFiles merges flushed segments when so many are there; 8.
	CompactFiles int
	// SegmentBytes is the size of the largest segment that a merge makes; 1 GiB.
	SegmentBytes int64

	// FS, Now and Logger default to the operating system, the clock and silence.
	FS     wal.FS
	Now    func() time.Time
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.SeriesPerRunLimit = orDefault(c.SeriesPerRunLimit, 1_000_000)
	c.FlushRows = orDefault(c.FlushRows, 1024)
	c.FlushBytes = orDefault(c.FlushBytes, 8<<20)
	c.FlushAge = orDefault(c.FlushAge, 10*time.Minute)
	c.MemoryBytes = orDefault(c.MemoryBytes, 256<<20)
	c.PageBytes = orDefault(c.PageBytes, 8<<20)
	c.WALSegmentBytes = orDefault(c.WALSegmentBytes, 64<<20)
	c.CompactFiles = orDefault(c.CompactFiles, 8)
	c.SegmentBytes = orDefault(c.SegmentBytes, 1<<30)
	if c.FS == nil {
		c.FS = wal.OS{}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// places are the folders of what is kept in one folder and among the marks.
func places(dir, marks string) []string {
	if marks == "" {
		return []string{dir}
	}
	return []string{dir, marks}
}

// mergeBytes is how much a merge reads before it writes: it joins and sorts that, which
// takes three times as much.
func mergeBytes(memory int) int64 { return min(16<<20, int64(memory)/16) }

func orDefault[T ~int | ~int64](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}
