//go:build linux

package collect_test

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/kymogram/kymogram/internal/collect"
)

// field reads one number of a kernel file, as a second reader.
func field(t *testing.T, path, prefix string, place int) float64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Skipf("no second reader: %v", err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			v, err := strconv.ParseFloat(strings.Fields(rest)[place], 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Skipf("%s has no %s", path, prefix)
	return 0
}

// This machine, read by the collector and by the test.
func TestThisMachine(t *testing.T) {
	c := collect.New(collect.Options{PIDs: []int{os.Getpid()}, NvidiaSMI: "-", Cgroup: t.TempDir()})
	var got map[string]float64
	total := field(t, "/proc/meminfo", "MemTotal:", 0)
	for tries := 0; ; tries++ { // until the rest of the machine holds still meanwhile
		before := field(t, "/proc/meminfo", "MemAvailable:", 0)
		got = read(t, c)
		after := field(t, "/proc/meminfo", "MemAvailable:", 0)
		used := got["system/memory/used_bytes"] / 1024
		low, high := total-max(before, after), total-min(before, after)
		if used >= low-64<<10 && used <= high+64<<10 {
			break
		}
		if tries == 100 {
			t.Fatalf("used memory %v KiB, /proc/meminfo says %v to %v", used, low, high)
		}
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs("/", &fs); err != nil {
		t.Fatal(err)
	}
	if want := float64(fs.Blocks) * float64(fs.Bsize); got["system/disk/total_bytes"] != want {
		t.Errorf("disk %v, statfs says %v", got["system/disk/total_bytes"], want)
	}
	rss := field(t, "/proc/self/status", "VmRSS:", 0) * 1024
	if mine := got["system/process/rss_bytes{pid="+strconv.Itoa(os.Getpid())+"}"]; mine < rss/4 || mine > 4*rss {
		t.Errorf("own memory %v, /proc/self/status says %v", mine, rss)
	}
	for name, value := range got {
		if i, ok := strings.CutPrefix(name, "system/network/receive_bytes{interface="); ok {
			if now := field(t, "/proc/net/dev", strings.TrimSuffix(i, "}")+":", 0); value > now {
				t.Errorf("%s is %v, /proc/net/dev says %v later", name, value, now)
			}
		}
	}
}
