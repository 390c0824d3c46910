package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// commandsOf are the lines of a page's sh blocks that call kymogram, without comments.
func commandsOf(t *testing.T, page string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(block[1]) {
			line, _, _ = strings.Cut(line, " #")
			if command, ok := strings.CutPrefix(strings.TrimSpace(line), "kymogram "); ok {
				lines = append(lines, command)
			}
		}
	}
	return lines
}

// Every command of the pages about signed state runs as it stands, with the names of
// this server, and again in another folder.
func TestTheCommandsOfTheStatePages(t *testing.T) {
	docs, err := filepath.Abs("../../../docs")
	if err != nil {
		t.Fatal(err)
	}
	commands := append(commandsOf(t, filepath.Join(docs, "state.md")), commandsOf(t, filepath.Join(docs, "network.md"))...)
	if len(commands) < 12 {
		t.Fatalf("only %d commands were found", len(commands))
	}
	k := serveKitchen(t, "--state-log")
	a := k.signer(1)
	a.put(`{"stats":{"1":{"score":1}}}`)
	a.put(`{"stats":{"1":{"score":2}}}`)
	for range 2 {
		t.Chdir(t.TempDir())
		id := ""
		for _, command := range commands {
			if strings.HasPrefix(command, "serve") { // it runs
				continue
			}
			command = strings.NewReplacer(
				"neuralinternet/opencompute/0djlnjjs", "lab/net/run1", "neuralinternet/opencompute", "lab/net", "WORKSPACE/PROJECT/RUN", "lab/net/run1", "WORKSPACE/PROJECT", "lab/net",
				"default/validator1", "w/h1 --wallet-path "+filepath.Join(k.env["HOME"], "wallets"), "revoke ID", "revoke "+id,
			).Replace(command)
			code, out, errs := k.run(strings.Fields(command)...)
			if code != 0 {
				t.Errorf("kymogram %s: %d\n%s%s", command, code, out, errs)
			}
			if strings.HasPrefix(command, "key list") {
				id = regexp.MustCompile(`(?m)^(\S+) .*public link`).FindStringSubmatch(out)[1]
			}
		}
	}
}
