// Package manual is the documentation as a site below /docs: the Markdown of docs and api in,
// HTML pages with a navigation and a search out. It needs no network and no key, and keeps
// to the server's content policy: no inline script or style.
//
// [New] renders nothing; the first request does. render.go makes a page, section.go is the
// navigation, search.go the index that the script of the site searches.
package manual

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzhttp"
)

// Root is the site's address on its server.
const Root = "/docs"

//go:embed asset/frame.html
var templates embed.FS

//go:embed asset/site.css asset/site.js
var assets embed.FS

// Site serves the pages. It is safe for concurrent use.
type Site struct {
	build func() (map[string]file, error)
}

type file struct {
	data []byte
	kind string // media type
	etag string
}

func newFile(name string, data []byte) file {
	sum := sha256.Sum256(data)
	kind := mime.TypeByExtension(path.Ext(name))
	switch path.Ext(name) {
	case "":
		kind = "text/html; charset=utf-8"
	case ".yaml":
		kind = "text/plain; charset=utf-8"
	}
	return file{data: data, kind: kind, etag: `"` + hex.EncodeToString(sum[:12]) + `"`}
}

// New is a site of the pages in docs, and of those in api, which are below /docs/api.
func New(docs, api fs.FS) http.Handler {
	s := &Site{build: sync.OnceValues(func() (map[string]file, error) { return build(docs, api) })}
	return gzhttp.GzipHandler(s)
}

// build renders everything. Its keys are addresses below Root, "" for the first page.
func build(docs, api fs.FS) (map[string]file, error) {
	sources, err := read(docs, api)
	if err != nil {
		return nil, fmt.Errorf("read the pages: %w", err)
	}
	out := map[string]file{}
	var pages []*page
	for name, data := range sources {
		if path.Ext(name) != ".md" {
			out[name] = newFile(name, data)
			continue
		}
		p, err := render(name, data, sources)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", name, err)
		}
		pages = append(pages, p)
	}
	all := arrange(pages)
	for _, p := range pages {
		data, err := all.page(p)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", p.address, err)
		}
		out[p.address] = newFile(p.address, data)
	}
	for address, render := range map[string]func() ([]byte, error){"": all.first, missing: all.missing, "search.json": all.index} {
		data, err := render()
		if err != nil {
			return nil, fmt.Errorf("render /docs/%s: %w", address, err)
		}
		out[address] = newFile(address, data)
	}
	return out, nil
}

// read gathers the files of the site, by their address.
func read(docs, api fs.FS) (map[string][]byte, error) {
	site, err := fs.Sub(assets, "asset")
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for folder, from := range map[string]fs.FS{"": docs, "api": api, "site": site} {
		err := fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || path.Ext(name) == ".go" {
				return err
			}
			data, err := fs.ReadFile(from, name)
			out[path.Join(folder, name)] = data
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ServeHTTP answers GET of Root and what is below it.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	files, err := s.build()
	if err != nil {
		http.Error(w, "the documentation cannot be shown: "+err.Error(), http.StatusInternalServerError)
		return
	}
	name := strings.TrimPrefix(path.Clean(r.URL.Path), Root)
	name = strings.TrimPrefix(name, "/")
	if clean := strings.TrimSuffix(name, ".md"); path.Join(Root, clean) != r.URL.Path {
		if _, ok := files[clean]; ok { // a link of the Markdown, or a slash too many
			http.Redirect(w, r, path.Join(Root, clean), http.StatusMovedPermanently)
			return
		}
	}
	f, ok := files[name]
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	if !ok {
		f = files[missing]
		h.Set("Content-Type", f.kind)
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write(f.data)
		return
	}
	h.Set("Content-Type", f.kind)
	h.Set("ETag", f.etag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.data))
}
