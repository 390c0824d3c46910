package main

import (
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// packageLine is the title of a package in web/dist/licenses.md: ## NAME - VERSION (LICENSE).
var packageLine = regexp.MustCompile(`(?m)^## (\S+) - (\S+) \(([^)]+)\)$`)

// bill writes a CycloneDX document: Go's library, the Go modules that the binary says it
// holds, and the npm packages of its page.
func (r release) bill(t target) error {
	parts, err := r.parts(t)
	if err != nil {
		return err
	}
	main := cdx.Component{
		Type: cdx.ComponentTypeApplication, BOMRef: "kymogram", Name: "kymogram", Version: r.version,
		PackageURL: "pkg:golang/github.com/kymogram/kymogram@" + r.version,
		Licenses:   &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
	}
	refs := make([]string, len(parts))
	for i, p := range parts {
		refs[i] = p.BOMRef
	}
	document := cdx.NewBOM()
	document.Metadata = &cdx.Metadata{Timestamp: r.when.Format(time.RFC3339), Component: &main}
	document.Components = &parts
	document.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	return create(r.out(fmt.Sprintf("kymogram-%s-%s.cdx.json", r.version, t)), func(w io.Writer) error {
		return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).Encode(document)
	})
}

func (r release) parts(t target) ([]cdx.Component, error) {
	info, err := buildinfo.ReadFile(r.binary(t))
	if err != nil {
		return nil, err
	}
	page, err := os.ReadFile(r.path("web", "dist", "licenses.md"))
	if err != nil {
		return nil, err
	}
	parts := []cdx.Component{library("golang", "std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		if strings.HasPrefix(m.Path, "github.com/kymogram/") {
			continue // a module of this repository: the application itself
		}
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, library("golang", m.Path, m.Version))
	}
	for _, m := range packageLine.FindAllStringSubmatch(string(page), -1) {
		p := library("npm", strings.Replace(m[1], "@", "%40", 1), m[2])
		p.Name, p.Licenses = m[1], &cdx.Licenses{{License: &cdx.License{ID: m[3]}}}
		parts = append(parts, p)
	}
	return parts, nil
}

func library(kind, name, version string) cdx.Component {
	address := fmt.Sprintf("pkg:%s/%s@%s", kind, name, version)
	return cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: address, Name: name, Version: version, PackageURL: address}
}
