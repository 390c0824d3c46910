package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"fmt"
	"regexp"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/kymogram/kymogram/internal/model"
)

var placeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// maxNameBytes is the longest name of a run (design/architecture.md).
const maxNameBytes = 256

func checkPlace(workspace, project string) error {
	for what, name := range map[string]string{"workspace": workspace, "project": project} {
		if !placeName.MatchString(name) {
			return model.Errorf(model.CodeInvalid, "the %s %q is not valid", what, name).
				WithHint("A %s is 1 to 128 letters, digits, dots, underscores and hyphens, the first a letter or digit.", what)
		}
	}
	return nil
}

func checkRunName(name string) error {
	if name == "" || len(name) > maxNameBytes || !utf8.ValidString(name) || hasControl(name) {
		return model.Errorf(model.CodeInvalid, "the run name %q is not valid", clip(name)).
			WithHint("A run name is 1 to %d bytes of UTF-8 without control characters.", maxNameBytes)
	}
	return nil
}

func hasControl(s string) bool {
	for _, r := range s {
		if unicode.IsControl(r) {
			return true
		}
	}
	return false
}

// clip keeps error messages short whatever a client sends.
func clip(s string) string { return cutUTF8(s, 64) }

// cutUTF8 is the longest prefix of at most n bytes that ends between characters.
func cutUTF8(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// newRunID makes a ULID: 48 bits of milliseconds, 80 random bits.
func newRunID(now time.Time) model.RunID {
	var id model.RunID
	binary.BigEndian.PutUint64(id[:8], uint64(now.UnixMilli())<<16)
	_, _ = rand.Read(id[6:]) // crypto/rand.Read never fails, see its documentation
	return id
}

// claimID is the ULID of a new run: the one that its client made, when nobody
// has it, else a new one.
func claimID(ctx context.Context, tx *sql.Tx, local model.RunID, now time.Time) (model.RunID, error) {
	if local.IsZero() {
		return newRunID(now), nil
	}
	var taken bool
	err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM ids WHERE id = ?)`, local[:]).Scan(&taken)
	if err != nil || taken {
		return newRunID(now), err
	}
	return local, nil
}

// addAlias makes a client's local ULID lead to a run. One that means another run
// already keeps its meaning.
func addAlias(ctx context.Context, tx *sql.Tx, alias, run model.RunID) error {
	if alias.IsZero() {
		return nil
	}
	return exec(ctx, tx, `INSERT INTO ids (id, run) VALUES (?, ?) ON CONFLICT DO NOTHING`, alias[:], run[:])
}

// freeName is name, or the first of name-2, name-3, … that no run has.
func freeName(ctx context.Context, tx *sql.Tx, project int64, name string) (string, error) {
	candidate := name
	for n := 2; ; n++ {
		var taken bool
		err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM runs WHERE project = ? AND name = ?)`, project, candidate).Scan(&taken)
		if err != nil || !taken {
			return candidate, err
		}
		suffix := fmt.Sprintf("-%d", n)
		candidate = cutUTF8(name, maxNameBytes-len(suffix)) + suffix
	}
}
