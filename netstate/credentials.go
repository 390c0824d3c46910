package netstate

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/kymogram/kymogram/internal/remote"
)

// keyFor finds the API key for a server: KYMOGRAM_API_KEY, else WANDB_API_KEY where
// WANDB_BASE_URL names this server, else the server's entry in .netrc. "" leaves the
// search to the SDK, which looks into credentials.json. A key of another host is
// never sent: WANDB_API_KEY alone is one of W&B's own service.
func keyFor(server string, env func(string) string) string {
	if key := env("KYMOGRAM_API_KEY"); key != "" {
		return key
	}
	base, err := url.Parse(server)
	if err != nil || base.Hostname() == "" {
		return ""
	}
	wandb, err := url.Parse(env("WANDB_BASE_URL"))
	if key := env("WANDB_API_KEY"); key != "" && err == nil && wandb.Scheme == base.Scheme && strings.EqualFold(wandb.Host, base.Host) {
		return key
	}
	path := env("NETRC")
	if path == "" {
		path = filepath.Join(env("HOME"), ".netrc")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return remote.NetrcKey(string(text), base)
}
