package statelog

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"errors"
	"fmt"
	"math/bits"
	"strings"

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
	given   *given
}

// Tree makes the Merkle log, signed with key.
func (l *Log) Tree(key ed25519.PrivateKey) *Tree {
	return &Tree{log: l, key: key, given: &given{heads: map[string]transparency.Head{}}}
}

// project is a row of projects.
type project struct {
	id, size, treeSize int64
}

func (l *Log) project(ctx context.Context, workspace, name string) (p project, err error) {
	err = l.base.QueryRowContext(ctx, `SELECT id, size, tree_size FROM projects WHERE workspace = ? AND project = ?`, workspace, name).Scan(&p.id, &p.size, &p.treeSize)
	if errors.Is(err, sql.ErrNoRows) {
		return p, model.Errorf(model.CodeNotFound, "no record was signed in %s/%s yet", workspace, name)
	}
	return p, l.failure("find the project", err)
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
	if err == nil && !cosigned {
		err = t.given.give(ctx, t.log.base, p.id, h.Head)
	}
	return h, t.log.failure("read the tree head", err)
}

// renew forgets heads that another key signed: the operator began a new log.
func (t *Tree) renew(ctx context.Context, p project, workspace, name string) error {
	h, err := t.newest(ctx, p.id, false)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	h.Workspace, h.Project = workspace, name
	if err != nil || h.Check() == nil {
		return t.log.failure("read the tree head", err)
	}
	return t.log.write(ctx, "begin a new log", func(tx *change) error {
		if err := t.log.base.renewable(ctx); err != nil {
			return lost(workspace, name, err.Error())
		}
		t.log.log.Warn("the Merkle log has another key: its heads begin anew, and witnesses see it", "workspace", workspace, "project", name)
		if err := forgetHeads(ctx, tx, p.id); err != nil {
			return err
		}
		return tx.mirror(func() (mirror.Row, error) { return rowOf(rowRenewed, []any{workspace, name}, nil) })
	})
}

