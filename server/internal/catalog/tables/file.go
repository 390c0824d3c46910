package tables

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

func (c *change) setFile(ctx context.Context, u *model.Update) error {
	f := u.File
	if f == nil {
		return Exec(ctx, c.tx, `DELETE FROM files WHERE run = ? AND name = ?`, c.pk, u.Path)
	}
	return Exec(ctx, c.tx, `INSERT INTO files (run, name, sha256, size, content_type, md5, changed_ns) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (run, name) DO UPDATE SET sha256 = excluded.sha256, size = excluded.size, content_type = excluded.content_type, md5 = excluded.md5, changed_ns = excluded.changed_ns`,
		c.pk, u.Path, f.SHA256, f.Size, f.ContentType, f.MD5, cmp.Or(f.TimeNs, u.TimeNs, c.nowNs))
}

const (
	// filesBytes ends a page of files.
	filesBytes = 1 << 20
	// likeBytes bounds a pattern: each file is compared with it.
	likeBytes = 1 << 10
)

const fileColumns = `name, sha256, size, content_type, md5, changed_ns`

func scanFile(scan func(...any) error) (f catalog.File, err error) {
	return f, scan(&f.Name, &f.SHA256, &f.Size, &f.ContentType, &f.MD5, &f.TimeNs)
}

// Files implements [catalog.Files].
func (d *DB) Files(ctx context.Context, run model.RunID, f catalog.FileFilter) ([]catalog.File, string, error) {
	pk, err := d.rowOf(ctx, run)
	if err != nil {
		return nil, "", err
	}
	return d.listFiles(ctx, `files WHERE run = ?`, pk, f)
}

// listFiles lists those of one owner.
func (d *DB) listFiles(ctx context.Context, from string, owner int64, f catalog.FileFilter) (page []catalog.File, next string, err error) {
	w, err := filesWhere(&f)
	if err != nil {
		return nil, "", err
	}
	if f.Cursor != "" {
		var after string
		if err := decodeCursor(f.Cursor, &after); err != nil {
			return nil, "", err
		}
		w.add(`name > ?`, after)
	}
	limit := min(cmp.Or(f.Limit, maxPage), maxPage)
	page, next, err = piece(ctx, d.reader, filesBytes, func(rows *sql.Rows) (catalog.File, int, string, error) {
		f, err := scanFile(rows.Scan)
		return f, entryBytes + len(f.Name) + len(f.SHA256) + len(f.ContentType) + len(f.MD5), f.Name, err
	}, `SELECT `+fileColumns+` FROM `+from+` AND `+w.String()+` ORDER BY name LIMIT ?`, append(append([]any{owner}, w.args...), limit+1)...)
	if err != nil {
		return nil, "", d.failure("list files", err)
	}
	if len(page) > limit {
		page = page[:limit]
		next = encodeCursor(page[limit-1].Name)
	}
	return page, next, nil
}

// filesWhere says which files a filter means.
func filesWhere(f *catalog.FileFilter) (w *where, err error) {
	switch {
	case f.Limit < 0:
		return nil, model.Errorf(model.CodeInvalid, "the limit %d is not valid", f.Limit).WithHint("It is 1 to %d.", maxPage)
	case len(f.Names) > catalog.MaxFileNames:
		return nil, model.Errorf(model.CodeInvalid, "%d names of files at once, at most %d", len(f.Names), catalog.MaxFileNames)
	case len(f.Like) > likeBytes:
		return nil, model.Errorf(model.CodeInvalid, "the pattern has %d bytes, at most %d", len(f.Like), likeBytes)
	}
	w = &where{}
	w.add(`TRUE`)
	if f.Names != nil {
		list, err := json.Marshal(f.Names)
		if err != nil {
			return nil, fmt.Errorf("encode names: %w", err)
		}
		w.add(`name IN (SELECT value FROM json_each(?))`, string(list))
	}
	if f.Prefix != "" {
		w.add(`name >= ?`, f.Prefix)
		if end := behindPrefix(f.Prefix); end != "" {
			w.add(`name < ?`, end)
		}
	}
	if strings.HasSuffix(strings.ReplaceAll(f.Like, `\\`, ""), `\`) {
		w.add(`FALSE`) // which databases agree on no better than on what it matches
	} else if f.Like != "" {
		w.add(`lower(name) LIKE ? ESCAPE '\'`, smallLetters(f.Like))
	}
	return w, nil
}

// smallLetters are those of ASCII, as the database's lower makes of a name.
func smallLetters(pattern string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, pattern)
}

// behindPrefix is the least text that is behind all that begin with prefix, "" where there is
// none. Texts are compared byte by byte, which is by their characters.
func behindPrefix(prefix string) string {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		switch {
		case last == utf8.MaxRune:
		case last+1 == surrogates:
			return prefix + string(rune(behindSurrogates))
		default:
			return prefix + string(last+1)
		}
	}
	return ""
}

// Between these no number is a character.
const surrogates, behindSurrogates = 0xd800, 0xe000

// File implements [catalog.Files].
func (d *DB) File(ctx context.Context, run model.RunID, name string) (*catalog.File, error) {
	pk, err := d.rowOf(ctx, run)
	if err != nil {
		return nil, err
	}
	f, err := scanFile(d.reader.row(ctx, `SELECT `+fileColumns+` FROM files WHERE run = ? AND name = ?`, pk, name))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, model.Errorf(model.CodeNotFound, "the run has no file %q", model.Clip(name))
	}
	if err != nil {
		return nil, d.failure("find a file", err)
	}
	return &f, nil
}

// CountFiles implements [catalog.Files].
func (d *DB) CountFiles(ctx context.Context, run model.RunID, f catalog.FileFilter) (files int, bytes int64, err error) {
	w, err := filesWhere(&f)
	if err != nil {
		return 0, 0, err
	}
	pk, err := d.rowOf(ctx, run)
	if err != nil {
		return 0, 0, err
	}
	release, err := d.reader.turn(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer release()
	var sum float64 // of sizes up to 2^62 each, which integers may not hold
	err = d.reader.QueryRowContext(ctx, `SELECT count(*), coalesce(sum(CAST(size AS DOUBLE PRECISION)), 0) FROM files WHERE run = ? AND `+w.String(), append([]any{pk}, w.args...)...).Scan(&files, &sum)
	return files, int64(min(sum, 1<<62)), d.failure("count files", err)
}
