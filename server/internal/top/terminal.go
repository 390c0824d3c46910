package top

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// The size of a terminal that does not say its own.
const (
	usualWidth  = 80
	usualHeight = 24
)

// screen is a terminal that shows frames instead of its lines, until restore.
type screen struct {
	in      *os.File
	out     *os.File
	before  *term.State
	width   int
	height  int
	written []string // what the terminal shows
}

// openScreen takes a terminal over.
func openScreen(in, out *os.File) (*screen, error) {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, fmt.Errorf("set the terminal up: %w", err)
	}
	s := &screen{in: in, out: out, before: before}
	_, err = io.WriteString(out, "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J") // other screen, no cursor, no wrapping
	return s, err
}

// restore gives the terminal back as it was.
func (s *screen) restore() {
	_, _ = io.WriteString(s.out, "\x1b[?7h\x1b[?25h\x1b[?1049l")
	_ = term.Restore(int(s.in.Fd()), s.before)
}

// resized measures the terminal and reports whether it changed.
func (s *screen) resized() bool {
	width, height, err := term.GetSize(int(s.out.Fd()))
	if err != nil || width < 1 || height < 1 {
		width, height = usualWidth, usualHeight
	}
	if width == s.width && height == s.height {
		return false
	}
	s.width, s.height, s.written = width, height, nil
	return true
}

// draw writes the lines that changed.
func (s *screen) draw(lines []string) error {
	var b strings.Builder
	if s.written == nil {
		b.WriteString("\x1b[2J")
		s.written = make([]string, len(lines))
	}
	for i, text := range lines {
		if s.written[i] != text {
			fmt.Fprintf(&b, "\x1b[%d;1H%s\x1b[K", i+1, text)
			s.written[i] = text
		}
	}
	if b.Len() == 0 {
		return nil
	}
	_, err := io.WriteString(s.out, b.String())
	return err
}
