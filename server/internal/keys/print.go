package keys

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/kymogram/kymogram/server/internal/auth"
	"github.com/kymogram/kymogram/server/internal/table"
)

// Created is a key that was just made.
type Created struct {
	auth.Document
	Notes io.Writer `json:"-"` // what is not its secret
}

// Print shows the secret.
func (c Created) Print(out io.Writer) error {
	fmt.Fprintln(out, c.Key)
	_, err := fmt.Fprintf(c.Notes, "key %s (%s): keep it now, it is not shown again\n", c.ID, table.Printable(c.Name))
	if err == nil && c.Workspace != "" && c.Project == "" {
		_, err = fmt.Fprintf(c.Notes, "it is for every project of the workspace %[1]s; a key for one project takes --project WORKSPACE/PROJECT, such as default/%[1]s\n", table.Printable(c.Workspace))
	}
	return err
}

// Published is the key of a public link that was just made.
type Published struct {
	ID      string    `json:"id"`
	Link    string    `json:"link"`
	Project string    `json:"-"`
	Notes   io.Writer `json:"-"`
}

// Print shows the link.
func (p Published) Print(out io.Writer) error {
	fmt.Fprintln(out, p.Link)
	_, err := fmt.Fprintf(p.Notes, "whoever has this link can read %s; end it with: kymogram key revoke %s\n", p.Project, p.ID)
	return err
}

// Revoked is a key that was ended.
type Revoked struct {
	ID string `json:"revoked"`
}

// Print names it.
func (r Revoked) Print(out io.Writer) error {
	_, err := fmt.Fprintf(out, "revoked %s\n", r.ID)
	return err
}

// Print shows the link.
func (l Link) Print(out io.Writer) error {
	_, err := fmt.Fprintln(out, l.Link)
	return err
}

// Listed are the keys of a server.
type Listed struct {
	Keys []auth.Document `json:"keys"`
	All  bool            `json:"-"` // also the revoked and expired
}

// Print writes keys as a table.
func (l Listed) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tNAME\tSCOPES\tFOR\tSTATE\tLAST USE\tEXPIRES")
	for _, d := range l.Keys {
		if d.State != "valid" && !l.All {
			continue
		}
		scopes := make([]string, len(d.Scopes))
		for i, s := range d.Scopes {
			scopes[i] = string(s)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", d.ID, table.Printable(d.Name), strings.Join(scopes, ","),
			table.Printable(Place(d)), d.State, table.When(d.LastNs), table.When(d.ExpiresNs))
	}
	return w.Flush()
}

// Place is what a key is for: all, a workspace, or a project.
func Place(d auth.Document) string {
	switch {
	case d.Workspace == "":
		return "all"
	case d.Project == "":
		return d.Workspace + "/*"
	}
	return d.Workspace + "/" + d.Project
}
