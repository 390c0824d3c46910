package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	goio "io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/server/internal/table"
	"github.com/kymogram/kymogram/server/internal/view"
)

func viewCommand(io stdio) *cobra.Command {
	return group(&cobra.Command{
		Use:   "view",
		Short: "Store, list, read and delete views: pages of panels of a project",
		Long: "Store, list, read and delete views: pages of panels of a project.\n" +
			"docs/format/view.md has their format. The page shows one at\n" +
			"/p/WORKSPACE/PROJECT/views/NAME.",
	}, viewApplyCommand(io), viewListCommand(io), viewGetCommand(io), viewDeleteCommand(io))
}

// shownView is a view as the API lists it.
type shownView struct {
	Name      string `json:"name"`
	Title     string `json:"title"`
	Panels    int    `json:"panels"`
	ETag      string `json:"etag"`
	ChangedNs int64  `json:"changed_ns"`
}

// shownViews are those of a list, or those that were stored.
type shownViews struct {
	Views []shownView `json:"views"`
}

// Print writes views as a table.
func (l shownViews) Print(out goio.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tTITLE\tPANELS\tCHANGED\tETAG")
	for _, v := range l.Views {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", table.Printable(v.Name), table.Printable(v.Title), v.Panels, table.When(v.ChangedNs), v.ETag)
	}
	return w.Flush()
}

func viewApplyCommand(io stdio) *cobra.Command {
	var c connection
	var project, etag string
	cmd := &cobra.Command{
		Use:   "apply PATH…",
		Short: "Store view documents; each is named for its file, without .json",
		Long: "Store view documents; each is named for its file, without .json.\n" +
			"All files are checked first: when one is refused, nothing is stored. A view of the\n" +
			"same name is replaced. With --etag it is replaced only if nobody changed it since.",
		Example: "  kymogram view apply views/*.json --project templar/tplr\n" +
			"  kymogram view apply training.json --project templar/tplr --etag 5d41402abc4b2a76b9719d911017c592",
		RunE: func(cmd *cobra.Command, args []string) error {
			if etag != "" && len(args) > 1 {
				return usagef("--etag is for one file")
			}
			var place []string
			if project != "" {
				place = []string{project}
			}
			documents, err := readViews(args)
			if err != nil {
				return err
			}
			server, err := c.dial(io)
			if err != nil {
				return err
			}
			path, err := projectOf(cmd.Context(), io, server, place)
			if err != nil {
				return err
			}
			if etag != "" {
				server.Header = http.Header{"If-Match": {`"` + etag + `"`}}
			}
			known := hasProject(cmd.Context(), server, path) == nil
			stored, err := applyViews(cmd.Context(), server, path, documents)
			tellStored(io, server.Base, path, known, stored)
			return errors.Join(tell(io, c.json, stored, nil), err)
		},
	}
	cmd.Flags().StringVar(&project, "project", "", "WORKSPACE/PROJECT that they are for (default KYMOGRAM_WORKSPACE and KYMOGRAM_PROJECT, else default/default)")
	cmd.Flags().StringVar(&etag, "etag", "", "replace only the view with this etag")
	c.addTo(cmd)
	return cmd
}

// namedView is a document that was read from a file.
type namedView struct {
	name, file string
	text       json.RawMessage
}

func readViews(paths []string) (out []namedView, err error) {
	seen := map[string]string{}
	for _, path := range paths {
		text, err := readAtMost(path, view.MaxBytes)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		if err := view.CheckName(name); err != nil {
			return nil, inFile(path, err)
		}
		if other := seen[name]; other != "" {
			return nil, usagef("%s and %s would both be the view %q", other, path, name)
		}
		seen[name] = path
		doc, err := view.Parse(text)
		if err != nil {
			return nil, inFile(path, err)
		}
		out = append(out, namedView{name, path, doc.Text()})
	}
	return out, nil
}

// readAtMost reads a file and one byte more than allowed, so that the parser can say it.
func readAtMost(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read a view: %w", err)
	}
	defer f.Close()
	text, err := goio.ReadAll(goio.LimitReader(f, most+1))
	if err != nil {
		return nil, fmt.Errorf("read a view: %w", err)
	}
	return text, nil
}

// inFile names the file of an error.
func inFile(path string, err error) error {
	e := *model.Shown(err)
	e.Message = path + ": " + e.Message
	return &e
}

func applyViews(ctx context.Context, server *remote.Client, project string, documents []namedView) (shownViews, error) {
	done := shownViews{Views: []shownView{}}
	for _, d := range documents {
		var v shownView
		if err := server.Exchange(ctx, http.MethodPut, viewPath(project, d.name), d.text, &v); err != nil {
			return done, fmt.Errorf("%s: %w", d.file, err)
		}
		done.Views = append(done.Views, v)
	}
	return done, nil
}

// hasProject is an error for a project that no run and no view has made yet. A key that may
// not read it tells nothing.
func hasProject(ctx context.Context, server *remote.Client, project string) error {
	_, err := server.Document(ctx, http.MethodGet, "/api/v1/projects/"+project+"/runs", url.Values{"limit": {"1"}})
	if model.CodeOf(err) == model.CodeNotFound {
		return err
	}
	return nil
}

