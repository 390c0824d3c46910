package statelog

import (
	"context"
	"crypto/ed25519"
	"errors"
	"hash/maphash"
	"io/fs"
	"os"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog/mirror"
)

// chunkBytes is what one transaction of a file takes in.
const chunkBytes = 4 << 20

// Carry copies what was taken and signed to a place that has none, with the key of the Merkle
// log, and compares both places. A target that has the same already is left as it is. One of them is a file, whose key is in keyFile. Nobody else
// may use either. PostgreSQL has all of it or nothing; a file that is not whole is to be
// deleted. taken is called with records as they come; it may begin anew.
func Carry(ctx context.Context, from, to *Log, keyFile string, taken func(records int64)) error {
	var have int64
	if err := to.base.QueryRowContext(ctx, `SELECT count(*) FROM projects`).Scan(&have); err != nil {
		return to.failure("look for records", err)
	}
	if have > 0 && same(ctx, from, to) != nil {
		return model.Errorf(model.CodeConflict, "there are signed records of %d projects already", have).
			WithHint("move them away first, or name another place")
	}
	key, err := carryKey(ctx, from, to, keyFile)
	if err == nil && have == 0 {
		err = carryRows(ctx, from, to, taken)
	}
	if err == nil {
		err = same(ctx, from, to)
	}
	if err == nil && key != nil {
		err = to.Tree(key).whole(ctx)
	}
	return err
}

// Count is how many records there are.
func (l *Log) Count(ctx context.Context) (n int64, err error) {
	err = l.base.QueryRowContext(ctx, `SELECT count(*) FROM records`).Scan(&n)
	return n, l.failure("count the records", err)
}

// carryKey gives the target the key of the source; nil: there is none.
func carryKey(ctx context.Context, from, to *Log, keyFile string) (ed25519.PrivateKey, error) {
	if d, ok := to.base.(*database); ok {
		if _, err := os.Stat(keyFile); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		key, err := SigningKey(keyFile)
		if err != nil {
			return nil, err
		}
		there, err := d.key(ctx, key.Seed())
		return key, errors.Join(to.failure("keep the log's key", err), sameKey(key, there))
	}
	d, ok := from.base.(*database)
	if !ok {
		return nil, model.Errorf(model.CodeInternal, "records are carried from a file to a file")
	}
	key, err := d.knownKey(ctx)
	if err != nil || key == nil {
		return nil, from.failure("read the log's key", err)
	}
	if _, err := os.Stat(keyFile); errors.Is(err, fs.ErrNotExist) {
		return key, writeKey(keyFile, key.Seed())
	}
	there, err := SigningKey(keyFile)
	return key, errors.Join(err, sameKey(key, there))
}

func sameKey(a, b ed25519.PrivateKey) error {
	if a.Equal(b) {
		return nil
	}
	return model.Errorf(model.CodeConflict, "the target has another key of the Merkle log").
		WithHint("witnesses would see a new log: move that key away first")
}

func carryRows(ctx context.Context, from, to *Log, taken func(int64)) error {
	if to.file == nil {
		return to.write(ctx, "take in records", func(tx *change) error { return carryInto(ctx, from, tx, taken, nil) })
	}
	var chunk []mirror.Row
	size := 0
	flush := func() error {
		err := to.write(ctx, "take in records", func(tx *change) error {
			for _, r := range chunk {
				if err := errors.Join(load(ctx, tx, r), tx.mirror(func() (mirror.Row, error) { return r, nil })); err != nil {
					return err
				}
				if r.Table == rowRecord {
					tx.taken++
				}
			}
			return nil
		})
		chunk, size = nil, 0
		return err
	}
	err := carryInto(ctx, from, nil, taken, func(r mirror.Row) error {
		chunk = append(chunk, r)
		if size += len(r.Values); size < chunkBytes {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}

// carryInto hands over each row of a place: to take, or to a transaction.
func carryInto(ctx context.Context, from *Log, tx *change, taken func(int64), take func(mirror.Row) error) error {
	if take == nil {
		take = func(r mirror.Row) error { return load(ctx, tx, r) }
	}
	for row, err := range everyRow(ctx, from.base) {
		if err == nil {
			err = take(row)
		}
		if err != nil {
			return from.failure("read the records", err)
		}
		if row.Table == rowRecord {
			taken(1)
		}
	}
	return ctx.Err()
}

// same compares all rows of two places, and how many payloads they have.
func same(ctx context.Context, from, to *Log) error {
	seed := maphash.MakeSeed()
	var sums [2]uint64
	var payloads [2]int64
	for i, l := range []*Log{from, to} {
		c := newContent(seed)
		err := addAll(ctx, l.base, c)
		if err == nil {
			err = l.base.QueryRowContext(ctx, `SELECT count(payload) FROM records`).Scan(&payloads[i])
		}
		if err != nil {
			return l.failure("compare the records", err)
		}
		sums[i] = c.total
	}
	if sums[0] != sums[1] || payloads[0] != payloads[1] {
		return model.Errorf(model.CodeInternal, "the copy of the signed records is not what was copied").
			WithHint("run it again, while no server uses either place")
	}
	return nil
}

// whole makes the tree of each project that has heads, whose newest one must be its beginning.
func (t *Tree) whole(ctx context.Context) error {
	all, err := signedProjects(ctx, t.log.base)
	if err != nil {
		return t.log.failure("list the tree heads", err)
	}
	for _, s := range all {
		p, err := t.log.project(ctx, s.workspace, s.name)
		if err == nil {
			err = t.grow(ctx, p, s.workspace, s.name)
		}
		if err == nil {
			p.treeSize = p.size
			h, found := t.newest(ctx, p.id, false)
			h.Workspace, h.Project = s.workspace, s.name
			err = errors.Join(found, h.Check(), begins(ctx, t.log.base, p, h.Head))
		}
		if err != nil {
			return t.log.failure("compare the tree head", err)
		}
	}
	return nil
}
