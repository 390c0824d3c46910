package collect_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/collect"
)

// Used memory is the total less what is available, as psutil 7 has it.
func TestSystemIsWhatTheKernelSays(t *testing.T) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Skip(err)
	}
	kib := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		kib[fields[0]], _ = strconv.ParseFloat(fields[1], 64)
	}
	found, err := collect.New(collect.Options{}).System(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	total := kib["MemTotal:"] / 1024
	used := total - kib["MemAvailable:"]/1024
	if found["mem_total"] != total || found["mem_used"] < used-total/4 || found["mem_used"] > used+total/4 {
		t.Errorf("memory %v, want %v of %v MiB", found, used, total)
	}
	if cpu, ok := found["cpu_usage"]; !ok || cpu < 0 || cpu > 100 {
		t.Errorf("the processor's use is %v", found["cpu_usage"])
	}
}

// The real psutil, before and after, encloses what is read here.
func TestSystemIsWhatPsutilSays(t *testing.T) {
	const python = "../../.venv/bin/python"
	ask := func() (total, used float64) {
		out, err := exec.CommandContext(t.Context(), python, "-c", "import psutil; m = psutil.virtual_memory(); print(m.total, m.used)").Output()
		if err != nil {
			t.Skip("psutil is not here, make prepare installs it: ", err)
		}
		if _, err := fmt.Sscan(string(out), &total, &used); err != nil {
			t.Fatal(err)
		}
		return total / (1 << 20), used / (1 << 20)
	}
	const slack = 64 // MiB, for what the machine does meanwhile
	var found map[string]float64
	var before, after float64
	for range 10 {
		_, before = ask()
		var err error
		if found, err = collect.New(collect.Options{}).System(t.Context()); err != nil {
			t.Fatal(err)
		}
		var total float64
		if total, after = ask(); found["mem_total"] != total {
			t.Fatalf("%v MiB of memory, psutil says %v", found["mem_total"], total)
		}
		if used := found["mem_used"]; used > min(before, after)-slack && used < max(before, after)+slack {
			return
		}
	}
	t.Errorf("%v MiB are used, psutil says %v and %v", found["mem_used"], before, after)
}

func TestMemoryOfCards(t *testing.T) {
	smi := program(t, `echo '0, NVIDIA H200, 37, 1024, 4096, 41, 75.50, 1980'`)
	c := collect.New(collect.Options{NvidiaSMI: smi})
	got, err := c.Memory(t.Context())
	if diff := cmp.Diff([]collect.Card{{ID: "0", Name: "NVIDIA H200", UsedMiB: 1024, TotalMiB: 4096}}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	_, err = collect.New(collect.Options{NvidiaSMI: "-"}).Memory(t.Context())
	if !errors.Is(err, collect.ErrNoCard) {
		t.Errorf("without a card: %v", err)
	}
}

// The answer is what ROCm documents for `rocm-smi --json`; no card gave it.
func TestAMDsCardsByTheirDocumentedFormat(t *testing.T) {
	smi := program(t, `cat <<'END'
{"card0": {"GPU use (%)": "37", "VRAM Total Memory (B)": "4294967296", "VRAM Total Used Memory (B)": "1073741824",
 "Temperature (Sensor edge) (C)": "41.0", "Average Graphics Package Power (W)": "75.5", "Card Series": "AMD Instinct MI210"},
 "card1": {"GPU use (%)": "N/A", "VRAM Total Memory (B)": "0"}, "system": {"Driver version": "6.7"}}
END`)
	c := collect.New(collect.Options{NvidiaSMI: "there-is-no-nvidia-smi", RocmSMI: smi})
	one, two := "{gpu_id=0}{gpu_name=AMD Instinct MI210}", "{gpu_id=1}{gpu_name=}"
	want := map[string]float64{
		"system/gpu/utilization" + one: 37, "system/gpu/memory_used_bytes" + one: 1 << 30, "system/gpu/memory_total_bytes" + one: 4 << 30,
		"system/gpu/memory_utilization" + one: 25, "system/gpu/temperature_celsius" + one: 41, "system/gpu/power_watts" + one: 75.5,
		"system/gpu/memory_total_bytes" + two: 0,
	}
	if diff := cmp.Diff(want, onlyGPU(read(t, c))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
