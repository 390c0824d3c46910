package row

import (
	"iter"

	"github.com/kymogram/kymogram/server/internal/loose"
)

// Feed is the lines of the history that a body has. It is read once: lines that have
// the form of one before are numbers from then on. Others are read when they are placed,
// and so are checked as rows only then.
type Feed struct {
	body  []byte
	end   int // of the array
	forms []*form
	// words has of each line with a form its place (form<<placeBits | offset in the body) and
	// its numbers. Of lines without one that follow each other it has the place of the first.
	words []uint64
	learn int // how many forms may still be tried
}

const (
	placeBits = 48
	noForm    = 1<<(64-placeBits) - 1
)

// Lines of one process have few forms. To look for one costs as much as to read the line.
const (
	mostForms = 8
	mostLooks = 16
)

// ReadFeed reads an array of lines that the cursor in the body stands before.
func ReadFeed(body []byte, c *loose.Cursor) *Feed {
	l := &Feed{body: body, learn: mostLooks}
	last, others := 0, false
	for range c.Items() {
		rest := c.Rest()
		form, size := l.read(rest, c.At(), last)
		if size > 0 {
			c.Pass(size)
		} else {
			at := c.At()
			wire := c.Value()
			if form, size = l.look(wire, at, len(rest)); size == 0 {
				if !others {
					l.words = append(l.words, noForm<<placeBits|uint64(at))
				}
				others = true
				continue
			}
		}
		last, others = form, false
	}
	l.end = c.At()
	return l
}

// read takes a line that has a form; most have that of the line before.
func (l *Feed) read(rest []byte, at, last int) (form, size int) {
	for i := range l.forms {
		form := (last + i) % len(l.forms)
		f, before := l.forms[form], len(l.words)
		l.words = append(l.words, uint64(form)<<placeBits|uint64(at))
		if l.words, size = f.read(rest, l.words); size > 0 {
			f.rows++
			return form, size
		}
		l.words = l.words[:before]
	}
	return 0, 0
}

// look finds the form of a line, where enough follows that more may have it.
func (l *Feed) look(wire []byte, at, left int) (form, size int) {
	if l.learn == 0 || len(l.forms) == mostForms || loose.KindOf(wire) != loose.String || left < 4*len(wire) {
		return 0, 0
	}
	l.learn--
	f := formOf(wire)
	if f == nil {
		return 0, 0
	}
	if l.forms = append(l.forms, f); len(l.words) == 0 {
		l.words = make([]uint64, 0, (left/len(wire)+1)*(len(f.before)+1))
	}
	return l.read(wire, at, len(l.forms)-1)
}

// Window is some of the lines that follow each other. What is made of a line may take many
// times its bytes, so they are worked on window by window.
type Window struct {
	feed  *Feed
	refs  []ref
	texts [][]byte // as far as they were asked for
	room  []byte
}

// ref is a line: where it is in the body, and its form, with where its numbers are.
type ref struct{ at, form, bits int }

// Windows walks through the lines, so many and so many bytes at once. A window's texts stay
// as they are.
func (l *Feed) Windows(most, bytes int) iter.Seq[*Window] {
	return func(yield func(*Window) bool) {
		if l == nil {
			return
		}
		var refs []ref
		for one := range l.all {
			if len(refs) == most || len(refs) > 0 && one.at-refs[0].at > bytes {
				if !yield(&Window{feed: l, refs: refs}) {
					return
				}
				refs = refs[:0]
			}
			refs = append(refs, one)
		}
		if len(refs) > 0 {
			yield(&Window{feed: l, refs: refs})
		}
	}
}

func (l *Feed) all(yield func(ref) bool) {
	for i := 0; i < len(l.words); {
		form, at := int(l.words[i]>>placeBits), int(l.words[i]&(1<<placeBits-1))
		if i++; form != noForm {
			if !yield(ref{at, form, i}) {
				return
			}
			i += len(l.forms[form].before)
			continue
		}
		end := l.end
		if i < len(l.words) {
			end = int(l.words[i] & (1<<placeBits - 1))
		}
		for at < end && l.body[at] != ']' {
			if !yield(ref{at, form, 0}) {
				return
			}
			_, at = loose.Next(l.body, at)
		}
	}
}

// Len is how many lines the window has.
func (w *Window) Len() int { return len(w.refs) }

// Parse is Line.Parse of a line of the window.
func (w *Window) Parse(i int, l *Line) error {
	r := w.refs[i]
	if r.form == noForm {
		return l.Parse(w.text(i))
	}
	f := w.feed.forms[r.form]
	*l = Line{window: w, index: i, form: f, bits: w.feed.words[r.bits : r.bits+len(f.before)], members: l.members[:0], odd: l.odd[:0]}
	l.numbers()
	return nil
}

// text is a line as text; what is no string is given as it is.
func (w *Window) text(i int) []byte {
	if w.texts == nil {
		w.texts = make([][]byte, len(w.refs))
	}
	if w.texts[i] != nil {
		return w.texts[i]
	}
	wire, _ := loose.Next(w.feed.body, w.refs[i].at)
	if loose.KindOf(wire) == loose.String {
		if cap(w.room)-len(w.room) < len(wire) { // a text has no more bytes than its JSON
			w.room = make([]byte, 0, max(len(wire), min(textsAtOnce, len(w.feed.body))))
		}
		begin := len(w.room)
		w.room, _ = loose.AppendDecoded(w.room, wire)
		wire = w.room[begin:len(w.room):len(w.room)]
	}
	w.texts[i] = wire
	return wire
}

// textsAtOnce is the room for texts that is made at once.
const textsAtOnce = 64 << 10
