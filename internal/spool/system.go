package spool

import (
	"path/filepath"
	"time"
)

// LeastSystemInterval is the shortest time between two samples of the machine.
const LeastSystemInterval = 100 * time.Millisecond

// System asks the deliverer for the machine's metrics: part of open.json, absent
// means none.
type System struct {
	IntervalMs int64 `json:"interval_ms"`
}

// Interval is the time between two samples.
func (s *System) Interval() time.Duration { return time.Duration(s.IntervalMs) * time.Millisecond }

// WriterAlive reports whether the process of a writer's folder still has its lock.
func WriterAlive(writerDir string) bool {
	alive, err := held(filepath.Join(writerDir, "lock"))
	return err == nil && alive
}
