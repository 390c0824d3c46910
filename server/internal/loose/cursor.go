package loose

import "iter"

const (
	noObject = "no object begins here"
	noArray  = "no array begins here"
)

// Cursor reads a text in one pass, and checks what it passes. It serves a text that is
// nearly all one array: its owner may read the elements in its own way. After a fault it
// stays where it is.
type Cursor struct {
	text   []byte
	at     int
	depth  int
	reason string
}

// NewCursor stands before the value of a text.
func NewCursor(text []byte) *Cursor {
	return &Cursor{text: text, at: space(text, 0), depth: MaxDepth}
}

// Kind is that of the value which comes.
func (c *Cursor) Kind() Kind { return KindOf(c.text[c.at:]) }

// At is where the cursor stands.
func (c *Cursor) At() int { return c.at }

// Rest is the text from there on.
func (c *Cursor) Rest() []byte { return c.text[c.at:] }

// Pass goes on behind bytes that the caller has checked: they are a value.
func (c *Cursor) Pass(size int) { c.at += size }

// Value passes a value; nil after a fault.
func (c *Cursor) Value() []byte {
	if c.reason != "" {
		return nil
	}
	from := c.at
	if c.at, c.reason = value(c.text, from, c.depth); c.reason != "" {
		return nil
	}
	return c.text[from:c.at]
}

// Members walks through an object by its keys, as they came. The loop passes the values; one
// that it leaves is passed for it.
func (c *Cursor) Members() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		c.walk('{', noObject, func() bool {
			from := c.at
			end, val, reason := key(c.text, from)
			if c.at, c.reason = val, reason; reason != "" {
				return false
			}
			return yield(c.text[from:end]) && c.passed(val)
		})
	}
}

// Items walks through an array, as Members through an object.
func (c *Cursor) Items() func(yield func() bool) {
	return func(yield func() bool) {
		c.walk('[', noArray, func() bool {
			from := c.at
			return yield() && c.passed(from)
		})
	}
}

func (c *Cursor) passed(from int) bool {
	if c.at == from {
		c.Value()
	}
	return c.reason == ""
}

// walk goes from the opening bracket to behind the closing one, unless one says no.
func (c *Cursor) walk(opening byte, missing string, one func() bool) {
	switch {
	case c.reason != "":
		return
	case c.at >= len(c.text) || c.text[c.at] != opening:
		c.reason = missing
		return
	case c.depth <= 0:
		c.reason = tooDeep
		return
	}
	closing := opening + 2 // in ASCII
	if c.at = space(c.text, c.at+1); c.at < len(c.text) && c.text[c.at] == closing {
		c.at++
		return
	}
	c.depth--
	for more := true; more; {
		if !one() {
			return
		}
		c.at, more, c.reason = next(c.text, c.at, closing)
	}
	c.depth++
}

// End says what was wrong with the text, once all of it should be passed.
func (c *Cursor) End() error {
	if c.reason == "" {
		return ended(c.text, c.at)
	}
	return fault(c.at, c.reason, MaxDepth)
}
