package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/kymogram/kymogram/server/internal/catalog/mirror"
	"github.com/kymogram/kymogram/server/internal/catalog/still"
)

// Before its owner uses a database, it is made to agree with its mirror:
//
//	the file            its mirror                        what happens
//	whole               at the same change                nothing
//	whole               ahead, since a crash              the database catches up
//	whole               ahead of a log that was cut       the database is made anew
//	damaged, missing    there                             the database is made anew
//	damaged, missing    damaged, behind, missing          both are made anew, from what either has
//	whole               damaged, behind, missing          the mirror is made anew
//	without checksums   none                              both are made anew, from its rows
//
// What is damaged is set aside, never deleted.

// Health is what opening a catalog met.
type Health struct {
	Rebuilt  string   `json:"rebuilt,omitempty"`   // why the database was made anew
	Renewed  string   `json:"renewed,omitempty"`   // why the mirror was made anew
	CaughtUp int      `json:"caught_up"`           // changes that only the mirror had
	Lost     []string `json:"lost,omitempty"`      // what neither of them has whole
	SetAside []string `json:"set_aside,omitempty"` // files
	Closed   int      `json:"closed_keys"`         // keys revoked, since what changed them may be lost
	Older    string   `json:"older,omitempty"`     // why both are older than they were
}

// Healthy says that there was nothing to do.
func (h *Health) Healthy() bool {
	return h.Rebuilt == "" && h.Renewed == "" && h.CaughtUp == 0 && h.Older == ""
}

// Health is what opening met.
func (d *DB) Health() Health { return d.health }

// verdict is what there is to do.
type verdict struct {
	file    *paged
	state   *mirror.State
	at      mirror.Position // of the database
	schema  int64
	missing []missed // what only the mirror has
	plain   bool
	fresh   bool // there is neither
	rebuild string
	renew   string
	stale   bool // the mirror's snapshot is of older tables
}

type missed struct {
	at   mirror.Position
	rows []mirror.Row
}

// heal makes the database and its mirror agree.
func (d *DB) heal(ctx context.Context) error {
	v, err := diagnose(ctx, d.path)
	if err != nil {
		return err
	}
	d.compareMark(v)
	return d.follow(ctx, v)
}

func (d *DB) follow(ctx context.Context, v *verdict) error {
	if v.fresh {
		if err := makeEmpty(d.path); err != nil {
			return err
		}
	}
	if v.plain {
		return d.adoptPlain(ctx, v)
	}
	var err error
	switch {
	case v.rebuild != "":
		err = d.rebuild(ctx, v)
	case len(v.missing) > 0:
		err = d.catchUpFrom(ctx, v)
	}
	if err != nil {
		return err
	}
	return d.settle(ctx, v)
}

// diagnose compares a database with its mirror. It changes neither.
func diagnose(ctx context.Context, path string) (*verdict, error) {
	file, err := checkPages(path)
	if err != nil {
		return nil, err
	}
	v := &verdict{file: file, plain: file.plain}
	if v.readable() {
		if err := v.look(ctx, path); err != nil {
			return nil, err
		}
	}
	if err := v.compare(path); err != nil {
		return nil, err
	}
	return v, v.decide(ctx, path)
}

func (v *verdict) readable() bool { return v.file.whole() && !v.plain && v.rebuild == "" }

// look reads how far the database is.
func (v *verdict) look(ctx context.Context, path string) error {
	err := reading(path, func(db *sql.DB) (err error) {
		if v.schema, err = schemaOf(ctx, db); err == nil {
			v.at, err = readPosition(ctx, db)
		}
		return err
	})
	if err != nil && damaged(err) {
		v.rebuild, err = fmt.Sprintf("it cannot be read: %v", err), nil
	}
	if have := int64(latestMigration()); err == nil && v.schema > have {
		return errNewer(v.schema, have)
	}
	return err
}

