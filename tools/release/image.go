package main

import (
	"bytes"
	"encoding/pem"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is who the server runs as in the container; the number is the one that images
// without a distribution use.
const user = 65532

// image writes an OCI layout in a tar, with an image for each Linux binary.
func (r release) image(built []target) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	some := false
	for _, t := range built {
		if t.os != "linux" {
			continue
		}
		image, err := r.imageFor(t)
		if err != nil {
			return err
		}
		some = true
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: t.os, Architecture: t.arch}},
		})
	}
	if !some {
		return nil
	}
	folder, err := os.MkdirTemp("", "kymogram-image")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	named := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": r.version})
	if err := path.AppendIndex(index, named); err != nil {
		return err
	}
	entries, err := files(folder)
	if err != nil {
		return err
	}
	return create(r.out("kymogram-"+r.version+"-oci.tar"), func(w io.Writer) error { return writeTar(w, entries, r.when) })
}

func (r release) imageFor(t target) (v1.Image, error) {
	layer, err := r.layer(t)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: r.when}, CreatedBy: "make release"},
	})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = t.os, t.arch, v1.Time{Time: r.when}
	config.Config = r.settings()
	return mutate.ConfigFile(image, config)
}

// settings say how the container starts. It listens on every address of its own
// network, where a loopback address would be of no use; keys are checked.
func (r release) settings() v1.Config {
	return v1.Config{
		User:         "65532:65532",
		Entrypoint:   []string{"/usr/local/bin/kymogram"},
		Cmd:          []string{"serve"},
		WorkingDir:   "/data",
		Volumes:      map[string]struct{}{"/data": {}},
		ExposedPorts: map[string]struct{}{"7070/tcp": {}},
		Env: []string{
			"PATH=/usr/local/bin",
			"HOME=/data",
			"XDG_CONFIG_HOME=/data/config",
			"KYMOGRAM_DATA=/data/kymogram",
			"KYMOGRAM_HTTP=0.0.0.0:7070",
			"KYMOGRAM_INSECURE=true",
		},
		Healthcheck: &v1.HealthConfig{
			Test:     []string{"CMD", "/usr/local/bin/kymogram", "health"},
			Interval: 30 * time.Second, Timeout: 5 * time.Second, StartPeriod: 60 * time.Second, Retries: 3,
		},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "kymogram",
			"org.opencontainers.image.version":  r.version,
			"org.opencontainers.image.created":  r.when.Format(time.RFC3339),
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.source":   "https://github.com/kymogram/kymogram",
		},
	}
}

func (r release) layer(t target) (v1.Layer, error) {
	binary, err := os.ReadFile(r.binary(t))
	if err != nil {
		return nil, err
	}
	licenses, err := os.ReadFile(r.path("dist", "binaries", t.String(), "LICENSES.binary"))
	if err != nil {
		return nil, err
	}
	var content bytes.Buffer
	err = writeTar(&content, []entry{
		{name: "data/", mode: 0o700, owner: user},
		{name: "etc/", mode: 0o755},
		{name: "etc/group", mode: 0o644, data: []byte("root:x:0:\nkymogram:x:65532:\n")},
		{name: "etc/passwd", mode: 0o644, data: []byte("root:x:0:0:root:/:/sbin/nologin\nkymogram:x:65532:65532:kymogram:/data:/sbin/nologin\n")},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: authorities()},
		{name: "tmp/", mode: 0o1777},
		{name: "usr/", mode: 0o755},
		{name: "usr/local/", mode: 0o755},
		{name: "usr/local/bin/", mode: 0o755},
		{name: "usr/local/bin/kymogram", mode: 0o755, data: binary},
		{name: "usr/share/", mode: 0o755},
		{name: "usr/share/doc/", mode: 0o755},
		{name: "usr/share/doc/LICENSES.kymogram", mode: 0o644, data: licenses},
	}, r.when)
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}

// authorities are Mozilla's, at the version that go.mod pins: those of the building
// machine would differ from one to the next. A root with a constraint that a PEM file
// cannot express is left out.
func authorities() []byte {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes all
	}
	return text.Bytes()
}

// files are what a folder holds, in the order of names.
func files(folder string) ([]entry, error) {
	var entries []entry
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == folder {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			entries = append(entries, entry{name: name + "/", mode: 0o755})
			return nil
		}
		data, err := os.ReadFile(path)
		entries = append(entries, entry{name: name, mode: 0o644, data: data})
		return err
	})
	return entries, err
}
