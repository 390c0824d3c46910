package model

import (
	"strings"
	"testing"
)

func TestIsCleanPath(t *testing.T) {
	for _, good := range []string{"a", "output.log", "media/images/x_1.png", "a b/ü", "...", "..a/b", "a/..b", ".hidden", "C:x"} {
		if !IsCleanPath(good) {
			t.Errorf("%q is refused", good)
		}
	}
	for _, bad := range []string{"", ".", "..", "/", "/a", "a/", "a//b", "./a", "a/./b", "../a", "a/../b", "a/..", `a\b`, `..\a`, "a\nb", "a\x00", "\xff", "a/\u0085"} {
		if IsCleanPath(bad) {
			t.Errorf("%q is taken", bad)
		}
	}
	if err := CheckFileName(strings.Repeat("a", MaxFileName)); err != nil {
		t.Error(err)
	}
	if err := CheckFileName(strings.Repeat("a", MaxFileName+1)); CodeOf(err) != CodeLimit {
		t.Errorf("a long name: %v", err)
	}
	if err := CheckTreeName("a/../b"); CodeOf(err) != CodeBadRecord {
		t.Errorf("a name that leaves its folder: %v", err)
	}
}
