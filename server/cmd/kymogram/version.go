package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// version is the release; the build may set it with -ldflags "-X main.version=…".
var version = "0.1.0"

// build describes this binary.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild() build {
	b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// Print writes it for a person.
func (b build) Print(w io.Writer) error {
	words := slices.DeleteFunc([]string{"kymogram", b.Version, b.Revision, b.Go, b.Platform}, func(s string) bool { return s == "" })
	_, err := fmt.Fprintln(w, strings.Join(words, " "))
	return err
}

// addVersion adds --version, which prints what `kymogram version` does.
func addVersion(root *cobra.Command) {
	var text strings.Builder
	_ = thisBuild().Print(&text) // memory takes it
	root.Version = version
	root.SetVersionTemplate(strings.ReplaceAll(text.String(), "{{", ""))
	root.Flags().Bool("version", false, "print the version of this binary")
}

func versionCommand(io stdio) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this binary",
		Example: "  kymogram version\n  kymogram version --json",
		RunE: func(*cobra.Command, []string) error {
			return tell(io, asJSON, thisBuild(), nil)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}
