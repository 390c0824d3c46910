package tables

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"math"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

const (
	// videosBytes ends a page of videos.
	videosBytes = 1 << 20
	// pieceBytes ends a page of a run's lists.
	pieceBytes = 64 << 10
	// entryBytes is what an entry takes besides its texts.
	entryBytes = 64
	// pieceMost is more entries than pieceBytes have room for. A database that sends all that
	// was asked for asks for no more.
	pieceMost = ` LIMIT 1026`
)

// errPageFull ends a scan that has no more room.
var errPageFull = errors.New("the page is full")

// room is how many bytes of texts a page may still take.
type room struct{ left int64 }

// newRoom has as much as is asked for; 0: without an end.
func newRoom(bytes int64) *room {
	if bytes == 0 {
		bytes = math.MaxInt64
	}
	return &room{bytes}
}

func (r *room) take(texts int) error {
	if r.left -= int64(entryBytes + texts); r.left < 0 {
		return errPageFull
	}
	return nil
}

func (r *room) takeRun(l *listed) error {
	texts := len(l.Description)
	for _, tag := range l.Tags {
		texts += entryBytes/4 + len(tag)
	}
	return r.take(texts)
}

// piece reads a page of a list that is sorted by its key: scan gives an entry, its texts and
// the key. A first entry always fits.
func piece[T, K any](ctx context.Context, q Querier, bytes int64, scan func(*sql.Rows) (T, int, K, error), query string, args ...any) (page []T, next string, err error) {
	r, last, some := newRoom(bytes), *new(K), false
	page, err = Collect(ctx, q, func(rows *sql.Rows) (T, error) {
		v, texts, key, err := scan(rows)
		if err != nil {
			return v, err
		}
		if err := r.take(texts); err != nil && some {
			return v, err
		}
		last, some = key, true
		return v, nil
	}, query, args...)
	if errors.Is(err, errPageFull) {
		return page, encodeCursor(last), nil
	}
	return page, "", err
}

func scanAttribute(rows *sql.Rows) (a catalog.Attribute, texts int, path string, err error) {
	var value []byte
	if err = rows.Scan(&a.Path, &value); err == nil {
		err = json.Unmarshal(value, &a.Value)
	}
	return a, len(a.Path) + len(value), a.Path, err
}

func attributesAfter(ctx context.Context, q Querier, pk int64, cursor string) (page []catalog.Attribute, next string, err error) {
	after := ""
	if err := continueAt(cursor, &after); err != nil {
		return nil, "", err
	}
	return piece(ctx, q, pieceBytes, scanAttribute, `SELECT path, value FROM attributes WHERE run = ? AND path > ? ORDER BY path`+pieceMost, pk, after)
}

// continueAt reads the cursor of a list; the first page has none.
func continueAt(cursor string, after any) error {
	if cursor == "" {
		return nil
	}
	return decodeCursor(cursor, after)
}

// envKey is the place of an attribute of an environment.
type envKey struct {
	Env     string `json:"e"`
	Scoped  int    `json:"s"`
	Episode int64  `json:"n"`
	Path    string `json:"p"`
}

func scanEnvAttribute(rows *sql.Rows) (a catalog.EnvAttribute, texts int, key envKey, err error) {
	var value []byte
	if err = rows.Scan(&a.Env, &key.Scoped, &key.Episode, &a.Path, &value); err == nil {
		err = json.Unmarshal(value, &a.Value)
	}
	if key.Env, key.Path = a.Env, a.Path; key.Scoped != 0 {
		a.Episode = new(key.Episode)
	}
	return a, len(a.Env) + len(a.Path) + len(value), key, err
}

func envAttributesAfter(ctx context.Context, q Querier, pk int64, cursor string) (page []catalog.EnvAttribute, next string, err error) {
	after := envKey{Scoped: -1}
	if err := continueAt(cursor, &after); err != nil {
		return nil, "", err
	}
	return piece(ctx, q, pieceBytes, scanEnvAttribute, `SELECT env, scoped, episode, path, value FROM env_attributes
		WHERE run = ? AND (env, scoped, episode, path) > (?, ?, ?, ?) ORDER BY env, scoped, episode, path`+pieceMost, pk, after.Env, after.Scoped, after.Episode, after.Path)
}

// writerKey is the place of a writer.
type writerKey struct {
	OpenedNs int64  `json:"t"`
	ID       []byte `json:"i"`
}

func scanWriter(rows *sql.Rows) (w catalog.WriterInfo, texts int, key writerKey, err error) {
	var logger *int64
	err = rows.Scan(&key.ID, &w.Attempt, &w.State, &w.Signal, &w.Host, &w.PID, &w.Rank, &w.Hotkey, &w.SDK, &logger, &w.OpenedNs, &w.SeenNs, &w.Silent)
	copy(w.ID[:], key.ID)
	key.OpenedNs = w.OpenedNs
	if logger != nil {
		w.LoggerID = new(uint64(*logger))
	}
	return w, 2*entryBytes + len(w.Host) + len(w.Hotkey) + len(w.SDK), key, err
}

