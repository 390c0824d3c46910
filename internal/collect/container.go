package collect

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// container is the control group (version 2) that this program sees as its root.
// Inside a container its limits are the machine: a share of what the program may
// not use would say nothing.
type container struct{ folder string }

// memory is what the group uses and may use; ok is false without a limit.
func (c container) memory() (used, limit float64, ok bool) {
	limit, ok = c.number("memory.max", 0)
	current, found := c.number("memory.current", 0)
	if !ok || !found || limit <= 0 {
		return 0, 0, false
	}
	// Pages of files that were not used for long go when memory is wanted.
	cached, _ := c.entry("memory.stat", "inactive_file")
	return max(0, current-cached), limit, true
}

// processors is how many the group may use at once, and the seconds that it used
// them; ok is false without a limit.
func (c container) processors() (busy, count float64, ok bool) {
	quota, ok := c.number("cpu.max", 0)
	period, found := c.number("cpu.max", 1)
	used, counted := c.entry("cpu.stat", "usage_usec")
	if !ok || !found || !counted || quota <= 0 || period <= 0 {
		return 0, 0, false
	}
	return used / 1e6, quota / period, true
}

// number is a field of a file of one line; "max" is none.
func (c container) number(file string, place int) (float64, bool) {
	text, err := os.ReadFile(filepath.Join(c.folder, file))
	if fields := strings.Fields(string(text)); err == nil && place < len(fields) {
		return natural(fields[place])
	}
	return 0, false
}

// entry is the number after a name in a file of lines.
func (c container) entry(file, name string) (float64, bool) {
	text, err := os.ReadFile(filepath.Join(c.folder, file))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			return natural(strings.TrimSpace(rest))
		}
	}
	return 0, false
}

func natural(text string) (float64, bool) {
	n, err := strconv.ParseUint(text, 10, 64)
	return float64(n), err == nil && n < math.MaxInt64
}
