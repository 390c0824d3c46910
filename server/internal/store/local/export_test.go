package local

import (
	"github.com/kymogram/kymogram/server/internal/store/local/curve"
)

// Eager makes an engine work out ahead what pays in long series only.
func (e *Engine) Eager() {
	e.table.Setting.Limits = curve.Limits{Chunks: 2, Rows: 1, Window: 2, Leaf: 3}
}
