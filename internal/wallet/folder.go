package wallet

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/platform"
)

// DefaultHotkey is the name that Bittensor's tools give a hotkey.
const DefaultHotkey = "default"

// Folder names a hotkey on disk: <Path>/<Name>/hotkeys/<Hotkey>.
type Folder struct {
	Path   string // empty: ~/.bittensor/wallets
	Name   string
	Hotkey string // empty: default
}

// ParseFolder reads NAME or NAME/HOTKEY.
func ParseFolder(path, text string) (Folder, error) {
	name, hotkey, _ := strings.Cut(text, "/")
	f := Folder{Path: path, Name: name, Hotkey: hotkey}
	if f.Hotkey == "" {
		f.Hotkey = DefaultHotkey
	}
	for _, part := range []string{f.Name, f.Hotkey} {
		if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "/\\\x00") {
			return Folder{}, model.Errorf(model.CodeInvalid, "%q names no wallet", text).
				WithHint("give NAME or NAME/HOTKEY, such as default/miner1; the folder goes into --wallet-path")
		}
	}
	return f, nil
}

// File is the hotkey's file.
func (f Folder) File() (string, error) {
	path := f.Path
	if path == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", model.Errorf(model.CodeInvalid, "no home folder to look for wallets in").
				WithHint("name the folder of the wallets with --wallet-path")
		}
		path = filepath.Join(home, ".bittensor", "wallets")
	}
	hotkey := f.Hotkey
	if hotkey == "" {
		hotkey = DefaultHotkey
	}
	return filepath.Join(path, f.Name, "hotkeys", hotkey), nil
}

// Open reads the hotkey. Warnings name what other users of the machine could do
// with the file.
func (f Folder) Open(password Password) (key *Key, warnings []string, err error) {
	path, err := f.File()
	if err != nil {
		return nil, nil, err
	}
	raw, info, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, absent(path)
	}
	if err != nil {
		return nil, nil, err
	}
	key, err = Decode(raw, password)
	return key, exposed(path, info, raw, os.Getuid()), err
}

func absent(path string) *model.Error {
	return model.Errorf(model.CodeNotFound, "there is no hotkey at %s", path).
		WithHint("give --wallet NAME/HOTKEY and --wallet-path; `btcli wallet list` shows what there is")
}

// readFile reads a file of a wallet. It does not wait for a pipe that nobody writes.
func readFile(path string) ([]byte, fs.FileInfo, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open the key file: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("look at the key file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, nil, model.Errorf(model.CodeInvalid, "%s is not a file", path).
			WithHint("name a hotkey's own file, not a folder or a pipe")
	}
	raw, err := io.ReadAll(io.LimitReader(file, maxKeyFile+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read the key file: %w", err)
	}
	return raw, info, nil
}

// Public is the hotkey's public half: of its file HOTKEYpub.txt, else of the hotkey's own
// file, as far as that is not encrypted. No secret is needed.
func (f Folder) Public() (Account, error) {
	path, err := f.File()
	if err != nil {
		return Account{}, err
	}
	raw, _, err := readFile(path + "pub.txt")
	if errors.Is(err, fs.ErrNotExist) {
		raw, _, err = readFile(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Account{}, absent(path)
	case err != nil:
		return Account{}, err
	case Sealed(raw):
		return Account{}, model.Errorf(model.CodeInvalid, "the hotkey %s is encrypted, and there is no %spub.txt", path, filepath.Base(path)).
			WithHint("give the address itself with --hotkey, or write the public half with `btcli wallet regen-hotkeypub`")
	}
	account, err := DecodePublic(raw)
	if err == nil {
		return account, nil
	}
	// A file that only holds a seed names no public key.
	if key, secretErr := Decode(raw, nil); secretErr == nil {
		return key.Account(), nil
	}
	return Account{}, err
}

// exposed says who else can read the secret, where the system has owners.
func exposed(path string, info fs.FileInfo, raw []byte, uid int) (warnings []string) {
	owner, known := platform.Owner(info)
	if !known {
		return nil
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && !Sealed(raw) {
		warnings = append(warnings, fmt.Sprintf("other users may open the hotkey %s (mode %04o); chmod 600 it", path, mode))
	}
	if owner != uid {
		warnings = append(warnings, fmt.Sprintf("the hotkey %s belongs to another user (uid %d)", path, owner))
	}
	return warnings
}

// Coldkey is the wallet's owner, from the file that holds its public half.
func (f Folder) Coldkey() (Account, error) {
	hotkey, err := f.File()
	if err != nil {
		return Account{}, err
	}
	path := filepath.Join(filepath.Dir(filepath.Dir(hotkey)), "coldkeypub.txt")
	raw, _, err := readFile(path)
	if err != nil {
		return Account{}, fmt.Errorf("read the coldkey's public half: %w", err)
	}
	return DecodePublic(raw)
}
