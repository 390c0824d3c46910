package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/curve"
)

// shell reads statements with an end of \0 each, and prints the answers.
const shell = `
import sys
from chdb import session
s = session.Session()
s.query("CREATE DATABASE here")
s.query("USE here")
for statement in sys.stdin.read().split("\0"):
    print(str(s.query(statement, "TSV")).strip())
`

// Current versions are there as chdb alone, an engine without a server. It has no ZooKeeper and
// no clusters, so that replicas are not tried: columns, codecs and questions are.
func TestCurrentVersion(t *testing.T) {
	t.Parallel()
	python := os.Getenv("CHDB_PYTHON")
	if python == "" {
		python = "python3"
	}
	if exec.CommandContext(t.Context(), python, "-c", "import chdb").Run() != nil {
		t.Skip("chdb is not installed: pip install chdb, 555 MB, and set CHDB_PYTHON to the interpreter that has it")
	}
	c := Cluster{place: place{current: true}}
	spans, _ := curve.Beyond([]curve.Span{{First: 1, Last: 4}, {First: 8, Last: 9}}, []curve.Span{{First: 1, Last: 2}})
	insert := "INSERT INTO " + table + " (run, series, step, arrival, lsn, time, float) SELECT toFixedString(unhex('01'), 16), number % 3, number, number, intDiv(number, 10), number, sqrt(number) FROM numbers(100)"
	statements := append(c.statements(), c.statements()...) // a second start
	statements = append(statements, insert, counting(table, model.RunID{1}, spans), bytesOf(table), runningOf(table), "SELECT sum(float = sqrt(step)), uniqExact(step) FROM "+table)
	cmd := exec.CommandContext(t.Context(), python, "-c", shell)
	cmd.Stdin = strings.NewReader(strings.Join(statements, "\x00"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	answers := strings.Split(strings.TrimSpace(string(out)), "\n")
	var bytes int
	if len(answers) < 4 {
		t.Fatalf("%s", out)
	}
	answers = answers[len(answers)-4:]
	if _, err := fmt.Sscan(answers[1], &bytes); err != nil || bytes < 100 {
		t.Errorf("the table takes %q bytes", answers[1])
	}
	for i, want := range map[int]string{0: "40", 2: "0", 3: "100\t100"} {
		if answers[i] != want {
			t.Errorf("answer %d: %q, want %q", i, answers[i], want)
		}
	}
}
