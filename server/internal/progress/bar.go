package progress

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// redraw is how often a bar is drawn at most.
const redraw = 100 * time.Millisecond

// Bar is how far a command is.
type Bar struct{ *progressbar.ProgressBar }

// Done counts n more of what the total is of.
func (b Bar) Done(n int64) { _ = b.Add64(n) }

// Write counts bytes. It never fails: a folder may grow while it is copied, and the
// bar of more than its total is no reason to stop.
func (b Bar) Write(p []byte) (int, error) {
	b.Done(int64(len(p)))
	return len(p), nil
}

// Reach sets what is done.
func (b Bar) Reach(n int64) { _ = b.Set64(min(n, b.GetMax64())) }

// End takes the bar away.
func (b Bar) End() { _ = b.Finish() }

// IsTerminal reports whether a person reads w, so that colour and progress help.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Bytes is a bar of bytes.
func Bytes(w io.Writer, total int64, what string) Bar {
	return bar(w, total, what, progressbar.OptionShowBytes(true))
}

// Count is a bar of things that are counted.
func Count(w io.Writer, total int64, what string) Bar {
	return bar(w, total, what, progressbar.OptionShowCount())
}

// Points is a bar of points, with their rate.
func Points(w io.Writer, total int64) Bar {
	return bar(w, total, "points", progressbar.OptionShowCount(), progressbar.OptionShowIts())
}

// Wide is a bar of points over the whole line.
func Wide(w io.Writer, total int64) Bar {
	return bar(w, total, "points", progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionFullWidth())
}

func bar(w io.Writer, total int64, what string, options ...progressbar.Option) Bar {
	total = max(total, 1)
	if !IsTerminal(w) {
		return Bar{progressbar.DefaultSilent(total)}
	}
	options = append(options, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
		progressbar.OptionThrottle(redraw), progressbar.OptionClearOnFinish())
	return Bar{progressbar.NewOptions64(total, options...)}
}
