package tables

import (
	"sync"

	"github.com/kymogram/kymogram/server/internal/catalog"
)

const (
	// longTree is not kept: few runs have one, and each would take the place of many.
	longTree = 64 << 10
	// treeEntry is what a kept text takes besides its bytes and those of its note.
	treeEntry = 128
)

// treeCache keeps texts of trees by their versions, each of which names one text for ever. So
// nothing in it is ever out of date. Where it is full, others go at random: lists go through
// all runs in one order, and would always find that what they come to has just gone.
type treeCache struct {
	most  int64
	mu    sync.Mutex
	bytes int64
	texts map[int64]*keptText
}

type keptText struct {
	text string
	note catalog.Note
}

// size counts the note, too.
func (k *keptText) size() int64 { return int64(len(k.text)*3/2 + treeEntry) }

func newTreeCache(most int64) *treeCache { return &treeCache{most: most, texts: map[int64]*keptText{}} }

// find puts the texts that are kept where they belong, and gives the others.
func (c *treeCache) find(asked []treeRef) (missing []treeRef) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ref := range asked {
		kept, ok := c.texts[ref.version]
		if !ok {
			missing = append(missing, ref)
			continue
		}
		*ref.into, *ref.note = kept.text, &kept.note
	}
	return missing
}

// keep keeps the texts that were read.
func (c *treeCache) keep(read []treeRef) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ref := range read {
		one := &keptText{text: *ref.into}
		if _, ok := c.texts[ref.version]; ok || len(one.text) > longTree || one.size() > c.most {
			continue
		}
		c.makeRoom(one.size())
		c.texts[ref.version] = one
		c.bytes += one.size()
	}
}

func (c *treeCache) makeRoom(size int64) {
	for version, one := range c.texts {
		if c.bytes+size <= c.most {
			return
		}
		delete(c.texts, version)
		c.bytes -= one.size()
	}
}
