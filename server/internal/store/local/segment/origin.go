package segment

// Origin is what a segment's directory says of the store's life up to it (since version 4).
type Origin struct {
	Rewrites int   // how often merges wrote its oldest points anew
	Written  int64 // bytes of all segments that were written before it
	Freed    int64 // bytes that merges left out up to it: of deleted runs, and of repeats
}

func (e *encoder) origin(o Origin) {
	e.Uint(uint64(o.Rewrites))
	e.Uint(uint64(o.Written))
	e.Uint(uint64(o.Freed))
}

func (d *decoder) origin(version uint16) Origin {
	if version < withOrigin {
		return Origin{}
	}
	return Origin{int(d.Uint()), int64(d.Uint()), int64(d.Uint())}
}

// Life is what a store wrote to segments over its life, also in merges and in files that
// are gone. What it kept of that is the bytes of its segments and Freed.
type Life struct{ Written, Freed int64 }

// LifeOf is what the newest segments tell. A store of before version 4 begins its life with
// the files that are there.
func LifeOf(list []*File) (l Life) {
	older := int64(0)
	for _, s := range list {
		if s.version < withOrigin {
			older += s.Size
			continue
		}
		l.Written, l.Freed = max(l.Written, s.Written+s.Size), max(l.Freed, s.Freed)
	}
	if l.Written == 0 {
		l.Written = older
	}
	return l
}

// Life is that of the store by now.
func (f *Files) Life() Life {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.life
}

// wrote notes bytes of a segment and what a merge left out, and says what was before.
func (f *Files) wrote(bytes, freed int64) (before Life) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before = f.life
	f.life.Written += bytes
	f.life.Freed += freed
	return before
}
