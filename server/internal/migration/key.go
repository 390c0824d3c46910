package migration

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
)

// maxKeyFile is how large a file with a key may be.
const maxKeyFile = 64 << 10

// Key finds the key of a W&B server: in a file where one is named, in WANDB_API_KEY, else
// in .netrc. from says where it was, for a person; no key is no error.
func Key(env func(string) string, file string, base *url.URL) (key, from string, err error) {
	if file != "" {
		info, err := os.Stat(file)
		if err != nil {
			return "", "", fmt.Errorf("read the key: %w", err)
		}
		if info.Size() > maxKeyFile {
			return "", "", model.Errorf(model.CodeInvalid, "%s is no file with a key: it has %d bytes", file, info.Size())
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return "", "", fmt.Errorf("read the key: %w", err)
		}
		key, from = strings.TrimSpace(string(text)), file
		if key == "" {
			return "", "", model.Errorf(model.CodeInvalid, "%s holds no key", file)
		}
		return key, from, checkKey(key, from)
	}
	if key = strings.TrimSpace(env("WANDB_API_KEY")); key != "" {
		return key, "WANDB_API_KEY", checkKey(key, "WANDB_API_KEY")
	}
	paths := []string{filepath.Join(env("HOME"), ".netrc"), filepath.Join(env("HOME"), "_netrc")}
	if path := env("NETRC"); path != "" {
		paths = []string{path}
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if key := remote.NetrcKey(string(text), base); key != "" {
			return key, path, checkKey(key, path)
		}
	}
	return "", "", nil
}

func checkKey(key, from string) error {
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return model.Errorf(model.CodeInvalid, "the key from %s holds a space or a control character", from)
	}
	return nil
}
