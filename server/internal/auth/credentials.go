package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/platform"
)

// CredentialsPath is the file in which one user's clients find keys by address,
// "" when neither XDG_CONFIG_HOME nor HOME is set.
func CredentialsPath(env func(string) string) string {
	folder := platform.ConfigFolder(env)
	if folder == "" {
		return ""
	}
	return filepath.Join(folder, "kymogram", "credentials.json")
}

// Credentials reads the keys by address; a missing file holds none.
func Credentials(path string) (map[string]string, error) {
	keys := map[string]string{}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return keys, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read credentials: %w", err)
	}
	if err := json.Unmarshal(raw, &keys); err != nil || keys == nil {
		return nil, model.Errorf(model.CodeInvalid, "%s is not a JSON object of address to key", path).
			WithHint("correct or remove the file")
	}
	return keys, nil
}

// Share makes sure that there is an admin key, as [Keyring.Bootstrap] does, and puts it
// where this user's clients look for the key of page. A place that cannot be written is
// only warned of.
func (k *Keyring) Share(ctx context.Context, dir, given, page string, env func(string) string, log *slog.Logger) error {
	secret, err := k.Bootstrap(ctx, dir, given)
	if err != nil || secret == "" {
		return err
	}
	path := CredentialsPath(env)
	if path == "" {
		log.Warn("no folder for credentials: HOME and XDG_CONFIG_HOME are not set")
		return nil
	}
	if err := SaveCredentials(ctx, path, secret, Addresses(page)...); err != nil {
		log.Warn("clients will not find the admin key by themselves", "err", err, "key", filepath.Join(dir, AdminKeyFile))
	}
	return nil
}

// Addresses are the ways in which this user's clients may write one address.
func Addresses(page string) []string {
	out := []string{page}
	if u, err := url.Parse(page); err == nil && u.Port() != "" && net.ParseIP(u.Hostname()).IsLoopback() {
		u.Host = net.JoinHostPort("localhost", u.Port())
		out = append(out, u.String())
	}
	return out
}

// SaveCredentials merges a key for some addresses into the file (0600). Loopback
// addresses under which the same key was known before are dropped, where nothing listens
// any more: the server has moved to another port. Where it still runs, this one is its copy.
func SaveCredentials(ctx context.Context, path, secret string, addresses ...string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write credentials: %w", err)
	}
	unlock, err := lockFile(path + ".lock")
	if err != nil {
		return fmt.Errorf("write credentials: %w", err)
	}
	defer unlock()
	keys, err := Credentials(path)
	if err != nil {
		return err
	}
	for address, key := range keys {
		if key == secret && isLoopback(address) && !listens(ctx, address) {
			delete(keys, address)
		}
	}
	for _, address := range addresses {
		keys[address] = secret
	}
	return write(path, keys)
}

// ForgetCredentials removes the keys of some addresses from the file.
func ForgetCredentials(path string, addresses ...string) error {
	unlock, err := lockFile(path + ".lock")
	if err != nil {
		return fmt.Errorf("write credentials: %w", err)
	}
	defer unlock()
	keys, err := Credentials(path)
	if err != nil {
		return err
	}
	for _, address := range addresses {
		delete(keys, address)
	}
	return write(path, keys)
}

func write(path string, keys map[string]string) error {
	raw, err := json.MarshalIndent(keys, "", "  ")
	if err != nil {
		return fmt.Errorf("write credentials: %w", err)
	}
	return writeSecret(path, append(raw, '\n'))
}

// listens says whether a program takes connections at a loopback address.
func listens(ctx context.Context, address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	c, err := (&net.Dialer{Timeout: 200 * time.Millisecond}).DialContext(ctx, "tcp", u.Host)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

func isLoopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
