package netstate

import (
	"os"
	"path/filepath"
	"testing"
)

// A key goes to the host that it is for, and to no other.
func TestKeysOfOtherHostsAreNotSent(t *testing.T) {
	home := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(".netrc", `# machine kymo.example password in-a-comment
machine api.wandb.ai
  login user
  password of-wandb
machine kymo.example login user password ours
macdef machine kymo.example password in-a-macro
machine macro.example password in-a-macro

machine port.example:7070 login u password with-a-port
machine hash.example login u password #hash
machine password login machine password odd
machine nopass.example login user
default login anonymous password of-everybody
machine cut.example password`)
	write("other", "machine kymo.example login u password from-NETRC\n")
	for _, tt := range []struct {
		server string
		env    map[string]string
		want   string
	}{
		{"https://kymo.example", nil, "ours"},
		{"https://kymo.example:7070", nil, "ours"},
		{"https://port.example:7070", nil, "with-a-port"},
		{"https://port.example", nil, ""},
		{"https://hash.example", nil, "#hash"},
		{"https://password", nil, "odd"},
		{"https://stranger.example", nil, ""},
		{"https://macro.example", nil, ""},
		{"https://wandb.ai", nil, ""},
		{"https://nopass.example", nil, ""},
		{"https://kymo.example.evil", nil, ""},
		{"https://cut.example", nil, ""},
		{"https://kymo.example", map[string]string{"KYMOGRAM_API_KEY": "k"}, "k"},
		{"https://kymo.example", map[string]string{"NETRC": filepath.Join(home, "other")}, "from-NETRC"},
		{"https://kymo.example", map[string]string{"WANDB_API_KEY": "w"}, "ours"},
		{"https://stranger.example", map[string]string{"WANDB_API_KEY": "w"}, ""},
		{"https://stranger.example", map[string]string{"WANDB_API_KEY": "w", "WANDB_BASE_URL": "https://api.wandb.ai"}, ""},
		{"http://stranger.example", map[string]string{"WANDB_API_KEY": "w", "WANDB_BASE_URL": "https://stranger.example"}, ""},
		{"https://stranger.example", map[string]string{"WANDB_API_KEY": "w", "WANDB_BASE_URL": "https://stranger.example/"}, "w"},
		{"", nil, ""},
	} {
		env := func(name string) string {
			if name == "HOME" {
				return home
			}
			return tt.env[name]
		}
		if got := keyFor(tt.server, env); got != tt.want {
			t.Errorf("%s with %v: %q, want %q", tt.server, tt.env, got, tt.want)
		}
	}
}
