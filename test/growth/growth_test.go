package growth

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
)

var (
	processor = flag.Bool("processor", false, "measure processor time too; the machine must be idle")
	only      = flag.String("only", "", "measure only the rows whose name contains this text")
)

const (
	factor = 8  // between the two sizes of a row
	limit  = 12 // of the growth; 8 is linear, 64 is quadratic
)

// cost is what calls took: seconds, and counts that do not depend on the
// machine's load.
type cost struct{ seconds, bytes, objects, disk float64 }

// noise is the least cost that counts: below it is what a process does besides.
func noise() cost { return cost{seconds: 0.04, bytes: 768 << 10, objects: 6_000, disk: 128 << 10} }

func (c cost) minus(d cost) cost {
	return cost{c.seconds - d.seconds, c.bytes - d.bytes, c.objects - d.objects, c.disk - d.disk}
}

// row grows one dimension of one call. run prepares the call at size n; the
// function that it returns is what is measured. why says in one sentence why a
// growth above the limit is right; without it, such a growth fails.
type row[L any] struct {
	call, grows string
	n           int
	run         func(l L, n int) func()
	why         string
}

func (r row[L]) name() string { return r.call + " × " + r.grows }

func (r row[L]) wanted() bool { return strings.Contains(r.name(), *only) }

// tries is how often a row is measured before it fails: a pool that was emptied
// or a list that grew just then is noise, a quadratic call is one every time.
const tries = 6

// judge measures a row at both sizes and fails when its cost grows too fast.
func (r row[L]) judge(t *testing.T, floor cost, at func(n int) cost) {
	t.Helper()
	var faults []string
	for range tries {
		var line string
		line, faults = compare(at(r.n), at(factor*r.n), floor)
		t.Logf("%s%s", r.name(), line)
		if len(faults) == 0 {
			return
		}
	}
	if r.why == "" {
		t.Errorf("%s: %s while the input grows %d-fold", r.name(), strings.Join(faults, ", "), factor)
	}
}

// compare describes the costs at n and at 8 n, and names those that grow too fast.
func compare(small, big, floor cost) (line string, faults []string) {
	for _, k := range []struct {
		name, unit        string
		small, big, floor float64
	}{
		{"allocated", "kB", small.bytes / 1e3, big.bytes / 1e3, floor.bytes / 1e3},
		{"objects", "", small.objects, big.objects, floor.objects},
		{"disk", "kB", small.disk / 1e3, big.disk / 1e3, floor.disk / 1e3},
		{"processor", "ms", small.seconds * 1e3, big.seconds * 1e3, floor.seconds * 1e3},
	} {
		growth := max(k.big, k.floor) / max(k.small, k.floor)
		line += fmt.Sprintf(" | %s %.0f → %.0f %s ×%.1f", k.name, k.small, k.big, k.unit, growth)
		if growth > limit {
			faults = append(faults, fmt.Sprintf("%s grows %.1f-fold", k.name, growth))
		}
	}
	return line, faults
}

func short(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("measures for many seconds")
	}
}

// A growth above the limit is a fault, one below the noise is none.
func TestCompare(t *testing.T) {
	for _, c := range []struct {
		small, big cost
		faults     int
	}{
		{cost{bytes: 1e7}, cost{bytes: 8e7}, 0},
		{cost{bytes: 1e7}, cost{bytes: 64e7}, 1},
		{cost{bytes: -5}, cost{bytes: 9e6}, 0},
		{cost{bytes: -5}, cost{bytes: 1e8}, 1},
		{cost{seconds: 1, objects: 1e6, disk: 1e6}, cost{seconds: 64, objects: 64e6, disk: 64e6}, 3},
	} {
		if line, faults := compare(c.small, c.big, noise()); len(faults) != c.faults {
			t.Errorf("%s: %q", line, faults)
		}
	}
}

// names are what the rows cover.
func names[L any](rows []row[L]) (out []string) {
	for _, r := range rows {
		out = append(out, r.call)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
