package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/platform"
)

// Keys maps a server's address to the key for it.
type Keys map[string]string

// ReadKeys reads a credentials file; a missing one is empty.
func ReadKeys(path string) (Keys, error) {
	keys := Keys{}
	f, err := os.OpenFile(path, os.O_RDONLY|platform.NoFollow, 0)
	if errors.Is(err, os.ErrNotExist) {
		return keys, nil
	}
	if err != nil {
		return keys, fmt.Errorf("open credentials: %w", err)
	}
	defer f.Close()
	if err := json.NewDecoder(f).Decode(&keys); err != nil {
		return Keys{}, fmt.Errorf("%s is not a JSON object of address to key; correct or remove the file: %w", path, err)
	}
	return keys, nil
}

// Keys reads the folder's credentials.
func (f *Folder) Keys() (Keys, error) { return ReadKeys(filepath.Join(f.Path, "credentials")) }

// SetKey keeps the key of a server in the folder, where the deliverer finds it.
func (f *Folder) SetKey(server, key string) error {
	lock, err := waitLock(filepath.Join(f.Path, "credentials.lock"), 2*time.Second)
	if err != nil {
		return err
	}
	return errors.Join(f.setKey(server, key), lock.Release())
}

func (f *Folder) setKey(server, key string) error {
	keys, err := f.Keys()
	if err != nil {
		return err
	}
	if keys[server] == key {
		return nil
	}
	keys[server] = key
	return f.writeKeys(keys)
}

func (f *Folder) writeKeys(keys Keys) error {
	doc, err := json.Marshal(keys)
	if err != nil {
		return fmt.Errorf("encode credentials: %w", err)
	}
	return replace(filepath.Join(f.Path, "credentials"), doc)
}

// ForgetKey removes a key, whatever servers it is kept for, from the folders where a spool
// may lie. It makes none of them.
func ForgetKey(env func(string) string, key string) error {
	var failed []error
	for _, path := range Candidates(env) {
		if _, err := os.Lstat(filepath.Join(path, "credentials")); err != nil {
			continue
		}
		folder, err := OpenFolder(path)
		if err == nil {
			err = folder.forgetKey(key)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

func (f *Folder) forgetKey(key string) error {
	lock, err := waitLock(filepath.Join(f.Path, "credentials.lock"), 2*time.Second)
	if err != nil {
		return err
	}
	keys, err := f.Keys()
	before := len(keys)
	maps.DeleteFunc(keys, func(_, one string) bool { return one == key })
	if len(keys) < before {
		err = f.writeKeys(keys)
	}
	return errors.Join(err, lock.Release())
}

// waitLock takes a lock that others hold for moments only.
func waitLock(path string, limit time.Duration) (*Lock, error) {
	for deadline := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		lock, ok, err := tryLock(path)
		if err != nil || ok {
			return lock, err
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("lock %s: another program holds it", path)
		}
	}
}

// UserKeys reads credentials.json of the user's configuration.
func UserKeys(env func(string) string) (Keys, error) {
	folder := platform.ConfigFolder(env)
	if folder == "" {
		return Keys{}, nil
	}
	return ReadKeys(filepath.Join(folder, "kymogram", "credentials.json"))
}

// For is the key for a server; localhost and the loopback addresses are one host.
func (k Keys) For(server string) string {
	for _, address := range spellings(strings.TrimRight(server, "/")) {
		if key := k[address]; key != "" {
			return key
		}
		if key := k[address+"/"]; key != "" {
			return key
		}
	}
	return ""
}

func spellings(server string) []string {
	out := []string{server}
	u, err := url.Parse(server)
	if err != nil || u.Port() == "" {
		return out
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && !ip.IsLoopback() {
		return out
	}
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]"} {
		out = append(out, u.Scheme+"://"+host+":"+u.Port())
	}
	return out
}
