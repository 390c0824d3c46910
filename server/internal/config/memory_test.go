package config_test

import (
	"math"
	"testing"
	"testing/fstest"

	"github.com/kymogram/kymogram/server/internal/config"
)

// TestMemoryLimit reads the files of machines and containers of both versions.
func TestMemoryLimit(t *testing.T) {
	const meminfo = "MemTotal:       8388608 kB\nMemFree:         100 kB\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"nothing can be read": {nil, 0},
		"a machine":           {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/user.slice\n", "sys/fs/cgroup/user.slice/memory.max": "max\n"}, 8 << 30},
		"a container":         {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "536870912\n"}, 512 << 20},
		"a group in a group": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "1073741824\n",
		}, 1 << 30},
		"version 1": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "9:name=systemd:/\n4:cpu,memory:/docker/1\n",
			"sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": "268435456\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 256 << 20},
		"version 1 in a container": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "4:memory:/docker/1\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "268435456\n",
		}, 256 << 20},
		"more than the machine has": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "99999999999999\n"}, 8 << 30},
	} {
		files := fstest.MapFS{}
		for path, text := range c.files {
			files[path] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := config.MemoryLimit(files); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestDivide adds up what the parts may hold at most: the store a quarter more than its
// part, as each pool for small requests, and a merge three times what it reads.
func TestDivide(t *testing.T) {
	const mib = 1 << 20
	for _, body := range []int64{1, 16, 256} {
		for limit := int64(config.MinMemory); limit <= 64<<30; limit += limit / 7 {
			b := config.Divide(limit, body*mib)
			pools := b.Requests + b.Received + b.Unfolded + b.Answers + b.Reads + b.Definitions
			merge := 3 * min(16*mib, b.Store/16)
			if sum := b.Store/4*5 + pools + merge; sum > b.Heap/100*103 || b.Heap >= limit {
				t.Errorf("limit %d MiB, body %d MiB: the parts take %d MiB of %d: %+v", limit/mib, body, sum/mib, b.Heap/mib, b)
			}
			if b.Store < b.Heap/4 && b.Store < 1<<30 || b.Requests < min(64*mib, b.Heap/4) {
				t.Errorf("limit %d MiB: %+v is not enough to work with", limit/mib, b)
			}
		}
	}
	for _, c := range []struct{ limit, body, requests int64 }{
		{0, 16, 272}, {24_000, 16, 512}, {24_000, 100, 1600}, {600, 16, 155}, {200, 16, 64}, {128, 16, 35}, {128, 4, 24},
	} {
		if got := config.Divide(c.limit*mib, c.body*mib).Requests / mib; got != c.requests {
			t.Errorf("%+v: requests may hold %d MiB", c, got)
		}
	}
	if got := (config.Memory{LimitMiB: 300}).Bytes(fstest.MapFS{}); got != 300<<20 {
		t.Errorf("a limit of 300 MiB is %d", got)
	}
}

func TestBudget(t *testing.T) {
	machine := fstest.MapFS{"proc/meminfo": {Data: []byte("MemTotal: 8388608 kB\n")}}
	var c config.Config
	c.Limits.BodyMiB = 64
	for name, x := range map[string]struct{ set, given, limit int64 }{
		"of the machine":  {0, math.MaxInt64, (8 << 30) / 10 * 9},
		"that is set":     {256, math.MaxInt64, 256 << 20},
		"of the program":  {256, 512 << 20, 512 << 20},
		"too little":      {64, math.MaxInt64, 0},
		"too little, too": {256, 64 << 20, 0},
	} {
		c.Memory.LimitMiB = x.set
		b, err := c.Budget(machine, x.given)
		if (err == nil) != (x.limit > 0) || err == nil && b != config.Divide(x.limit, 64<<20) {
			t.Errorf("%s: %+v, %v", name, b, err)
		}
	}
}
