package config_test

import (
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

func TestMemoryOfTheStore(t *testing.T) {
	for limit, want := range map[int64]int{0: 256 << 20, 1 << 20: 16 << 20, 600 << 20: 200 << 20, 64 << 30: 1 << 30} {
		if got := config.StoreBytes(limit); got != want {
			t.Errorf("of %d bytes the store gets %d, want %d", limit, got, want)
		}
	}
	if got := (config.Memory{LimitMiB: 300}).Bytes(fstest.MapFS{}); got != 300<<20 {
		t.Errorf("a limit of 300 MiB is %d", got)
	}
}
