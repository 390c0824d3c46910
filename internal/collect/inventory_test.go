package collect_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/collect"
)

// paths are the keys of a document, as in a/b; a list counts as its first item.
func paths(prefix string, value any) (out []string) {
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			out = append(out, paths(strings.TrimPrefix(prefix+"/"+key, "/"), item)...)
		}
	case []any:
		if len(v) > 0 {
			return paths(prefix, v[0])
		}
	default:
		return []string{prefix}
	}
	slices.Sort(out)
	return out
}

// The keys are those of get_perf_info, as the compute subnet's validators read them.
func TestTheFormOfAnInventory(t *testing.T) {
	smi := program(t, `echo "NVIDIA H100 80GB HBM3, 81559, 1980, 2619"; echo "NVIDIA L4, 23034, 2040, 6251"`)
	got, err := collect.New(collect.Options{NvidiaSMI: smi, GPUTimeout: time.Minute, Cgroup: t.TempDir()}).Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(`cpu/count cpu/frequency gpu/capacity gpu/count gpu/details/capacity gpu/details/name
		gpu/graphics_speed gpu/memory_speed hard_disk/free hard_disk/read_speed hard_disk/total hard_disk/used
		hard_disk/write_speed has_docker ram/available ram/free ram/read_speed ram/swap_free ram/swap_total
		ram/swap_used ram/total ram/used ram/write_speed`)
	if diff := cmp.Diff(want, paths("", doc)); diff != "" {
		t.Error(diff)
	}
	cards := collect.GPUSpecs{
		Count: 2, Capacity: 81559 + 23034, GraphicsSpeed: 1980, MemorySpeed: 2619,
		Details: []collect.GPUCard{{Name: "NVIDIA H100 80GB HBM3", Capacity: 81559}, {Name: "NVIDIA L4", Capacity: 23034}},
	}
	if diff := cmp.Diff(cards, got.GPU); diff != "" {
		t.Error(diff)
	}
	for name, v := range map[string]float64{
		"disk read": got.HardDisk.ReadSpeed, "disk write": got.HardDisk.WriteSpeed, "memory read": got.RAM.ReadSpeed, "memory write": got.RAM.WriteSpeed,
	} {
		if v < 1<<20 || v > 1<<50 {
			t.Errorf("%s %v bytes a second", name, v)
		}
	}
	if got.CPU.Count != runtime.NumCPU() || got.RAM.Total == 0 || got.HardDisk.Total < got.HardDisk.Used {
		t.Errorf("%+v", got)
	}
}

func TestAnInventoryWithoutCards(t *testing.T) {
	if _, err := exec.LookPath("nvidia-smi"); err == nil {
		t.Skip("this machine has nvidia-smi")
	}
	for name, script := range map[string]string{"no program": "", "none found": `echo "No devices were found"; exit 6`} {
		path := "" // of PATH, where there is none
		if script != "" {
			path = program(t, script)
		}
		scratch := t.TempDir()
		got, err := collect.New(collect.Options{NvidiaSMI: path, Scratch: scratch}).Inventory(t.Context())
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		text, err := json.Marshal(got.GPU)
		if err != nil || string(text) != `{"count":0,"capacity":0,"details":[],"graphics_speed":0,"memory_speed":0}` {
			t.Errorf("%s: %s, %v", name, text, err)
		}
		if left, err := os.ReadDir(scratch); err != nil || len(left) != 0 {
			t.Errorf("%s: left %v, %v", name, left, err)
		}
	}
}

func TestLimitsOfAContainerAreItsInventory(t *testing.T) {
	group := kernel{t.TempDir()}
	group.write(t, "memory.max", "1048576\n")
	group.write(t, "memory.current", "262144\n")
	group.write(t, "cpu.max", "100000 100000\n")
	group.write(t, "cpu.stat", "usage_usec 5\n")
	got, err := collect.New(collect.Options{NvidiaSMI: "-", Cgroup: group.folder}).Inventory(t.Context())
	if err != nil || got.RAM.Total != 1<<20 || got.RAM.Available != 768<<10 || got.RAM.Used != 256<<10 || got.CPU.Count != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestDockerIsPresentWhereItAnswers(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	folder := t.TempDir()
	t.Setenv("PATH", folder)
	c := collect.New(collect.Options{NvidiaSMI: "-"})
	for _, tt := range []struct {
		script string
		want   bool
	}{{"", false}, {"#!/bin/sh\nexit 1\n", false}, {"#!/bin/sh\nexit 0\n", true}} {
		if tt.script != "" {
			if err := os.WriteFile(filepath.Join(folder, "docker"), []byte(tt.script), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if got, _ := c.Inventory(t.Context()); got.HasDocker != tt.want {
			t.Errorf("%q: %v", tt.script, got.HasDocker)
		}
	}
}
