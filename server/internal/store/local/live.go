package local

// LiveBytes is what the flushed points of all runs that are not deleted take.
// Bytes of deleted ones are freed by the next merge of their segment.
func (e *Engine) LiveBytes() (n int64) {
	for _, s := range e.files.Live() {
		n += s.Size
		for i := range s.Runs {
			if e.isDeleted(s.Runs[i].Run) {
				n -= s.Runs[i].Bytes
			}
		}
	}
	return n
}
