package statelog

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"database/sql"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/server/internal/catalog/mirror"
	"github.com/kymogram/kymogram/server/internal/transparency"
)

// MaxCosignatures is how many witnesses may sign one head.
const MaxCosignatures = 256

// growth is how many leaves one transaction adds: records wait no longer than
// that.
const growth = 4096

// Tree is the Merkle log over the records of each project. It is made when the
// setting is on; records of before are its leaves too.
type Tree struct {
	log     *Log
	key     ed25519.PrivateKey
	refused error // why the key signs nothing, see [Tree.begin]
}

// Tree makes the Merkle log, signed with key.
func (l *Log) Tree(key ed25519.PrivateKey) *Tree { return &Tree{log: l, key: key} }

// project is a row of projects.
type project struct {
	id, size, treeSize int64
}

func (l *Log) project(ctx context.Context, workspace, name string) (p project, err error) {
	err = l.db.QueryRowContext(ctx, `SELECT id, size, tree_size FROM projects WHERE workspace = ? AND project = ?`, workspace, name).Scan(&p.id, &p.size, &p.treeSize)
	if errors.Is(err, sql.ErrNoRows) {
		return p, model.Errorf(model.CodeNotFound, "no record was signed in %s/%s yet", workspace, name)
	}
	return p, failure("find the project", err)
}

// Head signs the log as it is now. With cosigned it is the newest head that a
// witness signed.
func (t *Tree) Head(ctx context.Context, workspace, name string, cosigned bool) (*transparency.SignedHead, error) {
	if t.refused != nil {
		return nil, t.refused
	}
	p, err := t.log.project(ctx, workspace, name)
	if err != nil {
		return nil, err
	}
	if !cosigned {
		if err := t.grow(ctx, p, workspace, name); err != nil {
			return nil, err
		}
		if err := t.renew(ctx, p, workspace, name); err != nil {
			return nil, err
		}
		if err := t.sign(ctx, p, workspace, name); err != nil {
			return nil, err
		}
	}
	h, err := t.newest(ctx, p.id, cosigned)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, model.Errorf(model.CodeNotFound, "no witness has signed a tree head of %s/%s", workspace, name)
	}
	if err == nil {
		h.Workspace, h.Project = workspace, name
		err = t.addCosignatures(ctx, p.id, h)
	}
	return h, failure("read the tree head", err)
}

// renew forgets heads that another key signed: the operator began a new log.
func (t *Tree) renew(ctx context.Context, p project, workspace, name string) error {
	h, err := t.newest(ctx, p.id, false)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	h.Workspace, h.Project = workspace, name
	if err != nil || h.Check() == nil {
		return failure("read the tree head", err)
	}
	return t.log.write(ctx, "begin a new log", func(tx *change) error {
		// A damaged head looks like one of another key.
		v, err := diagnose(ctx, t.log.path)
		if err != nil {
			return err
		}
		if v.fault != "" || !v.agree {
			return lost(workspace, name, "the heads that were signed are damaged: "+reason(v))
		}
		t.log.log.Warn("the Merkle log has another key: its heads begin anew, and witnesses see it", "workspace", workspace, "project", name)
		if _, err = tx.ExecContext(ctx, forgetHeads, p.id); err != nil {
			return err
		}
		return tx.mirror(rowOf(rowRenewed, []any{workspace, name}, nil))
	})
}

