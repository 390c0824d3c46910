package main

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestTrains runs the program with the server that KYMOGRAM_BINARY names, and reads what
// it logged back over HTTP: the network learned, and every step is there.
func TestTrains(t *testing.T) {
	binary := os.Getenv("KYMOGRAM_BINARY")
	if binary == "" {
		t.Skip("set KYMOGRAM_BINARY to the program kymogram")
	}
	address := serve(t, binary)
	t.Setenv("KYMOGRAM_SERVER", address)
	t.Setenv("KYMOGRAM_BINARY", binary)
	t.Setenv("KYMOGRAM_SPOOL_DIR", t.TempDir())
	if err := run(t.Context(), []string{"-run", "test", "-steps", "400", "-examples", "500"}); err != nil {
		t.Fatal(err)
	}

	var id struct{ ID string }
	get(t, address+"/api/v1/resolve?run=default/spirals/test", &id)
	var loss, accuracy, weights struct {
		Columns struct {
			Step  []int64
			Value []any
		}
	}
	points := address + "/api/v1/runs/" + id.ID + "/points?limit=1000&metric="
	get(t, points+"loss&scale=ML_STEP", &loss)
	if n := len(loss.Columns.Value); n != 400 {
		t.Errorf("%d losses of 400 steps", n)
	}
	get(t, points+"accuracy&label.evaluation=true", &accuracy)
	values := accuracy.Columns.Value
	if len(values) != 9 {
		t.Fatalf("%d evaluations, not one every 50 steps and one at the end", len(values))
	}
	if last := values[8].(float64); last < 0.9 || last <= values[0].(float64) {
		t.Errorf("accuracy %v: nothing was learned", values)
	}
	get(t, points+"weights/hidden_0/dense/weights", &weights)
	for _, v := range weights.Columns.Value {
		total := 0.0
		for _, n := range v.(map[string]any)["counts"].([]any) {
			total += n.(float64)
		}
		if total != 2*32 {
			t.Errorf("a histogram of %v weights, not of 2 × 32", total)
		}
	}
	if len(weights.Columns.Value) != 8 {
		t.Errorf("%d histograms", len(weights.Columns.Value))
	}
	var lines struct{ Columns struct{ Value []string } }
	get(t, points+"console", &lines)
	if text := strings.Join(lines.Columns.Value, "\n"); !strings.Contains(text, "training begins") || strings.Count(text, "evaluated") != 9 {
		t.Errorf("log lines %q", text)
	}
}

func serve(t *testing.T, binary string) (address string) {
	t.Helper()
	cmd := exec.Command(binary, "serve", "--data", t.TempDir(), "--http", "127.0.0.1:0", "--no-auth")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range strings.Fields(line) {
		if host, ok := strings.CutPrefix(field, "http="); ok {
			return "http://" + host
		}
	}
	t.Fatalf("the server printed %q", line)
	return ""
}

func get(t *testing.T, url string, to any) {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", url, answer.Status)
	}
	if err := json.NewDecoder(answer.Body).Decode(to); err != nil {
		t.Fatalf("%s: %v", url, err)
	}
}
