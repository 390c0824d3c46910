package ingest

// Slab is room for the columns of one request, taken back as a whole: the store
// keeps nothing of a batch, and columns that grow from nothing would each leave
// their smaller selves to the garbage collector.
type Slab[T float64 | int64 | uint32] struct {
	room []T
	used int
}

// Sizes of a slab: what it starts with, and what it keeps for the next request.
const (
	slabStart  = 1 << 10
	slabMost   = 1 << 19 // 4 MiB
	columnRoom = 16
)

// Append is append, with room from the slab while it has any.
func (s *Slab[T]) Append(column []T, v T) []T {
	if len(column) == cap(column) {
		column = s.grow(column)
	}
	return append(column, v)
}

func (s *Slab[T]) grow(column []T) []T {
	n := max(columnRoom, 2*len(column))
	s.used += n
	if s.used > len(s.room) {
		return append(make([]T, 0, n), column...)
	}
	return append(s.room[s.used-n:s.used-n:s.used], column...)
}

// Reset takes everything back. What did not fit this time will the next.
func (s *Slab[T]) Reset() {
	if want := max(slabStart, min(s.used, slabMost)); want > len(s.room) {
		s.room = make([]T, want)
	}
	s.used = 0
}