// grow adds the records that the tree lacks.
func (t *Tree) grow(ctx context.Context, p project, workspace, name string) error {
	for p.treeSize < p.size {
		before := p.treeSize
		err := t.log.write(ctx, "grow the tree", func(tx *change) (err error) {
			p.treeSize, err = extend(ctx, tx.Tx, p.id, workspace+"/"+name)
			return err
		})
		if err == nil && p.treeSize == before {
			err = lost(workspace, name, fmt.Sprintf("record %d and what follows is missing of %d", before, p.size))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// extend adds the next leaves and tells the tree's size.
func extend(ctx context.Context, tx *sql.Tx, id int64, name string) (size int64, err error) {
	if err := tx.QueryRowContext(ctx, `SELECT tree_size FROM projects WHERE id = ?`, id).Scan(&size); err != nil {
		return 0, err
	}
	edge, err := rangeAt(ctx, tx, id, uint64(size))
	if err != nil {
		return 0, err
	}
	var failed error
	err = eachLeaf(ctx, tx, id, name, size, growth, func(record []byte) bool {
		err := edge.Append(transparency.Leaf(record), func(at compact.NodeID, hash []byte) {
			_, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO nodes (project, level, idx, hash) VALUES (?, ?, ?, ?)`, id, at.Level, at.Index, hash)
			failed = errors.Join(failed, err)
		})
		failed = errors.Join(failed, err)
		size++
		return failed == nil
	})
	if err = errors.Join(err, failed); err != nil {
		return 0, err
	}
	_, err = tx.ExecContext(ctx, `UPDATE projects SET tree_size = ? WHERE id = ?`, size, id)
	return size, err
}

// eachLeaf hands over records from an index on, until take returns false.
func eachLeaf(ctx context.Context, q querier, id int64, name string, from int64, limit int, take func(record []byte) bool) error {
	rows, err := q.QueryContext(ctx, `SELECT idx, record FROM records WHERE project = ? AND idx >= ? ORDER BY idx LIMIT ?`, id, from, limit)
	if err != nil {
		return err
	}
	defer rows.Close()
	for ; rows.Next(); from++ {
		var index int64
		var record []byte
		if err := rows.Scan(&index, &record); err != nil {
			return err
		}
		if index != from {
			return damaged(uint64(index), "of "+name, fmt.Errorf("record %d, before it, is missing", from))
		}
		if !take(record) {
			break
		}
	}
	return rows.Err()
}

type rowQuerier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// node reads a hash of the tree.
func nodesAt(ctx context.Context, q rowQuerier, id int64, at []compact.NodeID) ([][]byte, error) {
	out := make([][]byte, len(at))
	for i, n := range at {
		err := q.QueryRowContext(ctx, `SELECT hash FROM nodes WHERE project = ? AND level = ? AND idx = ?`, id, n.Level, n.Index).Scan(&out[i])
		if errors.Is(err, sql.ErrNoRows) {
			err = model.Errorf(model.CodeUnavailable, "node %d of level %d of the Merkle log is missing: state.db was damaged while the server used it", n.Index, n.Level).
				WithHint("start the server again: it makes the tree anew from the records")
		}
		if err != nil {
			return nil, fmt.Errorf("read node %d of level %d: %w", n.Index, n.Level, err)
		}
	}
	return out, nil
}

// regrow forgets the tree of each project that lacks a node: the next head makes it
// anew from the records, and must have the root that was signed.
func (l *Log) regrow(ctx context.Context) error {
	torn, err := tornTrees(ctx, l.db)
	if err != nil || len(torn) == 0 {
		return err
	}
	for id, name := range torn {
		l.health.Regrown = append(l.health.Regrown, name)
		l.log.Warn("nodes of the Merkle log are missing: it is made anew from the records", "project", name, "file", l.path)
		if _, err := l.db.ExecContext(ctx, `UPDATE projects SET tree_size = 0 WHERE id = ?1; DELETE FROM nodes WHERE project = ?1`, id); err != nil {
			return err
		}
	}
	slices.Sort(l.health.Regrown)
	return nil
}

// tornTrees are the projects whose tree has not the number of nodes that its size needs.
func tornTrees(ctx context.Context, q querier) (map[int64]string, error) {
	rows, err := q.QueryContext(ctx, `SELECT id, workspace || '/' || project, tree_size, (SELECT count(*) FROM nodes n WHERE n.project = p.id) FROM projects p`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	torn := map[int64]string{}
	for rows.Next() {
		var id, size, nodes int64
		var name string
		if err := rows.Scan(&id, &name, &size, &nodes); err != nil {
			return nil, err
		}
		if nodes != 2*size-int64(bits.OnesCount64(uint64(size))) {
			torn[id] = name
		}
	}
	return torn, rows.Err()
}

// rangeAt is the right edge of the tree of some size.
func rangeAt(ctx context.Context, q rowQuerier, id int64, size uint64) (*compact.Range, error) {
	hashes, err := nodesAt(ctx, q, id, compact.RangeNodes(0, size, nil))
	if err != nil {
		return nil, err
	}
	return (&compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}).NewRange(0, size, hashes)
}

// root is the root of the tree of some size.
func root(ctx context.Context, q rowQuerier, id int64, size uint64) (out state.Hash, err error) {
	edge, err := rangeAt(ctx, q, id, size)
	if err != nil {
		return out, err
	}
	hash, err := edge.GetRootHash(nil)
	copy(out[:], hash)
	return out, err
}

// sign keeps a signed head of the tree as it is, once for each size.
func (t *Tree) sign(ctx context.Context, p project, workspace, name string) error {
	var have int64
	if err := t.log.db.QueryRowContext(ctx, `SELECT coalesce(max(size), 0) FROM heads WHERE project = ?`, p.id).Scan(&have); err != nil || have == p.size {
		return failure("read the tree head", err)
	}
	return t.log.write(ctx, "sign the tree head", func(tx *change) error {
		if err := continues(ctx, tx, p, have, workspace, name); err != nil {
			return err
		}
		hash, err := root(ctx, tx, p.id, uint64(p.size))
		if err != nil {
			return err
		}
		h := transparency.Sign(transparency.Head{Workspace: workspace, Project: name, Size: uint64(p.size), Root: hash, TimeMs: uint64(t.log.now().UnixMilli())}, t.key)
		done, err := tx.ExecContext(ctx, `INSERT OR IGNORE INTO heads (project, size, root, time_ms, signature) VALUES (?, ?, ?, ?, ?)`, p.id, h.Size, h.Root[:], h.TimeMs, h.Signature[:])
		return tx.mirrorNew(done, err, func() (mirror.Row, error) { return headRow(h) })
	})
}

// continues refuses a head that takes back the one of size have, signed before.
func continues(ctx context.Context, tx *change, p project, have int64, workspace, name string) error {
	if have > p.size {
		return lost(workspace, name, fmt.Sprintf("a head of size %d was signed, and the log has %d records", have, p.size))
	}
	if have == 0 {
		return nil
	}
	var signed []byte
	if err := tx.QueryRowContext(ctx, `SELECT root FROM heads WHERE project = ? AND size = ?`, p.id, have).Scan(&signed); err != nil {
		return err
	}
	now, err := root(ctx, tx, p.id, uint64(have))
	if err == nil && !bytes.Equal(signed, now[:]) {
		err = lost(workspace, name, fmt.Sprintf("its first %d records are not those whose head was signed", have))
	}
	return err
}

// lost is why no head is signed any more: it would take back one that was.
func lost(workspace, name, why string) error {
	return model.Errorf(model.CodeUnavailable, "the Merkle log of %s/%s is damaged, and no head of it is signed: %s", workspace, name, why).
		WithHint("run `kymogram data verify`, then restore state.db and state.db-mirror from a backup")
}

func (t *Tree) newest(ctx context.Context, id int64, cosigned bool) (*transparency.SignedHead, error) {
	return t.headOf(ctx, `SELECT size, root, time_ms, signature FROM heads WHERE project = ?1 AND (?2 = 0 OR size IN (SELECT size FROM cosignatures WHERE project = ?1)) ORDER BY size DESC LIMIT 1`, id, cosigned)
}

func (t *Tree) headOf(ctx context.Context, query string, args ...any) (*transparency.SignedHead, error) {
	h := &transparency.SignedHead{Key: transparency.PublicKey(t.public()), Cosignatures: []transparency.Cosignature{}}
	var hash, signature []byte
	err := t.log.db.QueryRowContext(ctx, query, args...).Scan(&h.Size, &hash, &h.TimeMs, &signature)
	copy(h.Root[:], hash)
	copy(h.Signature[:], signature)
	return h, err
}

func (t *Tree) addCosignatures(ctx context.Context, id int64, h *transparency.SignedHead) error {
	rows, err := t.log.db.QueryContext(ctx, `SELECT hotkey, signature FROM cosignatures WHERE project = ? AND size = ? ORDER BY hotkey`, id, h.Size)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var c transparency.Cosignature
		var hotkey, signature []byte
		if err := rows.Scan(&hotkey, &signature); err != nil {
			return err
		}
		copy(c.Hotkey[:], hotkey)
		copy(c.Signature[:], signature)
		h.Cosignatures = append(h.Cosignatures, c)
	}
	return rows.Err()
}

// Inclusion is the record at an index, with its path to the root of size.
func (t *Tree) Inclusion(ctx context.Context, workspace, name string, index, size uint64) (record []byte, hashes []state.Hash, err error) {
	p, err := t.sized(ctx, workspace, name, size)
	if err != nil {
		return nil, nil, err
	}
	nodes, err := proof.Inclusion(index, size)
	if err != nil {
		return nil, nil, model.Errorf(model.CodeInvalid, "no record %d in a tree of size %d", index, size)
	}
	err = t.log.db.QueryRowContext(ctx, `SELECT record FROM records WHERE project = ? AND idx = ?`, p.id, index).Scan(&record)
	if err == nil {
		hashes, err = t.rehash(ctx, p.id, nodes)
	}
	return record, hashes, failure("prove a record", err)
}

// The leaves of one answer: as many, and as many bytes but for the last.
const (
	MaxLeaves  = 10_000
	leavesSize = 4 << 20
)

// Leaves are records from an index on, in the order of a tree of some size: at least
// one, and as many as fit into an answer.
func (t *Tree) Leaves(ctx context.Context, workspace, name string, from, size uint64, limit int) (records [][]byte, err error) {
	p, err := t.sized(ctx, workspace, name, size)
	switch {
	case err != nil:
		return nil, err
	case from >= size:
		return nil, model.Errorf(model.CodeInvalid, "no record %d in a tree of size %d", from, size)
	case limit == 0:
		limit = MaxLeaves
	case limit < 1 || limit > MaxLeaves:
		return nil, model.Errorf(model.CodeInvalid, "limit is %d, it must be from 1 to %d", limit, MaxLeaves)
	}
	bytes := 0
	err = eachLeaf(ctx, t.log.db, p.id, workspace+"/"+name, int64(from), min(limit, int(min(size-from, MaxLeaves))), func(record []byte) bool {
		records = append(records, record)
		bytes += len(record)
		return bytes < leavesSize
	})
	if err == nil && len(records) == 0 {
		err = lost(workspace, name, fmt.Sprintf("record %d is missing", from))
	}
	return records, failure("read the leaves", err)
}

// Consistency proves that the tree of size to continues the one of size from.
func (t *Tree) Consistency(ctx context.Context, workspace, name string, from, to uint64) ([]state.Hash, error) {
	p, err := t.sized(ctx, workspace, name, to)
	if err != nil {
		return nil, err
	}
	nodes, err := proof.Consistency(from, to)
	if err != nil || from == 0 {
		return nil, model.Errorf(model.CodeInvalid, "no proof from size %d to %d: from must be from 1 to the size", from, to)
	}
	hashes, err := t.rehash(ctx, p.id, nodes)
	return hashes, failure("prove consistency", err)
}

// sized finds a project whose tree has at least a size.
func (t *Tree) sized(ctx context.Context, workspace, name string, size uint64) (project, error) {
	p, err := t.log.project(ctx, workspace, name)
	if err == nil && size > uint64(p.treeSize) {
		err = model.Errorf(model.CodeInvalid, "the tree of %s/%s has the size %d, not %d", workspace, name, p.treeSize, size).
			WithHint("read log/head first: it says how long the log is")
	}
	return p, err
}

func (t *Tree) rehash(ctx context.Context, id int64, nodes proof.Nodes) ([]state.Hash, error) {
	raw, err := nodesAt(ctx, t.log.db, id, nodes.IDs)
	if err != nil {
		return nil, err
	}
	raw, err = nodes.Rehash(raw, rfc6962.DefaultHasher.HashChildren)
	out := make([]state.Hash, len(raw))
	for i := range raw {
		copy(out[i][:], raw[i])
	}
	return out, err
}

// Witness keeps a cosignature of a head that was signed here. Witnesses are
// hotkeys with a record in the project.
func (t *Tree) Witness(ctx context.Context, workspace, name string, size uint64, c transparency.Cosignature) error {
	p, err := t.log.project(ctx, workspace, name)
	if err != nil {
		return err
	}
	h, err := t.headOf(ctx, `SELECT size, root, time_ms, signature FROM heads WHERE project = ? AND size = ?`, p.id, size)
	if errors.Is(err, sql.ErrNoRows) {
		return model.Errorf(model.CodeNotFound, "no tree head of size %d was signed", size)
	}
	if err != nil {
		return failure("read the tree head", err)
	}
	h.Workspace, h.Project, h.Cosignatures = workspace, name, []transparency.Cosignature{c}
	if err := h.Check(); err != nil {
		return err
	}
	return t.log.write(ctx, "keep a cosignature", func(tx *change) error {
		done, err := keepCosignature(ctx, tx.Tx, p.id, size, c)
		return tx.mirrorNew(done, err, func() (mirror.Row, error) { return cosignatureRow(workspace, name, size, c) })
	})
}

func keepCosignature(ctx context.Context, tx *sql.Tx, id int64, size uint64, c transparency.Cosignature) (sql.Result, error) {
	var known, kept int
	err := tx.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM runs WHERE project = ?1 AND hotkey = ?2), (SELECT count(*) FROM cosignatures WHERE project = ?1 AND size = ?3)`,
		id, c.Hotkey[:], size).Scan(&known, &kept)
	switch {
	case err != nil:
		return nil, err
	case known == 0:
		return nil, model.Errorf(model.CodePermission, "hotkey %s has no record in this project", c.Hotkey).WithHint("witnesses are hotkeys that sign records here: put one first")
	case kept >= MaxCosignatures:
		return nil, model.Errorf(model.CodeLimit, "%d witnesses have signed this tree head, which is the limit", kept)
	}
	return tx.ExecContext(ctx, `INSERT OR IGNORE INTO cosignatures (project, size, hotkey, signature) VALUES (?, ?, ?, ?)`, id, size, c.Hotkey[:], c.Signature[:])
}
