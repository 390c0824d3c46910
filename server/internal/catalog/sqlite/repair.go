package sqlite

import (
	"context"
	"log/slog"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog/mirror"
)

// Plan says what repairing a catalog would do. Nobody may use it.
func Plan(ctx context.Context, path, mark string) (*Health, error) {
	if err := registerVFS(); err != nil {
		return nil, err
	}
	v, err := diagnose(ctx, path)
	if err != nil {
		return nil, err
	}
	if v.fresh {
		return nil, model.Errorf(model.CodeNotFound, "there is no catalog and no mirror of one").WithHint("name the folder that was given to `kymogram serve --data`")
	}
	h := &Health{Rebuilt: v.rebuild, Renewed: v.renew, CaughtUp: len(v.missing), Older: older(mirror.ReadMark(mark), v.at, v.state.Last)}
	switch {
	case v.plain:
		h.Renewed = "the catalog is of an older version, without checksums and mirror"
	case v.rebuild != "":
		h.CaughtUp, h.Lost = 0, v.state.Damage
	}
	return h, nil
}

// Repair makes a catalog and its mirror agree. Nobody may use it.
func Repair(ctx context.Context, path, mark string, log *slog.Logger) (*Health, error) {
	if _, err := Plan(ctx, path, mark); err != nil {
		return nil, err
	}
	d, err := OpenWith(ctx, path, Options{Logger: log, Mark: mark})
	if err != nil {
		return nil, err
	}
	h := d.Health()
	return &h, d.Close()
}