func writersAfter(ctx context.Context, q Querier, pk int64, cursor string) (page []catalog.WriterInfo, next string, err error) {
	after := writerKey{OpenedNs: math.MinInt64, ID: []byte{}}
	if err := continueAt(cursor, &after); err != nil {
		return nil, "", err
	}
	return piece(ctx, q, pieceBytes, scanWriter, `SELECT id, attempt, state, signal, host, pid, rank, hotkey, sdk, logger_id, opened_ns, seen_ns, expired FROM writers INDEXED BY writers_age
		WHERE run = (SELECT id FROM runs WHERE pk = ?) AND (opened_ns, id) > (?, ?) ORDER BY opened_ns, id`+pieceMost, pk, after.OpenedNs, after.ID)
}

// eventKey is the place of an event: events of one time are in the order of arrival.
type eventKey struct {
	TimeNs int64 `json:"t"`
	ID     int64 `json:"i"`
}

func scanEvent(rows *sql.Rows) (e catalog.Event, texts int, key eventKey, err error) {
	var tags []byte
	if err = rows.Scan(&e.TimeNs, &key.ID, &e.Name, &e.Text, &tags); err == nil {
		err = json.Unmarshal(tags, &e.Tags)
	}
	key.TimeNs = e.TimeNs
	return e, len(e.Name) + len(e.Text) + len(tags), key, err
}

func eventsAfter(ctx context.Context, q Querier, pk int64, cursor string) (page []catalog.Event, next string, err error) {
	after := eventKey{TimeNs: math.MinInt64}
	if err := continueAt(cursor, &after); err != nil {
		return nil, "", err
	}
	return piece(ctx, q, pieceBytes, scanEvent, `SELECT time_ns, id, name, text, tags FROM events
		WHERE run = ? AND (time_ns, id) > (?, ?) ORDER BY time_ns, id`+pieceMost, pk, after.TimeNs, after.ID)
}

func readLists(ctx context.Context, tx Querier, pk int64, d *catalog.Detail) (err error) {
	if d.Attributes, d.Next.Attributes, err = attributesAfter(ctx, tx, pk, ""); err != nil {
		return err
	}
	if d.EnvAttributes, d.Next.EnvAttributes, err = envAttributesAfter(ctx, tx, pk, ""); err != nil {
		return err
	}
	if d.Writers, d.Next.Writers, err = writersAfter(ctx, tx, pk, ""); err != nil {
		return err
	}
	d.Events, d.Next.Events, err = eventsAfter(ctx, tx, pk, "")
	return err
}

// Attributes implements [catalog.Lists].
func (d *DB) Attributes(ctx context.Context, run model.RunID, cursor string) ([]catalog.Attribute, string, error) {
	return listOf(ctx, d, run, cursor, attributesAfter)
}

// EnvAttributes implements [catalog.Lists].
func (d *DB) EnvAttributes(ctx context.Context, run model.RunID, cursor string) ([]catalog.EnvAttribute, string, error) {
	return listOf(ctx, d, run, cursor, envAttributesAfter)
}

// Writers implements [catalog.Lists].
func (d *DB) Writers(ctx context.Context, run model.RunID, cursor string) ([]catalog.WriterInfo, string, error) {
	return listOf(ctx, d, run, cursor, writersAfter)
}

// Events implements [catalog.Lists].
func (d *DB) Events(ctx context.Context, run model.RunID, cursor string) ([]catalog.Event, string, error) {
	return listOf(ctx, d, run, cursor, eventsAfter)
}

// listOf reads a page of one of a run's lists.
func listOf[T any](ctx context.Context, d *DB, run model.RunID, cursor string,
	after func(ctx context.Context, q Querier, pk int64, cursor string) ([]T, string, error),
) ([]T, string, error) {
	pk, err := d.rowOf(ctx, run)
	if err != nil {
		return nil, "", err
	}
	page, next, err := after(ctx, d.reader, pk, cursor)
	return page, next, d.failure("read a run's lists", err)
}

// rowOf finds the row of a run.
func (d *DB) rowOf(ctx context.Context, run model.RunID) (pk int64, err error) {
	err = d.reader.row(ctx, `SELECT r.pk FROM ids JOIN runs r ON r.id = ids.run WHERE ids.id = ?`, run[:])(&pk)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, d.missing(ctx, run)
	}
	return pk, d.failure("find a run", err)
}

// Config implements [catalog.Details].
func (d *DB) Config(ctx context.Context, run model.RunID, bytes int64) ([]catalog.Attribute, error) {
	pk, err := d.rowOf(ctx, run)
	if err != nil {
		return nil, err
	}
	config, err := d.config(ctx, pk, newRoom(bytes))
	if errors.Is(err, errPageFull) {
		return nil, catalog.ErrLarge
	}
	return config, d.failure("read a config", err)
}

func (d *DB) config(ctx context.Context, pk int64, r *room) ([]catalog.Attribute, error) {
	// '0' is the character after '/': the range holds what starts with config/.
	return Collect(ctx, d.reader, func(rows *sql.Rows) (catalog.Attribute, error) {
		a, texts, _, err := scanAttribute(rows)
		if err == nil {
			err = r.take(texts)
		}
		return a, err
	}, `SELECT path, value FROM attributes WHERE run = ? AND path >= 'config/' AND path < 'config0' ORDER BY path LIMIT ?`, pk, catalog.MaxConfig)
}
