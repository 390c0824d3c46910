// Program release makes what a release has next to its wheels: archives of the
// binary, the container image, a bill of materials for each binary, and checksums.
// It reads dist/binaries and dist/completions, which tools/release/build fills, and
// writes into dist/release. The same input, version and time give the same bytes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// release is what one run makes.
type release struct {
	root    string // of the repository
	version string
	when    time.Time // of the commit; every file carries it
}

// target is a system that the binary is built for; its folder in dist/binaries is OS-ARCH.
type target struct{ os, arch string }

var targets = []target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}}

func (t target) String() string { return t.os + "-" + t.arch }

func (t target) program() string {
	if t.os == "windows" {
		return "kymogram.exe"
	}
	return "kymogram"
}

func main() {
	root := flag.String("root", ".", "root of the repository")
	version := flag.String("version", "", "version of the release")
	seconds := flag.Int64("time", 0, "time of every file, in seconds since 1970")
	flag.Parse()
	r := release{root: *root, version: *version, when: time.Unix(*seconds, 0).UTC()}
	if err := r.make(); err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

func (r release) make() error {
	if r.version == "" || r.when.Unix() <= 0 {
		return errors.New("a version and a time are needed: use make release")
	}
	built, err := r.built()
	if err != nil {
		return err
	}
	for _, t := range built {
		if err := r.archive(t); err != nil {
			return fmt.Errorf("archive for %s: %w", t, err)
		}
		if err := r.bill(t); err != nil {
			return fmt.Errorf("bill of materials for %s: %w", t, err)
		}
	}
	if err := r.image(built); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	return r.sums()
}

// built are the targets whose binaries are there; a part of them is enough for a test.
func (r release) built() ([]target, error) {
	var found []target
	for _, t := range targets {
		if _, err := os.Stat(r.binary(t)); err == nil {
			found = append(found, t)
		}
	}
	if len(found) == 0 {
		return nil, errors.New("dist/binaries holds no binary: use make release")
	}
	return found, nil
}

func (r release) binary(t target) string {
	return r.path("dist", "binaries", t.String(), t.program())
}

func (r release) path(parts ...string) string {
	return filepath.Join(append([]string{r.root}, parts...)...)
}

// out is a file of the release.
func (r release) out(name string) string { return r.path("dist", "release", name) }
