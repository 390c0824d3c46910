package blob

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Secret reads the secret of signed URLs; the first start makes it. A file
// that a crash cut short is made anew: URLs signed by it end.
func Secret(path string) ([]byte, error) {
	const size = 32
	secret, err := os.ReadFile(path)
	if err == nil && len(secret) == size {
		return secret, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the secret of blob URLs: %w", err)
	}
	secret = make([]byte, size)
	_, _ = rand.Read(secret) // never fails, see crypto/rand
	if err := os.WriteFile(path, secret, 0o600); err != nil {
		return nil, fmt.Errorf("write the secret of blob URLs: %w", err)
	}
	return secret, nil
}
