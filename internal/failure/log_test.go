package failure

import (
	"errors"
	"strings"
	"testing"
)

func TestErrorsAreBounded(t *testing.T) {
	f := new(Log)
	for i := range Kept + 7 {
		f.Report(errors.New(strings.Repeat("x", i)))
	}
	if reported, evicted := f.Counts(); reported != Kept+7 || evicted != 7 || len(f.kept) != Kept {
		t.Errorf("%d reported, %d evicted, %d kept", reported, evicted, len(f.kept))
	}
}
