package netstate

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
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
	return netrcKey(string(text), base)
}

// netrcKey is the password of the machine HOST or HOST:PORT. The entry "default" is
// for nobody in particular, so not for us; what a macro holds is no entry.
func netrcKey(text string, base *url.URL) (key string) {
	machine := ""
	for words := netrcWords(text); len(words) > 0; {
		word := words[0]
		words = words[1:]
		switch {
		case word == "default":
			machine = ""
		case len(words) == 0:
			return key
		case word == "machine":
			machine, words = words[0], words[1:]
		case word == "login" || word == "account" || word == "password":
			if word == "password" && (machine == base.Hostname() || machine == base.Host) && machine != "" && key == "" {
				key = words[0]
			}
			words = words[1:]
		}
	}
	return key
}

// netrcWords leaves out comments and macros, which last to the next empty line.
func netrcWords(text string) (words []string) {
	macro := false
	for line := range strings.Lines(text) {
		found := strings.Fields(line)
		if len(found) == 0 {
			macro = false
		}
		for i, word := range found {
			if macro || strings.HasPrefix(word, "#") && (i == 0 || found[i-1] != "password") {
				break
			}
			if word == "macdef" {
				macro = true
				break
			}
			words = append(words, word)
		}
	}
	return words
}
