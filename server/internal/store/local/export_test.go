package local

import (
	"time"

	"github.com/kymogram/kymogram/server/internal/store/local/curve"
)

// Eager makes an engine work out ahead what pays in long series only.
func (e *Engine) Eager() {
	e.table.Setting.Limits = curve.Limits{Chunks: 2, Rows: 1, Window: 2, Leaf: 3}
}

// Forget drops all that is loaded and can be read again.
func (e *Engine) Forget() { e.table.Forget(e.cfg.Now().Add(24 * time.Hour)) }
