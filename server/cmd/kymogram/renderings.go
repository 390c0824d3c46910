package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/server/internal/table"
	"github.com/kymogram/kymogram/server/internal/transfer"
)

func renderingsCommand(io stdio) *cobra.Command {
	return group(&cobra.Command{
		Use:   "renderings",
		Short: "List and download the videos of a run",
	}, renderingsListCommand(io), renderingsExportCommand(io))
}

// renderingFlags select videos.
type renderingFlags struct {
	listFlags
	episode int64
}

func (f *renderingFlags) addTo(cmd *cobra.Command) {
	f.listFlags.addTo(cmd)
	f.words["env_id"] = cmd.Flags().String("env", "", "of this environment only")
	f.words["tag"] = cmd.Flags().String("tag", "", "with this tag only")
	cmd.Flags().Int64Var(&f.episode, "episode", -1, "of this episode only")
}

func (f *renderingFlags) list(cmd *cobra.Command, io stdio, ref string) (*remote.Client, *remote.List, error) {
	if f.episode >= 0 {
		episode := strconv.FormatInt(f.episode, 10)
		f.words["episode"] = &episode
	}
	return f.ofRun(cmd, io, ref, "renderings")
}

func renderingsListCommand(io stdio) *cobra.Command {
	var f renderingFlags
	cmd := &cobra.Command{
		Use:     "list RUN",
		Short:   "List the videos of a run, by environment, episode and time",
		Example: "  kymogram renderings list default/rl/brave-otter-7\n  kymogram renderings list 01ARZ3NDEKTSV4RRFFQ69G5FAV --env env0 --tag crash --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			_, list, err := f.list(cmd, io, args[0])
			if err != nil {
				return err
			}
			return f.print(io, list, "renderings", table.Renderings)
		},
	}
	f.addTo(cmd)
	return cmd
}

func renderingsExportCommand(io stdio) *cobra.Command {
	var f renderingFlags
	var out string
	cmd := &cobra.Command{
		Use:   "export RUN",
		Short: "Download the videos of a run into a folder",
		Long: `Writes ENVIRONMENT_EPISODE.mp4 for each video; several of one episode are
numbered. A file that is there with the same bytes is not fetched again; none is
overwritten. The bytes are checked by their SHA-256.`,
		Example: "  kymogram renderings export default/rl/brave-otter-7 --out videos\n  kymogram renderings export 01ARZ3NDEKTSV4RRFFQ69G5FAV --out videos --tag crash",
		RunE: func(cmd *cobra.Command, args []string) error {
			server, list, err := f.list(cmd, io, args[0])
			if err != nil {
				return err
			}
			report, err := transfer.Download(cmd.Context(), server, list.Items, out)
			return tell(io, f.json, report, err)
		},
	}
	f.addTo(cmd)
	cmd.Flags().StringVar(&out, "out", "renderings", "the folder")
	return cmd
}
