package config

import (
	"bufio"
	"bytes"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// MemoryLimit is how many bytes the program may take by its control group (version 2
// or 1), or by the machine where that sets none; 0 when neither can be read. The file
// system is that of the machine, from its root.
func MemoryLimit(files fs.FS) int64 {
	least := physical(files)
	own, err := fs.ReadFile(files, "proc/self/cgroup")
	if err != nil {
		return least
	}
	for line := range strings.Lines(string(own)) {
		// ID:CONTROLLERS:PATH; version 2 names no controllers.
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(parts) < 3:
		case parts[1] == "":
			least = smaller(least, above(files, "sys/fs/cgroup", parts[2], "memory.max"))
			least = smaller(least, above(files, "sys/fs/cgroup/unified", parts[2], "memory.max"))
		case strings.Contains(","+parts[1]+",", ",memory,"):
			least = smaller(least, above(files, "sys/fs/cgroup/memory", parts[2], "memory.limit_in_bytes"))
		}
	}
	return least
}

// above is the smallest limit of a group and those around it. A container may see its
// own group as the root while it has another path outside.
func above(files fs.FS, root, group, name string) (least int64) {
	for at := path.Clean("/" + group); ; at = path.Dir(at) {
		text, err := fs.ReadFile(files, path.Join(root, at, name))
		n, bad := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // "max" is none
		if err == nil && bad == nil && n < math.MaxInt64>>1 {
			least = smaller(least, n)
		}
		if at == "/" {
			return least
		}
	}
}

// smaller of two limits; 0 is none.
func smaller(a, b int64) int64 {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

func physical(files fs.FS) int64 {
	text, err := fs.ReadFile(files, "proc/meminfo")
	if err != nil {
		return 0
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "MemTotal:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
			return kib << 10
		}
	}
	return 0
}

// Memory is what a server may take.
type Memory struct {
	LimitMiB int64 `yaml:"limit_mib" usage:"memory that the server may take, MiB; 0 takes nine tenths of what its container or the machine has"`
}

// Bytes is the limit that is set, else what is left to the server of what there is;
// 0 when neither is known.
func (m Memory) Bytes(files fs.FS) int64 {
	if m.LimitMiB > 0 {
		return m.LimitMiB << 20
	}
	return MemoryLimit(files) / 10 * 9
}

// The store's share of the memory; the rest is for requests and what is freed late.
const (
	storeShare = 3
	leastStore = 16 << 20
	mostStore  = 1 << 30
)

// StoreBytes is the store's share of a limit.
func StoreBytes(limit int64) int {
	if limit <= 0 {
		return mostStore / 4
	}
	return int(min(mostStore, max(leastStore, limit/storeShare)))
}
