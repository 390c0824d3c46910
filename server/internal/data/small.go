package data

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kymogram/kymogram/server/internal/catalog/sqlite"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// small names what is wrong with the small files: a server refuses to start with them.
func (s *Survey) small(ctx context.Context, f Folder) error {
	if v, err := strconv.Atoi(strings.Trim(s.Store.Version, "\x00")); s.Store.Version != "" && (err != nil || v > local.Version) {
		s.Apart = append(s.Apart, fmt.Sprintf("%s/VERSION says %q, and this program knows up to %d: write the version of the backup into it", StoreFolder, s.Store.Version, local.Version))
	}
	if info, err := os.Stat(filepath.Join(string(f), LogKeyFile)); err == nil && info.Size() != ed25519.SeedSize {
		s.Apart = append(s.Apart, fmt.Sprintf("%s has %d bytes, not %d: restore it from a backup", LogKeyFile, info.Size(), ed25519.SeedSize))
	}
	return s.adminKey(ctx, f)
}

// adminKey compares the file of the first key with the catalog, which has its hash.
func (s *Survey) adminKey(ctx context.Context, f Folder) error {
	raw, err := os.ReadFile(filepath.Join(string(f), AdminKeyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	secret := strings.TrimSpace(string(raw))
	if _, err := hex.DecodeString(secret); err != nil || len(secret) != 40 || strings.ToLower(secret) != secret {
		s.Apart = append(s.Apart, AdminKeyFile+" does not hold a key: restore it from a backup, or remove it")
		return nil
	}
	if len(s.Catalog.Damage) > 0 {
		return nil // it may know the key after its repair
	}
	known, err := sqlite.KnowsKey(ctx, f.Catalog(), sha256.Sum256([]byte(secret)))
	if err == nil && !known && s.Catalog.Keys > 0 {
		s.Apart = append(s.Apart, AdminKeyFile+" holds a key that the catalog does not know: restore it from a backup, or remove it")
	}
	return err
}
