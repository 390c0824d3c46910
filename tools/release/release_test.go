package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var commitTime = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// program is the real binary, which make test-release names.
func program(t *testing.T) string {
	t.Helper()
	path := os.Getenv("KYMOGRAM_BINARY")
	if path == "" {
		t.Skip("set KYMOGRAM_BINARY to the program kymogram, as make test-release does")
	}
	return path
}

// made is a release of some targets. Each has the same binary: what is in it is not looked at.
func made(t *testing.T, of ...target) release {
	t.Helper()
	r := release{root: t.TempDir(), version: "1.2.3", when: commitTime}
	repository, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"dist/release", "dist/completions", "web/dist", "deploy"} {
		do(t, os.MkdirAll(r.path(folder), 0o755))
	}
	do(t, os.CopyFS(r.path("deploy", "systemd"), os.DirFS(filepath.Join(repository, "deploy", "systemd"))))
	for _, file := range []string{"LICENSE", "README.md", "web/dist/licenses.md"} {
		do(t, os.WriteFile(r.path(file), read(t, filepath.Join(repository, file)), 0o644))
	}
	for _, shell := range []string{"kymogram.bash", "_kymogram", "kymogram.fish", "kymogram.ps1"} {
		do(t, os.WriteFile(r.path("dist", "completions", shell), []byte("completion "+shell), 0o600))
	}
	binary := read(t, program(t))
	for _, one := range of {
		do(t, os.MkdirAll(filepath.Dir(r.binary(one)), 0o755))
		do(t, os.WriteFile(r.binary(one), binary, 0o700))
		do(t, os.WriteFile(filepath.Join(filepath.Dir(r.binary(one)), "LICENSES.binary"), []byte("licences"), 0o600))
	}
	do(t, r.make())
	return r
}

func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	do(t, err)
	return data
}

// command runs a program and gives what it printed.
func command(t *testing.T, folder, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// TestSameBytes: a second build of a commit gives the same files, whatever the umask, the
// modification times and the folder.
func TestSameBytes(t *testing.T) {
	one, two := made(t, targets...), made(t, targets...)
	files, err := os.ReadDir(one.out(""))
	do(t, err)
	if len(files) != 2*len(targets)+2 { // archive and bill of each; image and sums
		t.Errorf("%d files of %d targets", len(files), len(targets))
	}
	for _, f := range files {
		if a, b := read(t, one.out(f.Name())), read(t, two.out(f.Name())); !bytes.Equal(a, b) {
			t.Errorf("%s: other bytes at the second time", f.Name())
		}
	}
	command(t, one.out(""), "sha256sum", "--check", "--strict", "SHA256SUMS")
	if sums := strings.Count(string(read(t, one.out("SHA256SUMS"))), "\n"); sums != len(files)-1 {
		t.Errorf("%d sums of %d files", sums, len(files)-1)
	}
}

// TestArchives unpacks with the programs that users have.
func TestArchives(t *testing.T) {
	r := made(t, target{"linux", "amd64"}, target{"windows", "amd64"})
	to := t.TempDir()
	command(t, to, "tar", "--extract", "--gzip", "--file", r.out("kymogram-1.2.3-linux-amd64.tar.gz"))
	if _, err := exec.LookPath("unzip"); err != nil {
		t.Log("SKIPPED: the zip for Windows; there is no unzip")
	} else {
		command(t, to, "unzip", "-q", r.out("kymogram-1.2.3-windows-amd64.zip"))
		if got := read(t, filepath.Join(to, "kymogram-1.2.3-windows-amd64", "kymogram.exe")); !bytes.Equal(got, read(t, program(t))) {
			t.Error("kymogram.exe is not the binary")
		}
	}
	folder := filepath.Join(to, "kymogram-1.2.3-linux-amd64")
	var got []string
	do(t, filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !info.ModTime().Equal(commitTime) {
			t.Errorf("%s is of %s", path, info.ModTime())
		}
		name, _ := filepath.Rel(folder, path)
		got = append(got, fmt.Sprintf("%o %s", info.Mode().Perm(), name))
		return nil
	}))
	want := []string{
		"644 LICENSE", "644 LICENSES.binary", "644 README.md", "644 completions/_kymogram", "644 completions/kymogram.bash",
		"644 completions/kymogram.fish", "644 completions/kymogram.ps1", "755 kymogram", "644 systemd/config.yaml", "644 systemd/kymogram.service",
	}
	slices.SortFunc(got, func(a, b string) int { return strings.Compare(a[4:], b[4:]) })
	if !slices.Equal(got, want) {
		t.Errorf("the archive holds %q, want %q", got, want)
	}
	if said := command(t, folder, "./kymogram", "version"); !strings.Contains(said, "kymogram") {
		t.Errorf("the binary prints %q", said)
	}
}

