package keys

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/kymogram/kymogram/server/internal/auth"
	"github.com/kymogram/kymogram/server/internal/table"
)

// Print writes keys as a table; all are revoked and expired ones too.
func Print(out io.Writer, docs []auth.Document, all bool) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tNAME\tSCOPES\tFOR\tSTATE\tLAST USE\tEXPIRES")
	for _, d := range docs {
		if d.State != "valid" && !all {
			continue
		}
		scopes := make([]string, len(d.Scopes))
		for i, s := range d.Scopes {
			scopes[i] = string(s)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", d.ID, table.Printable(d.Name), strings.Join(scopes, ","),
			table.Printable(place(d)), d.State, table.When(d.LastNs), table.When(d.ExpiresNs))
	}
	return w.Flush()
}

func place(d auth.Document) string {
	switch {
	case d.Workspace == "":
		return "all"
	case d.Project == "":
		return d.Workspace
	}
	return d.Workspace + "/" + d.Project
}
