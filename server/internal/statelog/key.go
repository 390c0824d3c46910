package statelog

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/kymogram/kymogram/internal/model"
)

// SigningKey reads the key of the Merkle log; the first use makes it. A key that
// is damaged is never replaced: witnesses know it.
func SigningKey(path string) (ed25519.PrivateKey, error) {
	seed, err := os.ReadFile(path)
	switch {
	case err == nil && len(seed) == ed25519.SeedSize:
		return ed25519.NewKeyFromSeed(seed), nil
	case err == nil:
		return nil, model.Errorf(model.CodeConflict, "the log's key %s has %d bytes, not %d", path, len(seed), ed25519.SeedSize).
			WithHint("restore it from a backup; delete it only if witnesses shall see a new log")
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("read the log's key: %w", err)
	}
	seed = make([]byte, ed25519.SeedSize)
	_, _ = rand.Read(seed) // never fails, see crypto/rand
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("write the log's key: %w", err)
	}
	_, err = f.Write(seed)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return nil, fmt.Errorf("write the log's key: %w", err)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}
