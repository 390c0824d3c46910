package growth

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// printed is what python.py says of the package and of each row.
type printed struct {
	Exported, Rows []string
	Reasons        map[string]string
	Call, Grows    string
	Small, Big     struct{ Seconds, Bytes, Disk float64 }
}

// python runs python.py with the sources of the package.
func python(t *testing.T, args ...string) (lines []printed) {
	t.Helper()
	source, err := filepath.Abs("../../python/src")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "python3", append([]string{"python.py"}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+source, "PYTHONDONTWRITEBYTECODE=1", "XDG_CONFIG_HOME="+t.TempDir(), "XDG_STATE_HOME="+t.TempDir())
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("python.py: %v\n%s", err, &said)
	}
	for scan := bufio.NewScanner(bytes.NewReader(out)); scan.Scan(); {
		var line printed
		if err := json.Unmarshal(scan.Bytes(), &line); err != nil {
			t.Fatalf("python.py printed %q", scan.Text())
		}
		lines = append(lines, line)
	}
	return lines
}

func withPython(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
}

func TestEveryCallOfThePythonSDKHasARow(t *testing.T) {
	withPython(t)
	said := python(t, "--list")[0]
	slices.Sort(said.Rows)
	covered(t, "python.py", said.Exported, slices.Compact(said.Rows), said.Reasons)
}

func TestPython(t *testing.T) {
	short(t)
	withPython(t)
	l := start(t)
	args := []string{"--only", *only, "--server", "http://" + l.address, l.key, "w/p/small", "w/p/big"}
	l.fill("small", 50, 250)
	l.fill("big", factor*50, factor*250)
	if *processor {
		args = append(args, "--processor")
	}
	floor := reserved()
	floor.bytes = 128 << 10 // what tracemalloc sees is the same each time
	for _, line := range python(t, args...)[1:] {
		costs := func(seconds, bytes, disk float64) cost { return cost{seconds: seconds, bytes: bytes, disk: disk} }
		r := row[*program]{call: line.Call, grows: line.Grows, n: 1}
		r.judge(t, floor, func(n int) cost {
			if n == 1 {
				return costs(line.Small.Seconds, line.Small.Bytes, line.Small.Disk)
			}
			return costs(line.Big.Seconds, line.Big.Bytes, line.Big.Disk)
		})
	}
}
