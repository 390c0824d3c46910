// Package faketime gives programs of tests a clock that is wrong, with Debian's libfaketime.
// Programs that are linked statically, such as those of Go, do not see it.
package faketime

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

// Env are variables for a program whose clock is ahead by so much. Where libfaketime is not
// installed the test says so and is skipped; tools/prepare cluster installs it.
func Env(t testing.TB, ahead time.Duration) []string {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/*/faketime/libfaketimeMT.so.1") // the pattern is valid
	if len(found) == 0 {
		t.Skip("libfaketime is not installed: apt-get install libfaketime")
	}
	// Time that passes is true: only the date is wrong.
	return []string{"LD_PRELOAD=" + found[0], fmt.Sprintf("FAKETIME=%+ds", int(ahead.Seconds())), "FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1"}
}
