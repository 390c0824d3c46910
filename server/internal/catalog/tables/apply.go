package tables

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kymogram/kymogram/internal/model"
)

// keptEvents is how many events a run keeps, the newest (catalog.Detail).
const keptEvents = 1000

// Apply implements [catalog.Journal].
func (d *DB) Apply(ctx context.Context, run model.RunID, w model.WriterID, lsn uint64, updates []model.Update, now time.Time) error {
	return d.write(ctx, "apply updates", func(tx Tx) error {
		ctx := context.WithoutCancel(ctx) // begun, it ends
		c := &change{tx: tx, run: run, writer: w, nowNs: now.UnixNano()}
		var applied uint64
		err := tx.QueryRowContext(ctx, `SELECT r.pk, r.applied_lsn FROM ids JOIN runs r ON r.id = ids.run WHERE ids.id = ?`, run[:]).Scan(&c.pk, &applied)
		if errors.Is(err, sql.ErrNoRows) || (err == nil && lsn > 0 && lsn <= applied) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := c.applyAll(ctx, updates); err != nil {
			return err
		}
		if err := Exec(ctx, tx, `UPDATE runs SET applied_lsn = `+greater("applied_lsn", "?1")+` WHERE pk = ?2`, int64(lsn), c.pk); err != nil {
			return err
		}
		if w.IsZero() {
			return refreshRun(ctx, tx, c.pk, 0) // a person's edit is no sign of life
		}
		if err := seeWriter(ctx, tx, w, c.nowNs); err != nil {
			return err
		}
		return refreshRun(ctx, tx, c.pk, c.nowNs)
	})
}

// change is a list of updates on its way into one run.
type change struct {
	tx     Tx
	pk     int64
	run    model.RunID
	writer model.WriterID
	nowNs  int64
	said   *initialRow // of the writer, once it was asked for
}

func (c *change) applyAll(ctx context.Context, updates []model.Update) error {
	for i := range updates {
		if err := c.apply(ctx, &updates[i]); err != nil {
			return fmt.Errorf("apply %s: %w", updates[i].Op, err)
		}
	}
	return nil
}

func (c *change) apply(ctx context.Context, u *model.Update) error {
	switch u.Op {
	case model.OpSetAttribute:
		if u.Initial {
			return c.setLater(ctx, u)
		}
		return c.setAttribute(ctx, u)
	case model.OpSetEnvAttribute:
		return c.setEnvAttribute(ctx, u)
	case model.OpSetTags:
		if err := Exec(ctx, c.tx, `DELETE FROM tags WHERE run = ?`, c.pk); err != nil {
			return err
		}
		return c.eachTag(ctx, u.Tags, `INSERT INTO tags (run, tag) VALUES (?, ?) ON CONFLICT DO NOTHING`)
	case model.OpAddTags:
		return c.eachTag(ctx, u.Tags, `INSERT INTO tags (run, tag) VALUES (?, ?) ON CONFLICT DO NOTHING`)
	case model.OpRemoveTags:
		return c.eachTag(ctx, u.Tags, `DELETE FROM tags WHERE run = ? AND tag = ?`)
	case model.OpSetDescription:
		return Exec(ctx, c.tx, `UPDATE runs SET description = ? WHERE pk = ?`, u.Text, c.pk)
	case model.OpSetDisplayName:
		return Exec(ctx, c.tx, `UPDATE runs SET display_name = ? WHERE pk = ?`, u.Text, c.pk)
	case model.OpLog:
		return c.addEvent(ctx, u)
	case model.OpRendering:
		return c.setRendering(ctx, u.Rendering)
	case model.OpSetTree:
		return c.setTree(ctx, u)
	case model.OpSetFile:
		return c.setFile(ctx, u)
	case model.OpDropped:
		return Exec(ctx, c.tx, `UPDATE runs SET dropped = `+lesser("dropped + ?1", "?2")+` WHERE pk = ?3`, clampCount(u.Count), mostCount, c.pk)
	case model.OpRefused:
		return Exec(ctx, c.tx, `UPDATE runs SET refused = `+lesser("refused + ?1", "?2")+` WHERE pk = ?3`, clampCount(u.Count), mostCount, c.pk)
	case model.OpShared:
		return c.addShared(ctx, u)
	}
	return c.endWriter(ctx, u)
}

// keptShared is how many pairs of writers of one environment a run keeps.
const keptShared = 1000

// addShared keeps a pair once, whoever of the two was found first.
func (c *change) addShared(ctx context.Context, u *model.Update) error {
	if u.Other == nil {
		return model.Errorf(model.CodeBadRecord, "a shared environment has two writers")
	}
	a, b := c.writer[:], u.Other[:]
	if bytes.Compare(a, b) > 0 {
		a, b = b, a
	}
	return Exec(ctx, c.tx, `INSERT INTO shared_environments (run, env, writer, other, time_ns)
		SELECT ?1, ?2, ?3, ?4, ?5 WHERE (SELECT count(*) FROM shared_environments WHERE run = ?1) < ?6
		ON CONFLICT DO NOTHING`, c.pk, u.Env, a, b, u.TimeNs, keptShared)
}

// mostCount is where a counter stops. A sum past SQLite's integers is no integer, and an
// update that cannot be applied keeps every writer of its run waiting.
const mostCount = 1 << 53

// greater and lesser are the greater and the lesser of two numbers.
func greater(a, b string) string {
	return `CASE WHEN ` + a + ` < ` + b + ` THEN ` + b + ` ELSE ` + a + ` END`
}