// grow adds the records that the tree lacks.
func (t *Tree) grow(ctx context.Context, p project, workspace, name string) error {
	for p.treeSize < p.size {
		before := p.treeSize
		err := t.log.write(ctx, "grow the tree", func(tx *change) error {
			now, err := tx.hold(ctx, workspace, name)
			if err == nil {
				p.treeSize, err = extend(ctx, tx, now, workspace+"/"+name)
			}
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
func extend(ctx context.Context, tx transaction, p project, name string) (size int64, err error) {
	edge, err := rangeAt(ctx, tx, p.id, uint64(p.treeSize))
	if err != nil {
		return 0, err
	}
	var leaves [][]byte
	err = eachLeaf(ctx, tx, p.id, name, p.treeSize, growth, func(record []byte) bool {
		leaves = append(leaves, transparency.Leaf(record))
		return true
	})
	var made []treeNode
	for _, leaf := range leaves {
		if err == nil {
			err = edge.Append(leaf, func(at compact.NodeID, hash []byte) { made = append(made, treeNode{at, hash}) })
		}
	}
	if err == nil {
		err = addNodes(ctx, tx, p.id, made)
	}
	if err != nil {
		return 0, err
	}
	size = p.treeSize + int64(len(leaves))
	_, err = tx.ExecContext(ctx, `UPDATE projects SET tree_size = ? WHERE id = ?`, size, p.id)
	return size, err
}

// treeNode is a hash of the tree.
type treeNode struct {
	at   compact.NodeID
	hash []byte
}

// mostNodes are stored by one statement: each is a way to a database and back.
const mostNodes = 256

// addNodes stores as many at once as a power of two, so that there are few statements.
func addNodes(ctx context.Context, tx transaction, id int64, all []treeNode) error {
	for len(all) > 0 {
		n := min(mostNodes, 1<<(bits.Len(uint(len(all)))-1))
		args := make([]any, 0, 4*n)
		for _, node := range all[:n] {
			args = append(args, id, node.at.Level, node.at.Index, node.hash)
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO nodes (project, level, idx, hash) VALUES (?, ?, ?, ?)`+strings.Repeat(`, (?, ?, ?, ?)`, n-1)+`
			ON CONFLICT (project, level, idx) DO UPDATE SET hash = excluded.hash`, args...)
		if err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
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

// nodesAt reads hashes of the tree with one query.
func nodesAt(ctx context.Context, q querier, id int64, at []compact.NodeID) ([][]byte, error) {
	if len(at) == 0 {
		return nil, nil
	}
	args := []any{id}
	for _, n := range at {
		args = append(args, n.Level, n.Index)
	}
	rows, err := q.QueryContext(ctx, `SELECT level, idx, hash FROM nodes WHERE project = ? AND (level = ? AND idx = ?`+strings.Repeat(` OR level = ? AND idx = ?`, len(at)-1)+`)`, args...)
	if err != nil {
		return nil, fmt.Errorf("read the tree: %w", err)
	}
	defer rows.Close()
	found := make(map[compact.NodeID][]byte, len(at))
	for rows.Next() {
		var n treeNode
		if err := rows.Scan(&n.at.Level, &n.at.Index, &n.hash); err != nil {
			return nil, fmt.Errorf("read the tree: %w", err)
		}
		found[n.at] = n.hash
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the tree: %w", err)
	}
	out := make([][]byte, len(at))
	for i, n := range at {
		if out[i] = found[n]; out[i] == nil {
			return nil, model.Errorf(model.CodeUnavailable, "node %d of level %d of the Merkle log is missing: the records were damaged while the server used them", n.Index, n.Level).
				WithHint("start the server again: it makes the tree in state.db anew from the records. In PostgreSQL: UPDATE state_projects SET tree_size = 0")
		}
	}
	return out, nil
}

// rangeAt is the right edge of the tree of some size.
func rangeAt(ctx context.Context, q querier, id int64, size uint64) (*compact.Range, error) {
	hashes, err := nodesAt(ctx, q, id, compact.RangeNodes(0, size, nil))
	if err != nil {
		return nil, err
	}
	return (&compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}).NewRange(0, size, hashes)
}

// root is the root of the tree of some size.
func root(ctx context.Context, q querier, id int64, size uint64) (out state.Hash, err error) {
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
	if have, err := newestSize(ctx, t.log.base, p.id); err != nil || have == p.size {
		return t.log.failure("read the tree head", err)
	}
	return t.log.write(ctx, "sign the tree head", func(tx *change) error {
		now, err := tx.hold(ctx, workspace, name)
		if err == nil {
			err = t.continues(ctx, tx, now, workspace, name)
		}
		if err != nil {
			return err
		}
		hash, err := root(ctx, tx, now.id, uint64(now.treeSize))
		if err != nil {
			return err
		}
		h := transparency.Sign(transparency.Head{Workspace: workspace, Project: name, Size: uint64(now.treeSize), Root: hash, TimeMs: uint64(t.log.now().UnixMilli())}, t.key)
		done, err := tx.ExecContext(ctx, `INSERT INTO heads (project, size, root, time_ms, signature) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, now.id, h.Size, h.Root[:], h.TimeMs, h.Signature[:])
		return tx.mirrorNew(done, err, func() (mirror.Row, error) { return headRow(h) })
	})
}

func newestSize(ctx context.Context, q querier, id int64) (size int64, err error) {
	err = q.QueryRowContext(ctx, `SELECT coalesce(max(size), 0) FROM heads WHERE project = ?`, id).Scan(&size)
	return size, err
}

// continues refuses a head that takes back the newest one, or the one that was given out.
func (t *Tree) continues(ctx context.Context, tx *change, p project, workspace, name string) error {
	have, err := newestSize(ctx, tx, p.id)
	if err != nil || have == 0 {
		return errors.Join(err, t.given.continued(ctx, tx, p, workspace, name))
	}
	var signed []byte
	if err := tx.QueryRowContext(ctx, `SELECT root FROM heads WHERE project = ? AND size = ?`, p.id, have).Scan(&signed); err != nil {
		return err
	}
	if err := begins(ctx, tx, p, transparency.Head{Workspace: workspace, Project: name, Size: uint64(have), Root: state.Hash(signed)}); err != nil {
		return err
	}
	return t.given.continued(ctx, tx, p, workspace, name)
}

// begins says that the tree begins with that of a head.
func begins(ctx context.Context, q querier, p project, h transparency.Head) error {
	if h.Size > uint64(p.treeSize) {
		return lost(h.Workspace, h.Project, fmt.Sprintf("a head of size %d was signed, and the log has %d records", h.Size, p.treeSize))
	}
	now, err := root(ctx, q, p.id, h.Size)
	if err == nil && now != h.Root {
		err = lost(h.Workspace, h.Project, fmt.Sprintf("its first %d records are not those whose head was signed", h.Size))
	}
	return err
}

// lost is why no head is signed any more: it would take back one that was.
func lost(workspace, name, why string) error {
	return model.Errorf(model.CodeUnavailable, "the Merkle log of %s/%s is damaged, and no head of it is signed: %s", workspace, name, why).
		WithHint("run `kymogram data verify`, then restore state.db and state.db-mirror from a backup; in PostgreSQL, the database")
}

func (t *Tree) newest(ctx context.Context, id int64, cosigned bool) (*transparency.SignedHead, error) {
	return t.headOf(ctx, `SELECT size, root, time_ms, signature FROM heads WHERE project = ?1 AND (?2 = 0 OR size IN (SELECT size FROM cosignatures WHERE project = ?1)) ORDER BY size DESC LIMIT 1`, id, truth(cosigned))
}

func (t *Tree) headOf(ctx context.Context, query string, args ...any) (*transparency.SignedHead, error) {
	h := &transparency.SignedHead{Key: transparency.PublicKey(t.public()), Cosignatures: []transparency.Cosignature{}}
	var hash, signature []byte
	err := t.log.base.QueryRowContext(ctx, query, args...).Scan(&h.Size, &hash, &h.TimeMs, &signature)
	copy(h.Root[:], hash)
	copy(h.Signature[:], signature)
	return h, err
}

func (t *Tree) addCosignatures(ctx context.Context, id int64, h *transparency.SignedHead) error {
	rows, err := t.log.base.QueryContext(ctx, `SELECT hotkey, signature FROM cosignatures WHERE project = ? AND size = ? ORDER BY hotkey`, id, h.Size)
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
	err = t.log.base.QueryRowContext(ctx, `SELECT record FROM records WHERE project = ? AND idx = ?`, p.id, index).Scan(&record)
	if err == nil {
		hashes, err = t.rehash(ctx, p.id, nodes)
	}
	return record, hashes, t.log.failure("prove a record", err)
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
	err = eachLeaf(ctx, t.log.base, p.id, workspace+"/"+name, int64(from), min(limit, int(min(size-from, MaxLeaves))), func(record []byte) bool {
		records = append(records, record)
		bytes += len(record)
		return bytes < leavesSize
	})
	if err == nil && len(records) == 0 {
		err = lost(workspace, name, fmt.Sprintf("record %d is missing", from))
	}
	return records, t.log.failure("read the leaves", err)
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
	return hashes, t.log.failure("prove consistency", err)
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
	raw, err := nodesAt(ctx, t.log.base, id, nodes.IDs)
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
		return t.log.failure("read the tree head", err)
	}
	h.Workspace, h.Project, h.Cosignatures = workspace, name, []transparency.Cosignature{c}
	if err := h.Check(); err != nil {
		return err
	}
	return t.log.write(ctx, "keep a cosignature", func(tx *change) error {
		if _, err := tx.hold(ctx, workspace, name); err != nil {
			return err
		}
		done, err := keepCosignature(ctx, tx, p.id, size, c)
		return tx.mirrorNew(done, err, func() (mirror.Row, error) { return cosignatureRow(workspace, name, size, c) })
	})
}

func keepCosignature(ctx context.Context, tx transaction, id int64, size uint64, c transparency.Cosignature) (sql.Result, error) {
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
	return tx.ExecContext(ctx, `INSERT INTO cosignatures (project, size, hotkey, signature) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`, id, size, c.Hotkey[:], c.Signature[:])
}
