package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// entry is a file, or a folder when its name ends with a slash.
type entry struct {
	name  string
	mode  int64
	owner int
	data  []byte
}

// archive writes a tar.gz, or a zip for Windows: the binary and what is installed with it.
func (r release) archive(t target) error {
	name := fmt.Sprintf("kymogram-%s-%s", r.version, t)
	entries, err := r.contents(t, name)
	if err != nil {
		return err
	}
	if t.os == "windows" {
		return create(r.out(name+".zip"), func(w io.Writer) error { return writeZip(w, entries, r.when) })
	}
	return create(r.out(name+".tar.gz"), func(w io.Writer) error {
		packed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}
		if err := writeTar(packed, entries, r.when); err != nil {
			return err
		}
		return packed.Close()
	})
}

func (r release) contents(t target, folder string) ([]entry, error) {
	sources := [][2]string{
		{r.binary(t), t.program()},
		{r.path("LICENSE"), "LICENSE"},
		{r.path("dist", "binaries", t.String(), "LICENSES.binary"), "LICENSES.binary"},
		{r.path("README.md"), "README.md"},
	}
	for _, shell := range []string{"kymogram.bash", "_kymogram", "kymogram.fish", "kymogram.ps1"} {
		sources = append(sources, [2]string{r.path("dist", "completions", shell), "completions/" + shell})
	}
	if t.os == "linux" {
		for _, file := range []string{"kymogram.service", "config.yaml"} {
			sources = append(sources, [2]string{r.path("deploy", "systemd", file), "systemd/" + file})
		}
	}
	entries := make([]entry, 0, len(sources))
	for i, s := range sources {
		data, err := os.ReadFile(s[0])
		if err != nil {
			return nil, err
		}
		e := entry{name: folder + "/" + s[1], mode: 0o644, data: data}
		if i == 0 {
			e.mode = 0o755
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func writeTar(w io.Writer, entries []entry, when time.Time) error {
	out := tar.NewWriter(w)
	for _, e := range entries {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Uid: e.owner, Gid: e.owner, Size: int64(len(e.data)), ModTime: when, Format: tar.FormatPAX}
		if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := out.Write(e.data); err != nil {
			return err
		}
	}
	return out.Close()
}

func writeZip(w io.Writer, entries []entry, when time.Time) error {
	out := zip.NewWriter(w)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: when}
		h.SetMode(os.FileMode(e.mode)) // e.mode has permissions only
		file, err := out.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := file.Write(e.data); err != nil {
			return err
		}
	}
	return out.Close()
}

// create writes a file; an error leaves none.
func create(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	err = write(file)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = os.Remove(path) // the error says more
	}
	return err
}

// sums writes SHA256SUMS over all other files, as sha256sum does.
func (r release) sums() error {
	const name = "SHA256SUMS"
	files, err := os.ReadDir(r.out(""))
	if err != nil {
		return err
	}
	return create(r.out(name), func(w io.Writer) error {
		for _, f := range files {
			if f.Name() == name {
				continue
			}
			sum, err := sumOf(filepath.Join(r.out(""), f.Name()))
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "%x  %s\n", sum, f.Name())
		}
		return nil
	})
}

func sumOf(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return nil, err
	}
	return hash.Sum(nil), nil
}
