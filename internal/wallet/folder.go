package wallet

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

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
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, model.Errorf(model.CodeNotFound, "there is no hotkey at %s", path).
			WithHint("give --wallet NAME/HOTKEY and --wallet-path; `btcli wallet list` shows what there is")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("open the hotkey: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("look at the hotkey: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, nil, model.Errorf(model.CodeInvalid, "%s is not a file", path).WithHint("name a hotkey, not a folder")
	}
	raw, err := io.ReadAll(io.LimitReader(file, maxKeyFile+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read the hotkey: %w", err)
	}
	key, err = Decode(raw, password)
	return key, exposed(path, info, raw, os.Getuid()), err
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
	raw, err := os.ReadFile(path)
	if err != nil {
		return Account{}, fmt.Errorf("read the coldkey's public half: %w", err)
	}
	return DecodePublic(raw)
}
