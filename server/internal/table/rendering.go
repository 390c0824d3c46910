package table

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/kymogram/kymogram/internal/model"
)

// rendering is a video as the API lists it.
type rendering struct {
	model.Rendering
	Stored bool `json:"stored"`
}

// Renderings is the list of a run's videos.
func Renderings(out io.Writer, items []json.RawMessage) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ENVIRONMENT\tEPISODE\tFRAMES\tFPS\tSIZE\tRL STEPS\tTAGS\tSTATE")
	for _, raw := range items {
		var r rendering
		if err := json.Unmarshal(raw, &r); err != nil {
			return fmt.Errorf("read rendering: %w", err)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%g\t%d×%d\t%d–%d\t%s\t%s\n", Printable(r.Env), r.Episode, r.Frames, r.FPS, r.Width, r.Height,
			r.FirstRLStep, r.LastRLStep, Printable(strings.Join(r.Tags, ",")), r.state())
	}
	return w.Flush()
}

// state says in a word whether the video can be watched.
func (r *rendering) state() string {
	switch {
	case r.SHA256 == "":
		return "lost"
	case !r.Stored:
		return "on its way"
	case !r.Complete:
		return "cut short"
	}
	return "stored"
}
