package metrics

// SeriesOf is for the test of names.
func SeriesOf(group, name string) (series, exact string) {
	s := seriesOf(group, name)
	return s.name, s.exact
}
