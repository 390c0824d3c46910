package query

import "cmp"

// What answers take in memory, in bytes. The caller of a read holds so much of the memory
// for answers until its client has the answer. A test of httpapi measures what is held.
const (
	answerBytes = 96 << 10 // what every answer takes: a piece of text, also compressed
	rowBytes    = 160      // of points: ten axes, time, value, attempt, writer, sequence, run
	bucketBytes = 128
	seriesBytes = 512
	runBytes    = 12 << 10 // its summaries; texts besides are smallTexts at most
	cellBytes   = 96       // a named value of a run, without its text
)

// Bytes is what the page of runs takes.
func (r *RunsRequest) Bytes() int64 {
	runs := cmp.Or(r.Limit, DefaultRuns)
	cells := min(runs*len(r.Columns), max(mostCells, len(r.Columns)))
	return answerBytes + smallTexts + int64(runs)*runBytes + int64(cells)*cellBytes
}

// Bytes is what groups take: a hundred thousand runs with their columns, and what is shown.
func (r *GroupsRequest) Bytes() int64 {
	const runs, columnBytes, groupBytes, statisticsBytes = 100_000, 8, 128, 512
	shown := int64(cmp.Or(r.Limit, DefaultGroups))
	return answerBytes + runs*(groupBytes+int64(len(r.Columns))*columnBytes) + shown*int64(1+len(r.Columns))*statisticsBytes
}

// Bytes is what the list of series takes.
func (r *SeriesRequest) Bytes() int64 {
	return answerBytes + int64(cmp.Or(r.Limit, DefaultSeries))*int64(seriesBytes+r.Preview*bucketBytes)
}

// Bytes is what the page of points takes.
func (r *PointsRequest) Bytes() int64 { return answerBytes + RowBytes(cmp.Or(r.Limit, DefaultPoints)) }

// RowBytes is what rows of points take.
func RowBytes(rows int) int64 { return int64(rows) * rowBytes }

// RowsIn is how many rows of points an answer of so many bytes has.
func RowsIn(bytes int64) int { return max(1, int((bytes-answerBytes)/rowBytes)) }

// BucketsBytes is what the answers of requests take together.
func BucketsBytes(requests ...BucketsRequest) int64 {
	total := int64(answerBytes)
	for i := range requests {
		total += int64(max(0, cmp.Or(requests[i].N, DefaultBucket))) * bucketBytes
	}
	return total
}

// RunBytes is what the document of a run takes, with the first page of each of its lists.
const RunBytes = answerBytes + smallTexts + 512<<10

// FilesBytes is what a page of files takes.
const FilesBytes = answerBytes + 3<<20

// VideosBytes is what a page of videos takes.
const VideosBytes = answerBytes + 4<<20

// Bytes is what the picture takes: a value, a code and its packed form for each cell, what
// is known of rows and columns, the rows that are read at the same time, and a compressor.
func (r *KymographRequest) Bytes() int64 {
	rows, columns := int64(min(len(r.Rows), MaxKymographRows)), int64(min(max(r.Columns, 0), MaxKymographColumns))
	return answerBytes + min(rows*columns, MaxKymographCells)*10 + rows*2*seriesBytes + columns*16*bucketBytes + quantileSample*8 + 1<<20
}
