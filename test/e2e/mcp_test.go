//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/test/rig"
)

var pythonBlock = regexp.MustCompile("(?ms)^```(python|text)[^\n]*\n(.*?)^```$")

// The page's two programs, with the Python package mcp as the agent, print what the page
// says they print.
func TestTranscriptOfMCP(t *testing.T) {
	r := rig.New(t)
	s := r.Serve(t)
	text, err := os.ReadFile(filepath.Join(r.Root, "docs", "mcp.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := pythonBlock.FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 3 || blocks[2][1] != "text" {
		t.Fatalf("docs/mcp.md has %d blocks of Python and text, not two programs and what the second prints", len(blocks))
	}
	path := "PATH=" + filepath.Dir(r.Binary()) + string(os.PathListSeparator) + os.Getenv("PATH")
	execute := func(code string) string {
		cmd := r.Command(t, filepath.Join(r.Root, ".venv", "bin", "python"), "-c", code)
		cmd.Env = append(cmd.Env, "KYMOGRAM_SERVER="+s.Address, path)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v\n%s", err, errs.String())
		}
		return out.String()
	}
	execute(blocks[0][2])
	r.Sync(t)
	if diff := cmp.Diff(blocks[2][2], execute(blocks[1][2])); diff != "" {
		t.Errorf("docs/mcp.md and the programs differ (-page +program)\n%s", diff)
	}
}

// speak sends lines to kymogram mcp, waits for so many answers, and returns them and how it
// ends when its input does.
func speak(t *testing.T, r *rig.Rig, server string, wait int, lines ...string) (answers []map[string]any, ended error) {
	t.Helper()
	cmd := r.Command(t, r.Binary(), "mcp", "--server", server)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
	defer stop.Stop()
	// One that has ended takes no more, which its end tells.
	_, _ = io.WriteString(in, strings.Join(lines, "\n")+"\n")
	for decoder := json.NewDecoder(out); len(answers) < wait; {
		var one map[string]any
		if err := decoder.Decode(&one); err != nil {
			t.Logf("after %d answers: %v", len(answers), err)
			break
		}
		answers = append(answers, one)
	}
	in.Close()
	return answers, cmd.Wait()
}

func request(id int, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params)
}

var hello = []string{
	request(1, "initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"0"}}`),
	`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
}

// What an agent must not do to it: each is answered with an error, and none ends it in a
// panic.
func TestHostileMCP(t *testing.T) {
	r := rig.New(t)
	s := r.Serve(t)
	call := func(id int, tool, arguments string) string {
		return request(id, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))
	}
	lines := append(hello[:2:2],
		request(2, "no/such/method", `{}`),
		call(3, "delete_run", `{"run":"a/b/c"}`),
		call(4, "get_run", `{"run":"../../../etc/passwd"}`),
		call(5, "get_run", `{"run":"a/b/c","unknown":1}`),
		call(6, "get_points", `{"run":"a/b/c","metric":"loss","limit":-5}`),
		call(7, "get_points", `{"run":"a/b/c","metric":"loss","from":1e300}`),
		call(8, "get_run", `{"run":"a/b/c","match":"("}`),
		call(9, "list_runs", `{"project":"a/b/c"}`),
		call(10, "compare_runs", `{"runs":["a/b/c"]}`),
		call(11, "get_run", `{}`),
	)
	answers, err := speak(t, r, s.Address, 11, lines...)
	if err != nil {
		t.Errorf("it ended with %v", err)
	}
	said := map[float64]string{}
	for _, one := range answers {
		id, _ := one["id"].(float64)
		result, _ := one["result"].(map[string]any)
		if text, _ := json.Marshal(one); id > 1 && one["error"] == nil && result["isError"] != true {
			t.Errorf("%v is no error: %s", id, text)
		} else if id > 1 {
			said[id] = string(text)
		}
	}
	for id, want := range map[float64]string{4: "there is no run", 5: "unknown", 6: "give 1 to 2000", 7: "2^53", 8: "no regular expression", 9: "workspace/project", 10: "give 2 to 20", 11: "run"} {
		if !strings.Contains(said[id], want) {
			t.Errorf("request %v was answered %q, which lacks %q", id, said[id], want)
		}
	}
	if len(said) != 10 {
		t.Errorf("10 bad requests have %d answers", len(said))
	}
}

// Messages that are none end the session with a word, not with a panic; so does a message
// without an end.
func TestNoMessagesOfMCP(t *testing.T) {
	r := rig.New(t)
	s := r.Serve(t)
	for name, bad := range map[string]string{"no JSON": "hello", "half": `{"jsonrpc":`, "long": `{"a":"` + strings.Repeat("x", 4<<20) + `"}`, "deep": strings.Repeat("[", 100_000)} {
		if answers, err := speak(t, r, s.Address, 1, append(hello[:2:2], bad)...); err == nil || len(answers) > 1 {
			t.Errorf("%s: %d answers, and it ended with %v", name, len(answers), err)
		}
	}
}

// Without a server each tool says so, and the session goes on.
func TestMCPWithoutAServer(t *testing.T) {
	r := rig.New(t)
	answers, err := speak(t, r, "http://127.0.0.1:1", 3, append(hello[:2:2],
		request(2, "tools/call", `{"name":"list_projects","arguments":{}}`),
		request(3, "tools/list", `{}`))...)
	text, _ := json.Marshal(answers)
	if err != nil || len(answers) != 3 || !strings.Contains(string(text), "cannot reach the server at http://127.0.0.1:1") {
		t.Errorf("%v, %s", err, text)
	}
}
