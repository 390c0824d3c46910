package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/platform"
)

// StoredKey looks the spellings of an address up in credentials.json of the user's
// configuration folder; no file is no error. A damaged file is a *model.Error.
func StoredKey(config string, spellings ...string) (string, error) {
	path := filepath.Join(config, "kymogram", "credentials.json")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the stored key: %w", err)
	}
	var keys map[string]string
	if err := json.Unmarshal(data, &keys); err != nil {
		return "", model.Errorf(model.CodeInvalid, "%s is not a JSON object of address to key", path).WithHint("correct or remove the file, or give a key")
	}
	for _, address := range spellings {
		if key := keys[address]; key != "" {
			return key, nil
		}
	}
	return "", nil
}

// UserKey looks an address up in credentials.json of a user at a terminal, however it is
// spelled.
func UserKey(env func(string) string, base *url.URL) (string, error) {
	folder := platform.ConfigFolder(env)
	if folder == "" {
		return "", nil
	}
	key, err := StoredKey(folder, Spellings(base)...)
	if damaged := (*model.Error)(nil); errors.As(err, &damaged) {
		return "", damaged.WithHint(`it holds {"http://127.0.0.1:7070": "KEY"}; correct or remove the file, or give --key`)
	}
	return key, err
}

// Spellings are the ways to write an address: localhost is 127.0.0.1 too.
func Spellings(base *url.URL) []string {
	out := []string{base.String(), base.String() + "/"}
	host := base.Hostname()
	for _, other := range []string{"127.0.0.1", "localhost", "[::1]"} {
		if (host == "localhost" || net.ParseIP(host).IsLoopback()) && base.Port() != "" {
			out = append(out, base.Scheme+"://"+other+":"+base.Port())
		}
	}
	return out
}
