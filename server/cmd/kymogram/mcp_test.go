package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// agent is a session with `kymogram mcp`, run as the kitchen's user.
func (k *kitchen) agent() *mcp.ClientSession {
	k.t.Helper()
	in, to := io.Pipe()
	from, out := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- run(k.t.Context(), []string{"mcp"}, stdio{in: in, out: out, err: io.Discard, env: k.getenv})
	}()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(k.t.Context(), &mcp.IOTransport{Reader: from, Writer: to}, nil)
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() {
		_ = session.Close()
		_ = to.Close()
		if code := <-done; code != 0 {
			k.t.Errorf("mcp ended with %d", code)
		}
	})
	return session
}

// TestAgentFindsTheFirstOfWhatIsNoNumber: whatever a bucket of the search has, the agent is
// told the exact place and value.
func TestAgentFindsTheFirstOfWhatIsNoNumber(t *testing.T) {
	k := serveKitchen(t)
	const columns = 40
	random := rand.New(rand.NewPCG(1, 2))
	lengths := []int{1, 2, 7, 300, 5_000}
	want := map[string]string{}
	for run, rows := range lengths {
		var text strings.Builder
		text.WriteString("step")
		odds := make([]float64, columns)
		for c := range odds {
			fmt.Fprintf(&text, ",c%d", c)
			odds[c] = math.Pow(float64(rows), -random.Float64())
		}
		for step := range rows {
			fmt.Fprintf(&text, "\n%d", step)
			for c := range odds {
				value, kind := "1", ""
				if random.Float64() < odds[c] {
					value = []string{"NaN", "Infinity", "-Infinity"}[random.IntN(3)]
					kind = map[string]string{"NaN": "nan"}[value]
					if kind == "" {
						kind = "infinity"
					}
				}
				text.WriteString("," + value)
				at := fmt.Sprintf("r%d c%d %s", run, c, kind)
				if _, seen := want[at]; kind != "" && !seen {
					want[at] = fmt.Sprintf("%d %s", step, value)
				}
			}
		}
		path := filepath.Join(t.TempDir(), "table.csv")
		if err := os.WriteFile(path, []byte(text.String()+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		k.ok("import", "csv", path, "--project", "p", "--run", fmt.Sprintf("r%d", run))
	}
	session := k.agent()
	for run := range lengths {
		for c := range columns {
			result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "find_anomalies", Arguments: map[string]any{"run": fmt.Sprintf("p/r%d", run), "metric": fmt.Sprintf("^c%d$", c)}})
			if err != nil || result.IsError {
				t.Fatal(err, result)
			}
			var answer struct {
				Findings []struct {
					Kind, Series string
					At, Value    any
				}
			}
			raw, err := json.Marshal(result.StructuredContent)
			if err == nil {
				err = json.Unmarshal(raw, &answer)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range answer.Findings {
				at := fmt.Sprintf("r%d %s %s", run, one.Series, one.Kind)
				if one.Kind != "nan" && one.Kind != "infinity" {
					continue
				}
				if got := fmt.Sprintf("%v %v", one.At, one.Value); got != want[at] {
					t.Errorf("%s: %s, want %s", at, got, want[at])
				}
				delete(want, at)
			}
		}
	}
	for at, what := range want {
		t.Errorf("%s: %s is not found", at, what)
	}
}
