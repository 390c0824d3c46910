package netstate_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/wallet"
	"github.com/kymogram/kymogram/test/rig"
	"github.com/kymogram/kymogram/test/subtensor"
)

// The Go of docs/netstate.md as a program: with a wallet on disk and the real chain,
// twice in one folder, and while no server answers. Its Python runs in
// python/tests/test_netstate.py.
func TestGoOfTheDocs(t *testing.T) {
	chained := subtensor.Start(t, subtensor.Options{})
	r := rig.New(t)
	server := r.Serve(t, "--no-auth")
	text, err := os.ReadFile(filepath.Join(r.Root, "docs", "netstate.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?ms)^```go\n(import \\(.*?^\\)\n)(.*?)^```$").FindStringSubmatch(string(text))
	if block == nil {
		t.Fatal("the page has no Go")
	}
	code := strings.NewReplacer("wss://entrypoint-finney.opentensor.ai:443", chained.URL, "Netuid: 27", "Netuid: 1").Replace(block[2])
	code = regexp.MustCompile(`(?m)^((?:\w+, )?err :?= .*)$`).ReplaceAllString(code, "$1\nif err != nil { panic(err) }")
	file, home := filepath.Join(r.Dir, "main.go"), filepath.Join(r.Dir, "home")
	program := "package main\n" + block[1] + "func main() {\nctx, miner := context.Background(), \"" + hotkey(t, "miner") + "\"\n" + code +
		"fmt.Println(len(stats), node.Close(ctx), pool.Close())\n}\n"
	program = strings.Replace(program, "import (", "import (\n\"context\"\n\"fmt\"\n", 1)
	hotkeys := filepath.Join(home, ".bittensor", "wallets", "default", "hotkeys")
	key, err := os.ReadFile(filepath.Join(r.Root, "internal", "wallet", "testdata", "4.1.1", "w", "hotkeys", "plain"))
	if err == nil {
		err = os.MkdirAll(hotkeys, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(hotkeys, "validator"), key, 0o600)
	}
	if err == nil {
		err = os.WriteFile(file, []byte(program), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	account, _, err := wallet.ParseAddress("5EXc8RKduaYz9dvFoo5cq9h2czgTxHnRg4KJasBK4Rbco6Ko")
	if err == nil {
		err = subtensor.Join(t.Context(), chained.URL, 1, account)
	}
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(r.Dir, "program")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, file)
	build.Dir = r.Root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := func(address string) (string, error) {
		cmd := r.Command(t, binary)
		cmd.Dir, cmd.Env = home, append(cmd.Env, "HOME="+home, "KYMOGRAM_SERVER="+address)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for range 2 {
		if out, err := run(server.Address); err != nil || !strings.Contains(out, "0 <nil> <nil>\n") {
			t.Errorf("%v\n%s", err, out)
		}
	}
	server.Stop(t)
	if out, err := run(server.Address); err == nil || !strings.Contains(out, "the state waits for the next update") {
		t.Errorf("without a server: %v\n%s", err, out)
	}
}
