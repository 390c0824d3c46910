package statelog

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/kymogram/kymogram/server/internal/transparency"
)

// recount is the Merkle log of one project, made again from its records.
type recount struct {
	project
	i     *Inventory
	tx    querier
	name  string
	edge  *compact.Range
	heads *sql.Rows
	head  int64 // the size of the next head; past all: none
	root  []byte
	nodes int64
}

// trees compares each project's length, tree and heads with its records.
func (i *Inventory) trees(ctx context.Context, tx querier) error {
	rows, err := tx.QueryContext(ctx, `SELECT id, size, tree_size, workspace || '/' || project FROM projects`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		c := &recount{i: i, tx: tx}
		if err := rows.Scan(&c.id, &c.size, &c.treeSize, &c.name); err != nil {
			return err
		}
		if err := c.check(ctx); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (c *recount) fault(format string, args ...any) {
	c.i.add("state records of %s: %s", c.name, fmt.Sprintf(format, args...))
}

func (c *recount) check(ctx context.Context) (err error) {
	c.edge = (&compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}).NewEmptyRange(0)
	c.heads, err = c.tx.QueryContext(ctx, `SELECT size, root FROM heads WHERE project = ? ORDER BY size`, c.id) //nolint:rowserrcheck // nextHead does
	if err != nil {
		return err
	}
	defer c.heads.Close()
	if err := c.nextHead(); err != nil {
		return err
	}
	records, whole, err := c.leaves(ctx)
	if err != nil {
		return err
	}
	if records != c.size {
		c.fault("the log has %d records of %d", records, c.size)
	}
	if !whole {
		return nil // behind a gap nothing can be counted
	}
	if c.treeSize > records {
		c.fault("the tree has %d leaves, and there are %d records", c.treeSize, records)
	}
	for c.head != math.MaxInt64 {
		c.fault("a head of size %d was signed, and there are %d records", c.head, records)
		if err := c.nextHead(); err != nil {
			return err
		}
	}
	return c.surplus(ctx)
}

// leaves makes the tree of the records, up to a gap.
func (c *recount) leaves(ctx context.Context) (records int64, whole bool, err error) {
	rows, err := c.tx.QueryContext(ctx, `SELECT idx, record FROM records WHERE project = ? ORDER BY idx`, c.id)
	if err != nil {
		return 0, false, err
	}
	defer rows.Close()
	for whole = true; rows.Next(); records++ {
		var index int64
		var record []byte
		if err := rows.Scan(&index, &record); err != nil {
			return 0, false, err
		}
		if whole && index != records {
			c.fault("records %d to %d are missing; the tree and heads after them are not checked", records, index-1)
			whole = false
		}
		if whole {
			if err := c.leaf(ctx, record); err != nil {
				return 0, false, err
			}
		}
	}
	return records, whole, rows.Err()
}

// leaf adds a record and compares the nodes that it completes, and a head of this size.
func (c *recount) leaf(ctx context.Context, record []byte) error {
	var failed error
	within := int64(c.edge.End()) < c.treeSize
	err := c.edge.Append(transparency.Leaf(record), func(at compact.NodeID, hash []byte) {
		if within && failed == nil {
			failed = c.node(ctx, at, hash)
		}
	})
	if err = errors.Join(err, failed); err != nil || int64(c.edge.End()) != c.head {
		return err
	}
	root, err := c.edge.GetRootHash(nil)
	if err == nil && !bytes.Equal(root, c.root) {
		c.fault("the head of size %d has another root than its records", c.head)
	}
	return errors.Join(err, c.nextHead())
}

func (c *recount) node(ctx context.Context, at compact.NodeID, hash []byte) error {
	c.nodes++
	var have []byte
	err := c.tx.QueryRowContext(ctx, `SELECT hash FROM nodes WHERE project = ? AND level = ? AND idx = ?`, c.id, at.Level, at.Index).Scan(&have)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		c.nodes--
		err = nil
		c.fault("node %d of level %d of the tree is missing", at.Index, at.Level)
	case err == nil && !bytes.Equal(have, hash) && at.Level == 0:
		c.fault("record %d is not the leaf of the tree that it was", at.Index)
	case err == nil && !bytes.Equal(have, hash):
		c.fault("node %d of level %d of the tree is not that of its records", at.Index, at.Level)
	}
	return err
}

func (c *recount) surplus(ctx context.Context) error {
	var have int64
	err := c.tx.QueryRowContext(ctx, `SELECT count(*) FROM nodes WHERE project = ?`, c.id).Scan(&have)
	if err == nil && have > c.nodes {
		c.fault("the tree has %d nodes that no record makes", have-c.nodes)
	}
	return err
}

func (c *recount) nextHead() error {
	if c.head = math.MaxInt64; !c.heads.Next() {
		return c.heads.Err()
	}
	return c.heads.Scan(&c.head, &c.root)
}
