package model

// RunChange says that a run has news: what ingest publishes and live hands on.
// It names what to read again and carries no totals.
type RunChange struct {
	Run       RunID
	Workspace string
	Project   string
	// Points that were stored since the last change that the reader got.
	Points uint64
	LastNs int64
	// Meta: more than points changed (status, attributes, tags, deletion).
	Meta bool
}
