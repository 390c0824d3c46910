package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/testkit/postgres"
)

// TestMigrate moves the catalog of a server with the commands of docs/scale-out.md, and back.
// In between the server has its runs and takes its keys.
func TestMigrate(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "scale-out.md"))
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^kymogram (migrate (?:--back )?--data \S+ --catalog .*)$`).FindAllStringSubmatch(string(page), -1)
	if len(commands) != 2 {
		t.Fatalf("the page has the commands %q", commands)
	}
	url, folder := postgres.Start(t).URL(t), t.TempDir()
	args := func(command string, more ...string) []string {
		line := strings.NewReplacer("/var/lib/kymogram", folder, "postgres://kymogram@db.example.org/kymogram", url).Replace(command)
		return append(strings.Fields(line), more...)
	}
	out, back := args(commands[0][1]), args(commands[1][1], "--json")
	var list string
	served := func(name string, use func(k *kitchen), more ...string) {
		t.Run(name, func(t *testing.T) {
			k := serveKitchen(t, append([]string{"--data", folder}, more...)...)
			use(k)
			if keys := k.ok("key", "list"); !strings.Contains(keys, "admin") {
				t.Error(keys)
			}
			if got := k.ok("runs", "list", "p"); list == "" {
				list = got
			} else if got != list {
				t.Errorf("%s\nbecame\n%s", list, got)
			}
		})
	}
	refused := func(args []string, code int, words ...string) {
		t.Helper()
		k := &kitchen{t: t, env: map[string]string{}}
		got, _, errs := k.run(args...)
		for _, text := range words {
			if got != code || !strings.Contains(errs, text) {
				t.Errorf("%q: %d %s, want %q", args, got, errs, text)
			}
		}
	}
	served("file", func(k *kitchen) {
		table := filepath.Join(k.env["HOME"], "runs.csv")
		if err := os.WriteFile(table, []byte("step,loss\n1,0.5\n2,0.25\n"), 0o600); err != nil {
			k.t.Fatal(err)
		}
		k.ok("import", "csv", table, "--project", "p")
		refused(out, 1, "is in use by another process", "Stop the server first")
	})
	refused([]string{"migrate", "--data", folder}, 2, "which database?")
	refused([]string{"migrate", "--data", folder, "--catalog", "mysql://x"}, 2, "postgres://")
	k := &kitchen{t: t, env: map[string]string{}}
	if said := k.ok(out...); !strings.Contains(said, "each table was read again and compared") || !strings.Contains(said, "catalog.moved-") || strings.Contains(said, "search_path") {
		t.Error(said)
	}
	refused([]string{"serve", "--data", folder, "--http", "127.0.0.1:0"}, 1, "the catalog of "+folder+" is in postgres://127.0.0.1", "kymogram migrate --back")
	served("database", func(*kitchen) {}, "--catalog", url)
	var moved struct {
		Already bool
		Rows    int
		Tables  []struct{ Table string }
	}
	if said := k.ok(back...); json.Unmarshal([]byte(said), &moved) != nil || moved.Already || moved.Rows == 0 || len(moved.Tables) == 0 {
		t.Error(said)
	}
	refused([]string{"serve", "--data", folder, "--http", "127.0.0.1:0", "--catalog", url}, 1, "kymogram migrate --data "+folder)
	served("file again", func(*kitchen) {})
}
