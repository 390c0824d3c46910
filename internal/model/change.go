package model

// RunChange says that a run has news: what ingest publishes and live hands on.
type RunChange struct {
	Run       RunID
	Workspace string
	Project   string
}

// LiveEvent says that a run changed. It is a summary, not the points: the page
// asks for what it shows.
type LiveEvent struct {
	ID     uint64 // rising; a client that comes back continues behind it
	Reset  bool   // events were lost: read everything again; the rest is empty
	Run    RunID
	Points uint64 // of the run so far
	Series uint64
	LastNs int64
	Status RunStatus
}

// LiveFilter selects the events of some runs, or of all runs of one project.
type LiveFilter struct {
	Runs               []RunID
	Workspace, Project string
}
