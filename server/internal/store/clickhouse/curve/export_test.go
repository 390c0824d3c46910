package curve

// AtOnce sets how many points are resolved with one statement.
func (r *Reader) AtOnce(points uint64) *Reader {
	r.atOnce = points
	return r
}
