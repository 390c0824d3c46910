package console

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// window is how many of the last lines the cursor can go back to, as nested bars do.
	window = 128
	// longestLine is the most bytes of a line that are kept.
	longestLine = 8 << 10
	// spare is what a row holds beyond that, so that a secret at the cut is seen whole.
	spare = 4 << 10
	tab   = 8
)

// row is a line of the terminal.
type row struct {
	text  []rune
	more  int // characters past the longest line
	at    time.Time
	dirty bool // has changed since it was kept
	kept  bool
	lost  bool // it came faster than lines are kept
}

// line is a row as the keeper takes it.
type line struct {
	number int64
	text   string
	more   int
	at     time.Time
	again  bool // it replaces one of the same number
	whole  bool // the cursor has left it
}

// screen is a terminal of unlimited width, as far as it decides what lines look like: carriage
// returns, moves of the cursor, erasure. Colours are dropped, and so are all other sequences.
type screen struct {
	rows  []*row
	first int64 // the number of rows[0]
	y, x  int
	now   time.Time
	// keep takes a row and says whether there was room for it.
	keep  func(line) bool
	state func(*screen, byte)
	args  []byte // of the control sequence
	part  []byte // of a character
}

func newScreen(keep func(line) bool) *screen {
	return &screen{rows: []*row{{}}, keep: keep, state: (*screen).plain}
}

// write takes a piece of output. Characters and sequences may be cut anywhere.
func (s *screen) write(data []byte, now time.Time) {
	s.now = now
	for i := range data {
		s.state(s, data[i])
	}
}

func (s *screen) plain(b byte) {
	if len(s.part) > 0 || b >= utf8.RuneSelf {
		s.character(b)
		return
	}
	switch b {
	case '\n':
		s.newline()
	case '\r':
		s.x = 0
	case '\b':
		s.x = max(s.x-1, 0)
	case '\t':
		s.x += tab - s.x%tab
	case 0x1b:
		s.state = (*screen).escape
	default:
		if b >= ' ' && b != 0x7f {
			s.put(rune(b))
		}
	}
}

// character collects the bytes of one character; what is none becomes U+FFFD.
func (s *screen) character(b byte) {
	if len(s.part) > 0 && utf8.RuneStart(b) { // the one before was cut short
		s.part = s.part[:0]
		s.put(utf8.RuneError)
		s.plain(b)
		return
	}
	s.part = append(s.part, b)
	if !utf8.FullRune(s.part) {
		return
	}
	r, size := utf8.DecodeRune(s.part)
	rest := s.part[size:]
	s.part = nil
	if r < 0x80 || r > 0x9f { // the second set of control characters
		s.put(r)
	}
	for _, b := range rest {
		s.plain(b)
	}
}

func (s *screen) escape(b byte) {
	switch b {
	case '[':
		s.args, s.state = s.args[:0], (*screen).control
	case ']', 'P', '_', '^', 'X':
		s.state = (*screen).ignored
	case 0x1b:
	default:
		if b < ' ' || b > '/' { // else a byte of it is still to come
			s.state = (*screen).plain
		}
	}
}

// ignored passes over a text for the terminal itself, such as a window's title.
func (s *screen) ignored(b byte) {
	switch b {
	case 0x07, 0x18, 0x1a:
		s.state = (*screen).plain
	case 0x1b:
		s.state = (*screen).escape // its end is ESC \, which does nothing
	}
}

func (s *screen) control(b byte) {
	switch {
	case b >= '@' && b <= '~':
		s.state = (*screen).plain
		s.perform(b)
	case b == 0x1b:
		s.state = (*screen).escape
	case b == 0x18 || b == 0x1a:
		s.state = (*screen).plain
	case b < ' ':
		s.plain(b)
	case len(s.args) < 32:
		s.args = append(s.args, b)
	}
}

// perform carries out a control sequence.
func (s *screen) perform(final byte) {
	n, erase := s.argument()
	switch final {
	case 'A', 'F':
		s.y = max(s.y-n, 0)
	case 'B', 'E':
		for ; n > 0 && s.y < len(s.rows)-1; n-- {
			s.y++
		}
	case 'C':
		s.x = min(s.x+n, longestLine+spare)
	case 'D':
		s.x = max(s.x-n, 0)
	case 'G':
		s.x = min(n, longestLine+spare) - 1
	case 'K':
		s.erase(erase)
	case 'J':
		if erase == 0 {
			s.erase(0)
			for _, below := range s.rows[s.y+1:] {
				s.change(below, nil)
			}
		}
	}
	if final == 'E' || final == 'F' {
		s.x = 0
	}
}

// argument is the first number of a control sequence: as a count, and as it was given.
func (s *screen) argument() (count, given int) {
	for _, b := range s.args {
		if b < '0' || b > '9' {
			break
		}
		given = min(given*10+int(b-'0'), 1<<20)
	}
	return max(given, 1), given
}

func (s *screen) erase(how int) {
	r := s.rows[s.y]
	switch {
	case how == 0 && s.x < len(r.text):
		s.change(r, r.text[:s.x])
	case how == 1:
		for i := range min(s.x+1, len(r.text)) {
			r.text[i] = ' '
		}
		s.change(r, r.text)
	case how == 2:
		s.change(r, nil)
	}
}

func (s *screen) change(r *row, text []rune) {
	if len(text) < len(r.text) {
		r.more = 0
	}
	r.text, r.at, r.dirty = text, s.now, true
}

func (s *screen) put(char rune) {
	r := s.rows[s.y]
	if s.x >= longestLine+spare {
		r.more++
		return
	}
	for len(r.text) < s.x {
		r.text = append(r.text, ' ')
	}
	if s.x < len(r.text) {
		r.text[s.x] = char
	} else {
		r.text = append(r.text, char)
	}
	s.x++
	r.at, r.dirty = s.now, true
}

// newline goes to the next row. A row that is left for the first time is kept at once.
func (s *screen) newline() {
	r := s.rows[s.y]
	s.x = 0
	s.y++
	s.now = s.now.Add(1)
	if !r.kept {
		r.dirty = true
		if r.at.IsZero() {
			r.at = s.now
		}
		s.hand(s.y - 1)
	}
	if s.y < len(s.rows) {
		return
	}
	s.rows = append(s.rows, &row{})
	if len(s.rows) > window {
		s.hand(0)
		s.rows = append(s.rows[:0], s.rows[1:]...)
		s.first++
		s.y--
	}
}

// hand gives row i to the keeper if it has changed.
func (s *screen) hand(i int) {
	r := s.rows[i]
	if !r.dirty || r.lost {
		return
	}
	text := strings.TrimRight(string(r.text), " ")
	if text == "" && !r.kept && i == s.y { // nothing was printed there yet
		return
	}
	again := r.kept
	r.dirty, r.kept = false, true
	r.lost = !s.keep(line{s.first + int64(i), text, r.more, r.at, again, i != s.y}) && !again
}

// settle hands on all rows that have changed: bars, and a line that has no end yet.
func (s *screen) settle() {
	for i := range s.rows {
		s.hand(i)
	}
}

// end takes the output as over: nothing of a character is still to come.
func (s *screen) end() {
	if len(s.part) > 0 {
		s.part = nil
		s.put(utf8.RuneError)
	}
	s.settle()
}

// shorten cuts a text to the longest line, and says what is missing.
func shorten(text string, more int) string {
	if len(text) <= longestLine && more == 0 {
		return text
	}
	end := min(len(text), longestLine)
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s… [%d more characters]", text[:end], utf8.RuneCountInString(text[end:])+more)
}
