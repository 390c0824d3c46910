package local

// Eager makes an engine work out ahead what pays in long series only.
func (e *Engine) Eager() { e.limits = chartLimits{chunks: 2, rows: 1, window: 2, leaf: 3} }