// tellStored says where views are, and that a project is new: its name may be mistyped.
func tellStored(io stdio, base, project string, known bool, stored shownViews) {
	for _, v := range stored.Views {
		fmt.Fprintf(io.err, "stored %s/%s: %s/p/%s/views/%s\n", project, table.Printable(v.Name), base, project, url.PathEscape(v.Name))
	}
	if !known && len(stored.Views) > 0 {
		fmt.Fprintf(io.err, "%s is a new project without runs; for another one delete the views there, and apply them with --project WORKSPACE/PROJECT\n", project)
	}
}

func viewPath(project, name string) string {
	return "/api/v1/projects/" + project + "/views/" + url.PathEscape(name)
}

// viewOf reads WORKSPACE/PROJECT/NAME, or PROJECT/NAME where one workspace has the project, as a
// path of the API. With a project, ref is NAME.
func viewOf(ctx context.Context, io stdio, server *remote.Client, project, ref string) (string, error) {
	if project != "" {
		ref = project + "/" + ref
	}
	at := strings.LastIndex(ref, "/")
	if at < 1 || view.CheckName(ref[at+1:]) != nil {
		return "", usagef("%q names no view: give WORKSPACE/PROJECT/NAME", ref)
	}
	place, err := projectOf(ctx, io, server, []string{ref[:at]})
	return viewPath(place, ref[at+1:]), err
}

func viewListCommand(io stdio) *cobra.Command {
	var c connection
	cmd := &cobra.Command{
		Use:     "list [WORKSPACE/PROJECT]",
		Short:   "List the views of a project",
		Example: "  kymogram view list templar/tplr --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			server, err := c.dial(io)
			if err != nil {
				return err
			}
			project, err := projectOf(cmd.Context(), io, server, args)
			if err != nil {
				return err
			}
			body, err := server.Document(cmd.Context(), http.MethodGet, "/api/v1/projects/"+project+"/views", nil)
			if err != nil {
				return err
			}
			var list shownViews
			if err := json.Unmarshal(body, &list); err != nil {
				return fmt.Errorf("read the list of views: %w", err)
			}
			if len(list.Views) == 0 {
				if err := hasProject(cmd.Context(), server, project); err != nil {
					return err
				}
			}
			if len(list.Views) == 0 && !c.json {
				fmt.Fprintf(io.err, "%s has no views; `kymogram view apply FILE --project %s` stores one\n", project, project)
				return nil
			}
			return tell(io, c.json, list, nil)
		},
	}
	c.addTo(cmd)
	return cmd
}

// viewText is a document, which is printed as a file has it.
type viewText struct{ json.RawMessage }

// Print indents it.
func (v viewText) Print(out goio.Writer) error {
	var text bytes.Buffer
	if err := json.Indent(&text, v.RawMessage, "", "  "); err != nil {
		return fmt.Errorf("print the view: %w", err)
	}
	_, err := fmt.Fprintln(out, text.String())
	return err
}

func viewGetCommand(io stdio) *cobra.Command {
	var c connection
	var project string
	cmd := &cobra.Command{
		Use:     "get VIEW",
		Short:   "Print a view document, WORKSPACE/PROJECT/NAME",
		Example: "  kymogram view get templar/tplr/training > training.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			server, err := c.dial(io)
			if err != nil {
				return err
			}
			path, err := viewOf(cmd.Context(), io, server, project, args[0])
			if err != nil {
				return err
			}
			body, err := server.Document(cmd.Context(), http.MethodGet, path, nil)
			return tell(io, c.json, viewText{body}, err)
		},
	}
	cmd.Flags().StringVar(&project, "project", "", "WORKSPACE/PROJECT of the view; VIEW is its name then")
	c.addTo(cmd)
	return cmd
}

// deletedView is a view that is gone.
type deletedView struct {
	Deleted string `json:"deleted"`
}

// Print names it.
func (d deletedView) Print(out goio.Writer) error {
	_, err := fmt.Fprintf(out, "deleted %s\n", d.Deleted)
	return err
}

func viewDeleteCommand(io stdio) *cobra.Command {
	var c connection
	var project, etag string
	cmd := &cobra.Command{
		Use:     "delete VIEW",
		Short:   "Delete a view for good, WORKSPACE/PROJECT/NAME",
		Example: "  kymogram view delete templar/tplr/training",
		RunE: func(cmd *cobra.Command, args []string) error {
			server, err := c.dial(io)
			if err != nil {
				return err
			}
			path, err := viewOf(cmd.Context(), io, server, project, args[0])
			if err != nil {
				return err
			}
			if etag != "" {
				server.Header = http.Header{"If-Match": {`"` + etag + `"`}}
			}
			response, err := server.Send(cmd.Context(), http.MethodDelete, path, nil, nil)
			if err != nil {
				return err
			}
			return errors.Join(response.Body.Close(), tell(io, c.json, deletedView{strings.TrimPrefix(project+"/"+args[0], "/")}, nil))
		},
	}
	cmd.Flags().StringVar(&project, "project", "", "WORKSPACE/PROJECT of the view; VIEW is its name then")
	cmd.Flags().StringVar(&etag, "etag", "", "delete only the view with this etag")
	c.addTo(cmd)
	return cmd
}
