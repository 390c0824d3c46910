package progress_test

import (
	"bytes"
	"testing"

	"github.com/kymogram/kymogram/server/internal/progress"
)

// A pipe gets no bar, and a total that was too small stops nothing.
func TestBarsNeverStopTheirCommand(t *testing.T) {
	var out bytes.Buffer
	for _, bar := range []progress.Bar{progress.Bytes(&out, 1, "copy"), progress.Count(&out, 0, "runs"), progress.Points(&out, 2), progress.Wide(&out, 2)} {
		bar.Done(5)
		bar.Reach(9)
		if n, err := bar.Write([]byte("more")); n != 4 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		bar.End()
	}
	if out.Len() > 0 || progress.IsTerminal(&out) {
		t.Errorf("a pipe got %q", out.String())
	}
}
