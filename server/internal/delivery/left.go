package delivery

import (
	"fmt"

	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/server/internal/table"
)

// Left is what a spool still holds.
type Left struct {
	Writers int    `json:"writers"`
	Records uint64 `json:"records"`
	Points  uint64 `json:"points"`
	Bytes   uint64 `json:"bytes"`
	// Renderings are videos that are not uploaded.
	Renderings int `json:"renderings"`
}

// String is the part that people ask for.
func (l Left) String() string {
	if l.Renderings == 0 {
		return table.Count(l.Points) + " points"
	}
	return fmt.Sprintf("%s points and %d videos", table.Count(l.Points), l.Renderings)
}

func (l *Left) add(list []Waiting) {
	for i := range list {
		one := &list[i]
		l.Writers++
		l.Records += one.Records
		l.Points += one.Points
		l.Bytes += one.Bytes
		l.Renderings += one.Renderings
	}
}

// LeftIn counts what no server has acked yet. A run that is open and delivered so
// far has nothing left.
func LeftIn(folder *spool.Folder) (Left, error) {
	var out Left
	list, err := List(folder)
	out.add(list)
	return out, err
}
