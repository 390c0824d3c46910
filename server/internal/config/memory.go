package config

import (
	"bufio"
	"bytes"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
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

// Budget is how the memory of a server is divided, in bytes. Heap is all of it but
// Catalog and what else the program takes outside of Go's memory; the rest together stays below Heap, also while
// pools give the quarter more that package share keeps for small requests.
type Budget struct {
	Limit, Heap int64
	Catalog     int64 // of SQLite's pages, outside of Go's memory
	Store       int64 // of the engine; writes wait when it holds a quarter more
	Requests    int64 // that are worked on
	Received    int64 // gRPC messages on their way in
	Unfolded    int64 // of those that are compressed
	Answers     int64 // of gRPC that nobody has read yet
	Reads       int64 // of answers in the making
	Page        int64 // of Reads: a page of texts or documents, in memory and as text
	Definitions int64 // of the series of streams
}

// Read is the most that one caller may hold of Reads.
func (b *Budget) Read() int64 { return b.Reads / callers }

const (
	// MinMemory is the smallest limit with which everything works.
	MinMemory = 128 << 20
	// unknownMemory is the limit where nobody knows what there is.
	unknownMemory = 1 << 30
	// programMemory is outside of Go's memory besides SQLite's pages: the program's file, stacks.
	programMemory = 35 << 20
	// leastCatalog is SQLite's own cache of a connection for each of five, halved.
	leastCatalog = 5 << 20
	mostCatalog  = 160 << 20

	mostStore   = 1 << 30
	mostWorked  = 512 << 20
	mostPending = 64 << 20
	mostReads   = 256 << 20
	mostPage    = 16 << 20
	mostDefined = 512 << 20

	// What a body may take while it is worked on is so many times its bytes.
	timesBody = 4
	callers   = 4 // with the largest body each have room at once, where there is memory
)

// Budget divides the memory that there is; given is the limit that the program was
// started with, MaxInt64 for none, which counts before ours.
func (c *Config) Budget(files fs.FS, given int64) (Budget, error) {
	limit := c.Memory.Bytes(files)
	if given < math.MaxInt64 {
		limit = given
	}
	if limit > 0 && limit < MinMemory {
		return Budget{}, model.Errorf(model.CodeInvalid, "the server may take %d MiB of memory; the smallest limit that works is %d MiB", limit>>20, MinMemory>>20).
			WithHint("Give the machine or the container more (the server takes nine tenths of it), or set memory.limit_mib.")
	}
	return Divide(limit, c.Limits.BodyMiB<<20), nil
}

// Divide divides a limit, 0 for one that is not known. The largest body of one request has
// room as long as that is two fifths of all.
func Divide(limit, body int64) Budget {
	b := Budget{Limit: limit}
	if limit <= 0 {
		limit = unknownMemory
	}
	b.Catalog = min(max(leastCatalog, limit/64), mostCatalog)
	b.Heap = limit - min(limit/2, programMemory+b.Catalog)
	part := func(percent, most int64) int64 { return min(most, b.Heap*percent/100) }
	b.Store = part(34, mostStore)
	b.Requests = max(part(28, max(mostWorked, callers*timesBody*body)), part(40, timesBody*body))
	b.Received, b.Unfolded, b.Answers, b.Reads = part(3, mostPending), part(2, mostPending/2), part(3, mostPending), part(4, mostReads)
	b.Page = min(b.Read(), mostPage)
	b.Definitions = min(part(6, mostDefined), max(part(2, mostDefined), b.Heap*36/100-b.Requests))
	return b
}
