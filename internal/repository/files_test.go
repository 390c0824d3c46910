package repository

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Paths of one machine and hosts of package registries belong to whoever
// builds, not to the repository. The words are split so that this file passes.
var (
	machinePath  = regexp.MustCompile(`(^|[\s"'=(:])/(ro` + `ot|wo` + `rk|ho` + `me/[a-z]{2,})/[\w.]`)
	registryHost = regexp.MustCompile(`(proxy\.golang\.` + `org|registry\.npmjs\.` + `org|files\.pythonhosted\.` + `org|pypi\.` + `org|deb\.debian\.` + `org)`)
)

func TestNoMachinePathsOrRegistryHosts(t *testing.T) {
	for _, name := range trackedFiles(t) {
		data, err := os.ReadFile(name)
		if os.IsNotExist(err) || bytes.IndexByte(data, 0) >= 0 {
			continue // deleted in the work tree, or binary
		}
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(data), "\n") {
			if m := machinePath.FindString(line); m != "" {
				t.Errorf("%s:%d: path of one machine: %s", name, i+1, strings.TrimSpace(m))
			}
			if m := registryHost.FindString(line); m != "" {
				t.Errorf("%s:%d: host of a package registry: %s", name, i+1, m)
			}
		}
	}
}

// What a build makes is not kept: it weighs more than all sources together.
func TestNoBuiltFiles(t *testing.T) {
	for _, name := range trackedFiles(t) {
		info, err := os.Stat(name)
		if err == nil && info.Size() > 4<<20 && !strings.Contains(name, "testdata/") {
			t.Errorf("%s has %d MiB: is it built?", name, info.Size()>>20)
		}
	}
}

func TestLockFilesHoldNoDownloadAddresses(t *testing.T) {
	for _, name := range trackedFiles(t) {
		if !strings.HasSuffix(name, "package-lock.json") {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte(`"resolved"`)) {
			t.Errorf("%s holds download addresses; run npm with omit-lockfile-registry-resolved=true", name)
		}
	}
}

func TestGoModHasNoReplace(t *testing.T) {
	for _, name := range trackedFiles(t) {
		if !strings.HasSuffix("/"+name, "/go.mod") {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(`(?m)^\s*replace\b`).Match(data) {
			t.Errorf("%s has a replace line: go install %s/server/cmd/kymogram would fail", name, module)
		}
	}
}