// TestBill: the bill of materials has the modules that go itself reads from the binary.
func TestBill(t *testing.T) {
	r := made(t, target{"linux", "amd64"})
	var bill struct {
		BOMFormat  string
		Components []struct{ Name, Version, Purl string }
	}
	do(t, json.Unmarshal(read(t, r.out("kymogram-1.2.3-linux-amd64.cdx.json")), &bill))
	has := map[string]bool{}
	for _, c := range bill.Components {
		has[c.Name+" "+c.Version] = true
	}
	modules := 0
	for line := range strings.Lines(command(t, "", "go", "version", "-m", program(t))) {
		if f := strings.Fields(line); len(f) >= 3 && f[0] == "dep" && !strings.HasPrefix(f[1], "github.com/kymogram/") {
			if modules++; !has[f[1]+" "+f[2]] {
				t.Errorf("the bill lacks %s %s", f[1], f[2])
			}
		}
	}
	if modules < 20 || bill.BOMFormat != "CycloneDX" || !strings.Contains(fmt.Sprint(bill.Components), "pkg:npm/") {
		t.Errorf("%d modules, %d components of a %q", modules, len(bill.Components), bill.BOMFormat)
	}
}

// The parts of OCI's image format that a runtime needs, read without the library that wrote them.
type (
	descriptor struct {
		MediaType, Digest string
		Size              int64
		Platform          struct{ OS, Architecture string }
		Annotations       map[string]string
	}
	imageConfig struct {
		OS, Architecture string
		Config           struct {
			User, WorkingDir     string
			Env, Entrypoint, Cmd []string
			Volumes              map[string]struct{}
			Healthcheck          struct{ Test []string }
		}
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	image struct {
		imageConfig
		layer []byte // a tar
	}
)

// images reads the images of an OCI layout in a tar, and checks every digest.
func images(t *testing.T, path string) []image {
	t.Helper()
	files := map[string][]byte{}
	for archive := tar.NewReader(bytes.NewReader(read(t, path))); ; {
		h, err := archive.Next()
		if err == io.EOF {
			break
		}
		do(t, err)
		data, err := io.ReadAll(archive)
		do(t, err)
		files[h.Name] = data
	}
	blob := func(d descriptor, to any) []byte {
		data := files["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")]
		if sum := sha256.Sum256(data); "sha256:"+hex.EncodeToString(sum[:]) != d.Digest || int64(len(data)) != d.Size {
			t.Fatalf("%s is not there as it was named", d.Digest)
		}
		if to != nil {
			do(t, json.Unmarshal(data, to))
		}
		return data
	}
	type index struct {
		SchemaVersion int
		Manifests     []descriptor
	}
	var layout struct{ ImageLayoutVersion string }
	do(t, json.Unmarshal(files["oci-layout"], &layout))
	var outer, inner index
	do(t, json.Unmarshal(files["index.json"], &outer))
	if layout.ImageLayoutVersion != "1.0.0" || len(outer.Manifests) != 1 || outer.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "1.2.3" {
		t.Fatalf("layout %v, index %v", layout, outer)
	}
	blob(outer.Manifests[0], &inner)
	var out []image
	for _, d := range inner.Manifests {
		var manifest struct {
			Config descriptor
			Layers []descriptor
		}
		var one image
		blob(d, &manifest)
		blob(manifest.Config, &one.imageConfig)
		if one.OS != d.Platform.OS || one.Architecture != d.Platform.Architecture || len(manifest.Layers) != 1 || len(one.RootFS.DiffIDs) != 1 {
			t.Fatalf("manifest %v for %v", manifest, d.Platform)
		}
		one.layer = unpacked(t, blob(manifest.Layers[0], nil), manifest.Layers[0].MediaType)
		if sum := sha256.Sum256(one.layer); one.RootFS.DiffIDs[0] != "sha256:"+hex.EncodeToString(sum[:]) {
			t.Fatal("the layer is not the one that the configuration names")
		}
		out = append(out, one)
	}
	return out
}

