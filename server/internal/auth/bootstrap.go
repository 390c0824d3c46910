package auth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/platform"
)

// AdminKeyFile is the first admin key's file in the data folder.
const AdminKeyFile = "admin.key"

// adminName is the name of the key that the first start makes.
const adminName = "admin"

// Bootstrap makes sure that somebody can administer a server: the first start
// makes an admin key and writes it into dir (0600). It returns the key in that
// file, "" when an admin removed the file and other admin keys exist. given is
// the key that the first start takes instead of a random one, "" for none.
func (k *Keyring) Bootstrap(ctx context.Context, dir, given string) (secret string, err error) {
	path := filepath.Join(dir, AdminKeyFile)
	secret, err = readSecret(path)
	if err != nil {
		return "", err
	}
	if secret != "" {
		if err := k.checkKnown(ctx, path, secret); err != nil {
			return "", err
		}
		return secret, k.adopt(ctx, secret)
	}
	if ok, err := k.hasAdmin(ctx); ok || err != nil {
		return "", err
	}
	// The file first: a key that nobody could read back would be of no use.
	if secret = given; secret == "" {
		secret = newSecret()
	}
	if err := writeSecret(path, []byte(secret+"\n")); err != nil {
		return "", err
	}
	return secret, k.adopt(ctx, secret)
}

// checkKnown refuses a file that was changed or replaced: the catalog knows the hash
// of the key that it held. Without any admin key there is none to compare with.
func (k *Keyring) checkKnown(ctx context.Context, path, secret string) error {
	_, err := k.keys.FindKey(ctx, hashSecret(secret))
	if model.CodeOf(err) != model.CodeNotFound {
		return err
	}
	if ok, err := k.hasAdmin(ctx); !ok || err != nil {
		return err
	}
	return model.Errorf(model.CodeInvalid, "%s holds a key that the catalog does not know: the file was changed or replaced", path).
		WithHint("restore the file from a backup, or remove it: the other admin keys stay valid. Without any of them run `kymogram key create --data %s --name admin --scope admin`", filepath.Dir(path))
}

// adopt stores the key of the file unless the catalog knows it; a revoked key
// stays revoked.
func (k *Keyring) adopt(ctx context.Context, secret string) error {
	_, err := k.keys.FindKey(ctx, hashSecret(secret))
	if model.CodeOf(err) != model.CodeNotFound {
		return err
	}
	spec := KeySpec{Name: adminName, Scopes: []Scope{Admin}}
	if err := k.keys.PutKey(ctx, newKey(spec, secret, k.now())); err != nil {
		return fmt.Errorf("store the admin key: %w", err)
	}
	return nil
}

func (k *Keyring) hasAdmin(ctx context.Context) (bool, error) {
	keys, err := k.List(ctx)
	if err != nil {
		return false, err
	}
	now := k.now().UnixNano()
	return slices.ContainsFunc(keys, func(key Key) bool {
		alive := key.RevokedNs == 0 && (key.ExpiresNs == 0 || now < key.ExpiresNs)
		return alive && key.Name != SessionName && key.Workspace == "" && slices.Contains(key.Scopes, Admin)
	}), nil
}

func readSecret(path string) (string, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read admin key: %w", err)
	}
	defer file.Close()
	if err := checkOwner(file); err != nil {
		return "", err
	}
	raw, err := io.ReadAll(io.LimitReader(file, 1<<10))
	if err != nil {
		return "", fmt.Errorf("read admin key: %w", err)
	}
	secret := strings.TrimSpace(string(raw))
	if !wellFormed(secret) {
		return "", model.Errorf(model.CodeInvalid, "%s does not hold an API key (40 lower-case hexadecimal characters)", path).
			WithHint("restore the file, or remove it: the next start makes a new admin key when there is no other")
	}
	return secret, nil
}

// checkOwner refuses a key that others may know or may have put there.
func checkOwner(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("read admin key: %w", err)
	}
	if !platform.IsMine(info) {
		return model.Errorf(model.CodePermission, "%s belongs to another user, so it may not be this server's key", file.Name()).
			WithHint("give the file to the server's user (chown), or remove it: the next start makes a new key when there is no other")
	}
	if !platform.IsPrivate(info) {
		return model.Errorf(model.CodePermission, "%s can be read or changed by other users (mode %04o)", file.Name(), info.Mode().Perm()).
			WithHint("run: chmod 600 %s; when somebody else may have read it, revoke this key after the start (kymogram key revoke)", file.Name())
	}
	return nil
}

// writeSecret replaces a file as a whole; only its owner may read it.
func writeSecret(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
