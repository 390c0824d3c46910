package ingest

// Slab is room for the columns of one request, taken back as a whole: the store
// keeps nothing of a batch, and columns that grow from nothing would each leave
// their smaller selves to the garbage collector.
type Slab struct {
	floats []float64
	used   int
}

// Sizes of a slab: what it starts with, and what it keeps for the next request.
const (
	slabStart  = 1 << 14
	slabMost   = 1 << 19 // 4 MiB
	columnRoom = 16
)

// Append is append, with room from the slab while it has any.
func (s *Slab) Append(column []float64, v float64) []float64 {
	if len(column) == cap(column) {
		column = s.grow(column)
	}
	return append(column, v)
}

func (s *Slab) grow(column []float64) []float64 {
	n := max(columnRoom, 2*len(column))
	s.used += n
	if s.used > len(s.floats) {
		return append(make([]float64, 0, n), column...)
	}
	return append(s.floats[s.used-n:s.used-n:s.used], column...)
}

// Reset takes everything back. What did not fit this time will the next.
func (s *Slab) Reset() {
	if want := max(slabStart, min(s.used, slabMost)); want > len(s.floats) {
		s.floats = make([]float64, want)
	}
	s.used = 0
}
