package statelog

// Swap gives two logs the place of one another, as a failover does.
func Swap(a, b *Log) {
	a.base, b.base = b.base, a.base
	a.file, b.file = b.file, a.file
}