// unpacked is a layer as a tar, by the program gzip.
func unpacked(t *testing.T, data []byte, mediaType string) []byte {
	t.Helper()
	if !strings.HasSuffix(mediaType, "+gzip") {
		return data
	}
	cmd := exec.Command("gzip", "--decompress", "--stdout")
	cmd.Stdin = bytes.NewReader(data)
	out, err := cmd.Output()
	do(t, err)
	return out
}

// TestImage: an image for each architecture, from scratch, for a user that is not root.
func TestImage(t *testing.T) {
	r := made(t, target{"linux", "amd64"}, target{"linux", "arm64"}, target{"darwin", "arm64"})
	found := images(t, r.out("kymogram-1.2.3-oci.tar"))
	if len(found) != 2 || found[0].Architecture != "amd64" || found[1].Architecture != "arm64" {
		t.Fatalf("%d images", len(found))
	}
	for _, one := range found {
		c := one.Config
		if _, volume := c.Volumes["/data"]; !volume || c.User != "65532:65532" || c.Entrypoint[0] != "/usr/local/bin/kymogram" {
			t.Errorf("configuration %+v", c)
		}
		pool, roots := x509.NewCertPool(), 0
		for archive := tar.NewReader(bytes.NewReader(one.layer)); ; {
			h, err := archive.Next()
			if err == io.EOF {
				break
			}
			do(t, err)
			data, err := io.ReadAll(archive)
			do(t, err)
			switch h.Name {
			case "data/":
				if h.Uid != 65532 || h.Mode != 0o700 {
					t.Errorf("/data is of %d, %o", h.Uid, h.Mode)
				}
				continue
			case "etc/ssl/certs/ca-certificates.crt":
				for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
					certificate, err := x509.ParseCertificate(block.Bytes)
					do(t, err)
					pool.AddCert(certificate)
					roots++
				}
			case "usr/local/bin/kymogram":
				if !bytes.Equal(data, read(t, program(t))) || h.Mode != 0o755 {
					t.Errorf("the program has mode %o, or other bytes", h.Mode)
				}
			}
			if h.Uid != 0 || h.Mode&0o022 != 0 && h.Name != "tmp/" {
				t.Errorf("%s is of %d, %o", h.Name, h.Uid, h.Mode)
			}
		}
		if roots < 100 {
			t.Errorf("%d certificate authorities", roots)
		}
	}
}

func TestNothingToRelease(t *testing.T) {
	r := release{root: t.TempDir(), version: "1", when: commitTime}
	if err := r.make(); err == nil || !strings.Contains(err.Error(), "use make release") {
		t.Errorf("no binary: %v", err)
	}
	if err := (release{root: r.root, when: commitTime}).make(); err == nil || !strings.Contains(err.Error(), "use make release") {
		t.Errorf("no version: %v", err)
	}
}

// timeout bounds what a test waits for a program.
func timeout(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}
