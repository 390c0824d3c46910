package netstate_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kymogram/kymogram/netstate"
)

// TestManyRecords prints what records of one key cost its signer, the server and a new
// reader, at each power of ten up to NETSTATE_RECORDS.
func TestManyRecords(t *testing.T) {
	most, err := strconv.Atoi(os.Getenv("NETSTATE_RECORDS"))
	if err != nil {
		t.Skip("asked for by NETSTATE_RECORDS=100000: 100,000 take half an hour")
	}
	n := newNetwork(t)
	direct := func(o *netstate.Options) { o.Server = n.server.Address } // past the proxy, which keeps all
	var folder string
	node := n.join("v", netstate.Validator, func(o *netstate.Options) { direct(o); folder = filepath.Dir(o.Run.SpoolDir) })
	began, next := time.Now(), 1_000
	for i := range most {
		n.must(node.UpdateConfig(t.Context(), map[string]any{"count": i}))
		if i+1 < next {
			continue
		}
		next *= 10
		var own syscall.Rusage
		n.must(syscall.Getrusage(syscall.RUSAGE_SELF, &own))
		cpu := time.Duration(own.Utime.Nano() + own.Stime.Nano())
		server := processOf(t, n.server.Pid())
		fmt.Printf("%d records: %s each; signer %s CPU, %d KiB on disk; server %s, %d KiB on disk\n", i+1, (time.Since(began) / time.Duration(i+1)).Round(time.Microsecond),
			cpu.Round(time.Millisecond), folderSize(t, folder)>>10, server, folderSize(t, n.server.Data)>>10)
		reader := n.join(fmt.Sprint("reader", i), netstate.Miner, direct)
		start := time.Now()
		verdict, err := reader.VerifyRun(t.Context(), node.RunID())
		n.must(err)
		_, err = reader.Verdicts(t.Context())
		n.must(err)
		fmt.Printf("  a new reader: %s, %s\n", verdict.Verdict, time.Since(start).Round(time.Millisecond))
	}
}

func folderSize(t *testing.T, folder string) (sum int64) {
	t.Helper()
	err := filepath.WalkDir(folder, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// processOf is what a process took: CPU and memory.
func processOf(t *testing.T, pid int) string {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+2:]))
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	peak, _, _ = strings.Cut(peak, "\n")
	return fmt.Sprintf("%s CPU, peak %s", time.Duration(user+system)*10*time.Millisecond, strings.TrimSpace(peak))
}
