package local

import "time"

// Eager makes an engine work out ahead what pays in long series only.
func (e *Engine) Eager() {
	l := &e.table.Setting.Limits
	l.Chunks, l.Rows, l.Window, l.Leaf = 2, 1, 2, 3
}

// Forget drops all that is loaded and can be read again.
func (e *Engine) Forget() { e.table.Forget(e.cfg.Now().Add(24 * time.Hour)) }
