package transfer

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/kymogram/kymogram/read"
)

// axesOf is every axis of the series, in the order in which they first occur.
func axesOf(series []*read.Series) []string {
	var axes []string
	for _, s := range series {
		for _, axis := range s.Axes {
			if !slices.Contains(axes, string(axis)) {
				axes = append(axes, string(axis))
			}
		}
	}
	return axes
}

// runsOf is the column of the runs that the points are of, nil when they are all
// of the run that is exported.
func runsOf(rows arrow.RecordBatch) *array.String {
	for i, field := range rows.Schema().Fields() {
		if field.Name == runColumn {
			return rows.Column(i).(*array.String)
		}
	}
	return nil
}

const runColumn = "run"

// columnsOf finds a batch's columns by name; an axis that this series lacks is nil.
func columnsOf(rows arrow.RecordBatch, names []string) ([]arrow.Array, error) {
	columns := make([]arrow.Array, len(names))
	for i, field := range rows.Schema().Fields() {
		at := slices.Index(names, field.Name)
		if field.Name == runColumn {
			continue
		}
		if at < 0 {
			return nil, fmt.Errorf("the run gained the axis %s while it was exported: export it again", field.Name)
		}
		columns[at] = rows.Column(i)
	}
	return columns, nil
}
