package tables

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"iter"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog/mirror"
)

// Table is one that every database of a catalog has.
type Table struct {
	Name    string
	Columns []string
}

// Names are the tables of a catalog, each after those whose rows it names.
func Names() []string {
	return []string{
		"projects", "runs", "identities", "ids", "attempts", "parents", "writers", "attributes", "env_attributes", "tags", "events", "keys",
		"renderings", "shared_environments", "views", "summaries", "summarised", "trees", "files", "artifact_collections", "artifacts",
		"artifact_texts", "artifact_members", "artifact_aliases", "artifact_files", "artifact_manifests", "artifact_runs",
	}
}

// Source has the rows of a catalog as they are at one moment.
type Source interface {
	// Rows gives every row of a table. Its values are nil, int64, float64, string and []byte, as
	// SQLite has them. A row is good until the next one.
	Rows(ctx context.Context, t Table) iter.Seq2[[]any, error]
	Count(ctx context.Context, t Table) (int64, error)
	// LastArtifact is the greatest number that an artifact has had; none gets it again.
	LastArtifact(ctx context.Context) (int64, error)
}

// Target is a catalog that gets its rows from another.
type Target interface {
	Source
	Put(ctx context.Context, t Table, rows iter.Seq2[[]any, error]) error
	SetLastArtifact(ctx context.Context, last int64) error
}

// Moved is what became of a table.
type Moved struct {
	Table  string `json:"table"`
	Rows   int64  `json:"rows"`
	SHA256 string `json:"sha256"` // of the rows' own, added up: their order says nothing
}

// Move copies the tables of a catalog. Then it reads both sides and compares them. done counts
// the rows that were copied, and once more those that were compared.
func Move(ctx context.Context, from Source, to Target, all []Table, done func(rows int64)) ([]Moved, error) {
	for _, t := range all {
		if err := to.Put(ctx, t, counted(from.Rows(ctx, t), done)); err != nil {
			return nil, fmt.Errorf("copy the table %s: %w", t.Name, err)
		}
	}
	last, err := from.LastArtifact(ctx)
	if err == nil {
		err = to.SetLastArtifact(ctx, last)
	}
	if err != nil {
		return nil, fmt.Errorf("copy the number of the last artifact: %w", err)
	}
	out := make([]Moved, len(all))
	for i, t := range all {
		was, err := digest(t.Name, from.Rows(ctx, t))
		if err != nil {
			return nil, fmt.Errorf("read the table %s again: %w", t.Name, err)
		}
		if out[i], err = digest(t.Name, counted(to.Rows(ctx, t), done)); err != nil {
			return nil, fmt.Errorf("read the copy of the table %s: %w", t.Name, err)
		}
		if was != out[i] {
			return nil, model.Errorf(model.CodeInternal, "the copy of the table %s differs: %d rows with the checksum %s became %d with %s",
				t.Name, was.Rows, was.SHA256, out[i].Rows, out[i].SHA256).WithHint("Nothing was changed where the catalog is. Please report this.")
		}
	}
	return out, nil
}

func counted(rows iter.Seq2[[]any, error], done func(int64)) iter.Seq2[[]any, error] {
	const step = 1000
	return func(yield func([]any, error) bool) {
		n := int64(0)
		defer func() { done(n % step) }()
		for row, err := range rows {
			if !yield(row, err) {
				return
			}
			if n++; n%step == 0 {
				done(step)
			}
		}
	}
}

// digest adds up the checksums of rows, so that it does not matter in which order a database
// gives them.
func digest(table string, rows iter.Seq2[[]any, error]) (Moved, error) {
	out, sum := Moved{Table: table}, [4]uint64{}
	var encoded []byte
	for row, err := range rows {
		if err == nil {
			encoded, err = mirror.AppendValues(encoded[:0], canonical(row))
		}
		if err != nil {
			return out, err
		}
		out.Rows++
		hash := sha256.Sum256(encoded)
		for i := range sum {
			sum[i] += binary.BigEndian.Uint64(hash[8*i:])
		}
	}
	var whole []byte
	for _, part := range sum {
		whole = binary.BigEndian.AppendUint64(whole, part)
	}
	out.SHA256 = hex.EncodeToString(whole)
	return out, nil
}

// canonical makes one of what counts as one: both zeros, and texts that are no UTF-8, which
// only SQLite keeps as they are.
func canonical(row []any) []any {
	for i := range row {
		switch v := row[i].(type) {
		case float64:
			row[i] = v + 0
		case string:
			row[i] = strings.ToValidUTF8(v, "\uFFFD")
		}
	}
	return row
}