// compare reads the mirror.
func (v *verdict) compare(path string) (err error) {
	shared := v.at == mirror.Position{}
	v.state, err = mirror.Read(mirrorDir(path), nil, func(at mirror.Position, rows []mirror.Row) error {
		shared = shared || at == v.at
		if v.readable() && at.LSN > v.at.LSN {
			v.missing = append(v.missing, missed{at, rows})
		}
		return nil
	})
	if err != nil {
		return err
	}
	s := v.state
	if s.Base == nil {
		return nil
	}
	if have := int64(latestMigration()); s.Base.Schema > have {
		return errNewer(s.Base.Schema, have)
	}
	v.stale = s.Base.Schema != int64(latestMigration())
	if shared = shared || s.Base.Position == v.at; !shared && v.at.LSN >= s.Base.Position.LSN && v.at.LSN <= s.Last.LSN && len(s.Damage) == 0 {
		s.Damage = append(s.Damage, fmt.Sprintf("change %d is of another history", v.at.LSN))
	}
	return nil
}

func (v *verdict) decide(ctx context.Context, path string) error {
	s := v.state
	mirrored := s.Base != nil
	switch {
	case v.file.plain:
	case v.file.missing && !mirrored && len(s.Damage) == 0:
		v.fresh = true
	case !v.file.whole():
		v.rebuild = v.file.String()
	case v.rebuild != "": // it cannot be read
	case !mirrored || len(s.Damage) > 0 || v.at.LSN > s.Last.LSN:
		v.missing = following(v.missing, v.at)
		v.renew = renewal(s, v.at)
	case v.at.LSN < s.Checkpointed:
		v.rebuild = fmt.Sprintf("its log was cut: it is at change %d, its mirror at %d", v.at.LSN, s.Last.LSN)
	case s.Unfinished:
		return v.decideUnfinished(path)
	}
	if v.rebuild != "" {
		v.weigh(ctx, path)
	}
	return nil
}

// following are the changes that continue a position without a gap.
func following(missing []missed, at mirror.Position) []missed {
	for i, m := range missing {
		if m.at.LSN != at.LSN+1 {
			return missing[:i]
		}
		at = m.at
	}
	return missing
}

func renewal(s *mirror.State, at mirror.Position) string {
	switch {
	case len(s.Damage) > 0:
		return s.Damage[0]
	case s.Base == nil:
		return "it is missing"
	}
	return fmt.Sprintf("it ends at change %d, the catalog at %d", s.Last.LSN, at.LSN)
}

// decideUnfinished is for a database that a crash met while its file took over its
// log. The log is still whole then, and says where the database is.
func (v *verdict) decideUnfinished(path string) error {
	f, err := still.Open(path)
	if err != nil {
		return err
	}
	if f.Frames() == 0 {
		v.rebuild = "its log is gone, which its file was about to take over"
	}
	return f.Close()
}

// settle makes the mirror of a database that is whole by now, where it must.
func (d *DB) settle(ctx context.Context, v *verdict) error {
	if v.renew == "" && !v.stale && !v.fresh && len(d.health.Lost) == 0 {
		return nil
	}
	if v.renew != "" {
		if v.state.Base != nil || len(v.state.Damage) > 0 {
			if err := d.setMirrorAside(); err != nil {
				return err
			}
		}
		d.health.Renewed = v.renew
		d.log.Warn("the catalog's mirror was made anew", "why", v.renew, "catalog", d.path)
	}
	return using(d.path, vfsName, writing, func(db *sql.DB) error {
		if err := migrate(ctx, db); err != nil {
			return err
		}
		return createMirror(ctx, db, mirrorDir(d.path))
	})
}

// createMirror makes the mirror of a database, or a new snapshot in it.
func createMirror(ctx context.Context, db *sql.DB, dir string) error {
	known, err := mirroredTables(ctx, db)
	if err != nil {
		return err
	}
	return snapshotOf(ctx, db, known, func(ctx context.Context, h mirror.Header, rows mirror.Rows) error {
		return mirror.Create(ctx, dir, h, rows)
	})
}

func (d *DB) setMirrorAside() error {
	if _, err := os.Stat(mirrorDir(d.path)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	to := d.asideName() + "-mirror"
	d.health.SetAside = append(d.health.SetAside, to)
	return mirror.SetAside(mirrorDir(d.path), to)
}

// asideName is the name for damaged files of now.
func (d *DB) asideName() string {
	return d.path + ".damaged-" + time.Now().UTC().Format("20060102T150405.000000000")
}
