package statelog

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/transparency"
)

// errForeignKey is why nothing is signed with the key of the file.
func errForeignKey() error {
	return model.Errorf(model.CodeUnavailable, "log.key is not the key that signed the heads of the Merkle log so far: the file was changed or replaced").
		WithHint("restore log.key from a backup; delete it only if witnesses shall see a new log")
}

func errForeignKeyThere() error {
	return model.Errorf(model.CodeUnavailable, "the key in state_key is not the one that signed the heads of the Merkle log so far").
		WithHint("restore the database from a backup; docs/scale-out.md says how to begin a new log, which witnesses see")
}

// OpenTree is the Merkle log. Its key is in a file, which the first start makes. That of
// records in a database is there, and the file is not looked at.
func (l *Log) OpenTree(ctx context.Context, path string) (*Tree, error) {
	if d, ok := l.base.(*database); ok {
		key, err := d.key(ctx, newSeed())
		if err != nil {
			return nil, l.failure("read the log's key", err)
		}
		tree := l.Tree(key)
		return tree, tree.begin(ctx, false, errForeignKeyThere())
	}
	_, missing := os.Stat(path)
	key, err := SigningKey(path)
	if err != nil {
		return nil, err
	}
	tree := l.Tree(key)
	return tree, tree.begin(ctx, errors.Is(missing, fs.ErrNotExist), errForeignKey())
}

// begin compares the key with the newest head that was signed. A key that was made just
// now begins new logs; any other that did not sign it signs nothing: a bit of its file
// may be wrong, and witnesses would see a server that began anew.
func (t *Tree) begin(ctx context.Context, made bool, foreign error) error {
	if t.log.Broken() != nil {
		return nil // its calls say why
	}
	signed, err := newestIsOf(ctx, t.log.base, t.public())
	if err != nil || signed {
		return t.log.failure("read the newest tree head", err)
	}
	if !made {
		t.refused = foreign
		t.log.log.Error("no head of the Merkle log is signed; everything else is served", "err", t.refused)
		return nil
	}
	return t.renewAll(ctx)
}

func (t *Tree) public() ed25519.PublicKey { return t.key.Public().(ed25519.PublicKey) }

// signedProject is one that has heads.
type signedProject struct {
	project
	workspace, name string
}

// renewAll forgets the heads of every project.
func (t *Tree) renewAll(ctx context.Context) error {
	all, err := signedProjects(ctx, t.log.base)
	if err != nil {
		return t.log.failure("list the tree heads", err)
	}
	for _, p := range all {
		if err := t.renew(ctx, p.project, p.workspace, p.name); err != nil {
			return err
		}
	}
	return nil
}

func signedProjects(ctx context.Context, q querier) (all []signedProject, err error) {
	rows, err := q.QueryContext(ctx, `SELECT id, workspace, project FROM projects WHERE id IN (SELECT project FROM heads)`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var p signedProject
		if err := rows.Scan(&p.id, &p.workspace, &p.name); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, rows.Err()
}

// newestIsOf says that a key signed the newest head of a file, or that there is none.
func newestIsOf(ctx context.Context, q querier, key ed25519.PublicKey) (bool, error) {
	h := transparency.SignedHead{Key: transparency.PublicKey(key)}
	var hash, signature []byte
	err := q.QueryRowContext(ctx, `SELECT p.workspace, p.project, h.size, h.root, h.time_ms, h.signature FROM heads h JOIN projects p ON p.id = h.project ORDER BY h.time_ms DESC LIMIT 1`).
		Scan(&h.Workspace, &h.Project, &h.Size, &hash, &h.TimeMs, &signature)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	copy(h.Root[:], hash)
	copy(h.Signature[:], signature)
	return err == nil && h.Check() == nil, err
}

// CompareKey says what is wrong with the key of the Merkle log in a file, "" for
// nothing: it must be the one that signed the newest head. A server may be using both.
func CompareKey(ctx context.Context, path, keyFile string) (fault string, err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	seed, err := os.ReadFile(keyFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the log's key: %w", err)
	}
	there := err == nil
	if there && len(seed) != ed25519.SeedSize {
		return fmt.Sprintf("it has %d bytes, not %d", len(seed), ed25519.SeedSize), nil
	}
	public := make(ed25519.PublicKey, ed25519.PublicKeySize)
	if there {
		public = ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
	}
	var signed bool
	err = looking(path, func(db *sql.DB) (err error) {
		signed, err = newestIsOf(ctx, db, public)
		return err
	})
	switch {
	case err != nil || signed:
		return "", ctx.Err() //nolint:nilerr // damaged records are named elsewhere
	case !there:
		return "it is missing, and heads were signed with it", nil
	}
	return "it is not the key that signed the heads so far", nil
}

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
	seed = newSeed()
	return ed25519.NewKeyFromSeed(seed), writeKey(path, seed)
}

func newSeed() []byte {
	seed := make([]byte, ed25519.SeedSize)
	_, _ = rand.Read(seed) // never fails, see crypto/rand
	return seed
}

func writeKey(path string, seed []byte) error {
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write the log's key: %w", err)
	}
	_, err = f.Write(seed)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("write the log's key: %w", err)
	}
	return nil
}
