package record

import "github.com/kymogram/kymogram/internal/model"

// Run is what one engine knows of a run, less its points, for another engine to take.
type Run struct {
	ID       model.RunID
	Deleted  bool // of a deleted run only Writers are left
	Arrivals int64
	Points   uint64
	Attempts []model.Attempt
	Writers  []Writer // by place
	Series   []Series // by number
	Starts   []Start
}

// Piece is points of a run: rows of a writer, by its place, in an attempt. Rows have no Source.
type Piece struct {
	Source
	Group
}
