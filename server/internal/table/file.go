package table

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// Files prints a list of a run's files.
func Files(out io.Writer, items []json.RawMessage) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tBYTES\tCHANGED\tTYPE")
	for _, raw := range items {
		var f struct {
			Name        string `json:"name"`
			Size        int64  `json:"size"`
			ContentType string `json:"content_type"`
			ChangedNs   int64  `json:"changed_ns"`
		}
		if err := json.Unmarshal(raw, &f); err != nil {
			return fmt.Errorf("read file: %w", err)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", Printable(f.Name), f.Size, time.Unix(0, f.ChangedNs).UTC().Format(time.RFC3339), Printable(f.ContentType))
	}
	return w.Flush()
}