func lesser(a, b string) string {
	return `CASE WHEN ` + a + ` > ` + b + ` THEN ` + b + ` ELSE ` + a + ` END`
}

func clampCount(n uint64) int64 { return int64(min(n, mostCount)) }

// endWriter applies a close or gone. A close, and the signal that ended a process,
// is final and wins over gone; gone never undoes it.
func (c *change) endWriter(ctx context.Context, u *model.Update) error {
	state := model.WriterFinished
	switch {
	case u.Signal != "":
		state = model.WriterInterrupted
	case u.Text == string(model.StatusFailed):
		state = model.WriterFailed
	}
	switch {
	case u.Op == model.OpClose, u.Op == model.OpGone && u.Signal != "":
		ended := c.nowNs
		if u.TimeNs > 0 {
			ended = min(u.TimeNs, ended)
		}
		return Exec(ctx, c.tx, `UPDATE writers SET state = ?, signal = ?, ended_ns = ?, expired = 0 WHERE id = ? AND run = ? AND state IN (?, ?)`,
			state, u.Signal, ended, c.writer[:], c.run[:], model.WriterOpen, model.WriterGone)
	case u.Op == model.OpGone:
		return Exec(ctx, c.tx, `UPDATE writers SET state = ?, expired = 0 WHERE id = ? AND run = ? AND state IN (?, ?)`,
			model.WriterGone, c.writer[:], c.run[:], model.WriterOpen, model.WriterGone)
	}
	return model.Errorf(model.CodeBadRecord, "the update %q is not known", model.Clip(string(u.Op)))
}

func (c *change) eachTag(ctx context.Context, tags []string, query string) error {
	for _, tag := range tags {
		if err := Exec(ctx, c.tx, query, c.pk, tag); err != nil {
			return err
		}
	}
	return nil
}

func (c *change) setAttribute(ctx context.Context, u *model.Update) error {
	if u.Value == nil {
		return Exec(ctx, c.tx, `DELETE FROM attributes WHERE run = ? AND path = ?`, c.pk, u.Path)
	}
	text, err := json.Marshal(u.Value)
	if err != nil {
		return err
	}
	return Exec(ctx, c.tx, insertAttribute+` DO UPDATE SET type = excluded.type, value = excluded.value, key = excluded.key`,
		c.pk, u.Path, u.Value.Type, string(text), sortKey(u.Value))
}

const insertAttribute = `INSERT INTO attributes (run, path, type, value, key) VALUES (?, ?, ?, ?, ?) ON CONFLICT (run, path)`

// sortKey is what an attribute sorts and compares by.
func sortKey(v *model.Value) Key { return Key{sortsBy(v)} }

func boolKey(v bool) int64 {
	if v {
		return 1
	}
	return 0
}

func sortsBy(v *model.Value) any {
	switch v.Type {
	case model.TypeBool:
		return boolKey(v.Bool)
	case model.TypeInt, model.TypeTime:
		return v.Int
	case model.TypeFloat:
		if math.IsNaN(v.Float) {
			return nil
		}
		return v.Float
	case model.TypeString:
		return beginning(v.Str, keyBytes)
	}
	return beginning(strings.Join(v.Set, "\n"), keyBytes)
}

// keyBytes is how much of a text sorts and compares. It is in an index, where all that a
// search passes is read.
const keyBytes = 256

// searchBytes is how much of a run's names and tags is in the indexes of the orders.
const searchBytes = 512

// beginning cuts a text between two characters, so that it has at least most-3 bytes.
func beginning(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

func (c *change) setEnvAttribute(ctx context.Context, u *model.Update) error {
	var scoped, episode int64
	if u.Episode != nil {
		scoped, episode = 1, *u.Episode
	}
	if u.Value == nil {
		return Exec(ctx, c.tx, `DELETE FROM env_attributes WHERE run = ? AND env = ? AND scoped = ? AND episode = ? AND path = ?`,
			c.pk, u.Env, scoped, episode, u.Path)
	}
	text, err := json.Marshal(u.Value)
	if err != nil {
		return err
	}
	return Exec(ctx, c.tx, `INSERT INTO env_attributes (run, env, scoped, episode, path, value) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (run, env, scoped, episode, path) DO UPDATE SET value = excluded.value`, c.pk, u.Env, scoped, episode, u.Path, string(text))
}

func (c *change) addEvent(ctx context.Context, u *model.Update) error {
	tags, err := json.Marshal(eventTags(u))
	if err != nil {
		return err
	}
	timeNs := u.TimeNs
	if timeNs == 0 {
		timeNs = c.nowNs
	}
	if err := Exec(ctx, c.tx, `INSERT INTO events (run, time_ns, name, text, tags) VALUES (?, ?, ?, ?, ?)`, c.pk, timeNs, u.Path, u.Text, string(tags)); err != nil {
		return err
	}
	return Exec(ctx, c.tx, `DELETE FROM events WHERE run = ?1 AND (time_ns, id) <= (
		SELECT time_ns, id FROM events WHERE run = ?1 ORDER BY time_ns DESC, id DESC LIMIT 1 OFFSET ?2)`, c.pk, keptEvents)
}

// eventTags reads an event's tags: a set of "name=value", or names alone.
func eventTags(u *model.Update) map[string]string {
	tags := map[string]string{}
	add := func(tag string) {
		name, value, _ := strings.Cut(tag, "=")
		tags[name] = value
	}
	for _, tag := range u.Tags {
		add(tag)
	}
	if u.Value != nil && u.Value.Type == model.TypeStringSet {
		for _, tag := range u.Value.Set {
			add(tag)
		}
	}
	return tags
}
