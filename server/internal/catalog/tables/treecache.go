package tables

import "sync"

const (
	// longTree is not kept: few runs have one, and each would take the place of many.
	longTree = 64 << 10
	// treeEntry is what a kept text takes besides its bytes.
	treeEntry = 64
)

// treeCache keeps texts of trees by their versions, each of which names one text for ever. So
// nothing in it is ever out of date. Where it is full, others go at random: lists go through
// all runs in one order, and would always find that what they come to has just gone.
type treeCache struct {
	most  int64
	mu    sync.Mutex
	bytes int64
	texts map[int64]string
}

func newTreeCache(most int64) *treeCache { return &treeCache{most: most, texts: map[int64]string{}} }

// find puts the texts that are kept where they belong, and gives the others.
func (c *treeCache) find(asked []treeRef) (missing []treeRef) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ref := range asked {
		text, ok := c.texts[ref.version]
		if !ok {
			missing = append(missing, ref)
			continue
		}
		*ref.into = text
	}
	return missing
}

// keep keeps the texts that were read.
func (c *treeCache) keep(read []treeRef) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ref := range read {
		size := int64(len(*ref.into) + treeEntry)
		if _, ok := c.texts[ref.version]; ok || len(*ref.into) > longTree || size > c.most {
			continue
		}
		c.makeRoom(size)
		c.texts[ref.version] = *ref.into
		c.bytes += size
	}
}

func (c *treeCache) makeRoom(size int64) {
	for version, text := range c.texts {
		if c.bytes+size <= c.most {
			return
		}
		delete(c.texts, version)
		c.bytes -= int64(len(text) + treeEntry)
	}
}
