package local

// LiveBytes is what the flushed points of all runs that are not deleted take.
// Bytes of deleted ones are freed by the next merge of their segment.
func (e *Engine) LiveBytes() (n int64) {
	for _, s := range e.liveSegments() {
		n += s.size
		for i := range s.runs {
			if r := e.run(s.runs[i].run); r != nil && r.isDeleted() {
				n -= s.runs[i].bytes
			}
		}
	}
	return n
}
