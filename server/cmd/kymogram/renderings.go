package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	goio "io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/model"
)

// rendering is a video as the API lists it.
type rendering struct {
	model.Rendering
	Stored bool   `json:"stored"`
	URL    string `json:"url"`
}

func renderingsCommand(io stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "renderings",
		Short: "List and download the videos of a run",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return usagef("which one? see kymogram renderings --help")
		},
	}
	cmd.AddCommand(renderingsListCommand(io), renderingsExportCommand(io))
	return cmd
}

// renderingChoice are the flags that select videos.
type renderingChoice struct {
	env, tag string
	episode  int64
	limit    int
}

func (r *renderingChoice) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.env, "env", "", "of this environment only")
	cmd.Flags().StringVar(&r.tag, "tag", "", "with this tag only")
	cmd.Flags().Int64Var(&r.episode, "episode", -1, "of this episode only")
	cmd.Flags().IntVar(&r.limit, "limit", 0, "at most so many (default all)")
}

func (r *renderingChoice) query() (url.Values, error) {
	query := url.Values{}
	for name, value := range map[string]string{"env_id": r.env, "tag": r.tag} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if r.episode >= 0 {
		query.Set("episode", strconv.FormatInt(r.episode, 10))
	}
	if r.limit < 0 {
		return nil, usagef("--limit is %d, it must not be negative", r.limit)
	}
	return query, nil
}

func renderingsListCommand(io stdio) *cobra.Command {
	var c connection
	var choice renderingChoice
	cmd := &cobra.Command{
		Use:     "list RUN",
		Short:   "List the videos of a run, by environment, episode and time",
		Example: "  kymogram renderings list default/rl/brave-otter-7\n  kymogram renderings list 01ARZ3NDEKTSV4RRFFQ69G5FAV --env env0 --tag crash --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, list, err := fetchRenderings(cmd.Context(), io, &c, args[0], &choice)
			if err != nil {
				return err
			}
			if c.json {
				return printJSON(io.out, list)
			}
			return printRenderings(io, list)
		},
	}
	c.addTo(cmd)
	choice.addTo(cmd)
	return cmd
}

func fetchRenderings(ctx context.Context, io stdio, c *connection, ref string, choice *renderingChoice) (*client, *listing, error) {
	query, err := choice.query()
	if err != nil {
		return nil, nil, err
	}
	server, err := c.dial(io)
	if err != nil {
		return nil, nil, err
	}
	id, err := server.runID(ctx, ref)
	if err != nil {
		return nil, nil, err
	}
	list, err := server.list(ctx, runPath(id, "renderings"), "renderings", query, choice.limit)
	return server, list, err
}

func printRenderings(io stdio, list *listing) error {
	w := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ENVIRONMENT\tEPISODE\tFRAMES\tFPS\tSIZE\tRL STEPS\tTAGS\tSTATE")
	for _, raw := range list.items {
		var r rendering
		if err := json.Unmarshal(raw, &r); err != nil {
			return fmt.Errorf("read rendering: %w", err)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%g\t%d×%d\t%d–%d\t%s\t%s\n", printable(r.Env), r.Episode, r.Frames, r.FPS, r.Width, r.Height,
			r.FirstRLStep, r.LastRLStep, printable(strings.Join(r.Tags, ",")), r.state())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return printMore(io, len(list.items), "renderings", list.next)
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

func renderingsExportCommand(io stdio) *cobra.Command {
	var c connection
	var choice renderingChoice
	var out string
	cmd := &cobra.Command{
		Use:   "export RUN",
		Short: "Download the videos of a run into a folder",
		Long: `Writes ENVIRONMENT_EPISODE.mp4 for each video; several of one episode are
numbered. A file that is there with the same bytes is not fetched again; none is
overwritten. The bytes are checked by their SHA-256.`,
		Example: "  kymogram renderings export default/rl/brave-otter-7 --out videos\n  kymogram renderings export 01ARZ3NDEKTSV4RRFFQ69G5FAV --out videos --tag crash",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			server, list, err := fetchRenderings(cmd.Context(), io, &c, args[0], &choice)
			if err != nil {
				return err
			}
			report, err := exportRenderings(cmd.Context(), server, list, out)
			if err != nil {
				return err
			}
			if c.json {
				return printJSON(io.out, report)
			}
			_, err = fmt.Fprintf(io.out, "%d videos in %s, %d were there, %d on their way, %d lost\n", report.Written, out, report.There, report.OnTheirWay, report.Lost)
			return err
		},
	}
	c.addTo(cmd)
	choice.addTo(cmd)
	cmd.Flags().StringVar(&out, "out", "renderings", "the folder")
	return cmd
}

// videoReport counts what an export found.
type videoReport struct {
	Written    int      `json:"written"`
	There      int      `json:"there"`
	OnTheirWay int      `json:"on_their_way"`
	Lost       int      `json:"lost"`
	Files      []string `json:"files"`
}

func exportRenderings(ctx context.Context, server *client, list *listing, folder string) (*videoReport, error) {
	report := &videoReport{Files: []string{}}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of videos: %w", err)
	}
	turns := map[string]int{}
	for _, raw := range list.items {
		var r rendering
		if err := json.Unmarshal(raw, &r); err != nil {
			return nil, fmt.Errorf("read rendering: %w", err)
		}
		switch {
		case r.SHA256 == "":
			report.Lost++
		case !r.Stored:
			report.OnTheirWay++
		default:
			if err := report.fetch(ctx, server, &r, filepath.Join(folder, r.fileName(turns))); err != nil {
				return nil, err
			}
		}
	}
	return report, nil
}

// fileName is the same for the same list.
func (r *rendering) fileName(turns map[string]int) string {
	safe := strings.Map(func(c rune) rune {
		if c < ' ' || strings.ContainsRune(`/\:*?"<>|`, c) {
			return '_'
		}
		return c
	}, r.Env)
	name := fmt.Sprintf("%s_%d", strings.TrimLeft(safe, "."), r.Episode)
	turns[name]++
	if n := turns[name]; n > 1 {
		name += "-" + strconv.Itoa(n)
	}
	return name + ".mp4"
}

func (report *videoReport) fetch(ctx context.Context, server *client, r *rendering, path string) error {
	report.Files = append(report.Files, path)
	if sum, err := fileSum(path); err == nil {
		if sum != r.SHA256 {
			return model.Errorf(model.CodeConflict, "%s is there with other bytes", path).WithHint("export into another folder with --out")
		}
		report.There++
		return nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := download(ctx, server, r, path); err != nil {
		return err
	}
	report.Written++
	return nil
}

func fileSum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := goio.Copy(sum, f); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// download writes a video under another name first: it is there as a whole or
// not at all.
func download(ctx context.Context, server *client, r *rendering, path string) error {
	response, err := server.send(ctx, http.MethodGet, r.URL, nil, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write a video: %w", err)
	}
	defer os.Remove(f.Name())
	sum := sha256.New()
	_, err = goio.Copy(goio.MultiWriter(f, sum), response.Body)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("download %s: %w", path, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != r.SHA256 {
		return model.Errorf(model.CodeUnavailable, "the bytes of %s were changed or cut on their way", path).WithHint("run the export again")
	}
	if err := os.Chmod(f.Name(), 0o644); err != nil {
		return fmt.Errorf("write a video: %w", err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("write a video: %w", err)
	}
	return nil
}
