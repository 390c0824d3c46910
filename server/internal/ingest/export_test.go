package ingest

import "github.com/kymogram/kymogram/internal/model"

// Claims is what every batch of a writer goes through for its environments.
func Claims() func(*model.Batch) {
	var o owners
	me := &owner{writer: model.WriterID{1}}
	return func(b *model.Batch) { o.claim(me, b) }
}
