package main

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/internal/uplink"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

const (
	doctorLimit = 5 * time.Second
	// maxSkew is how far clocks may differ before times in a chart mislead.
	maxSkew = 2 * time.Second
)

// finding is one thing that the doctor looked at.
type finding struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

// diagnosis is what doctor --json prints.
type diagnosis struct {
	Findings []finding `json:"findings"`
	OK       bool      `json:"ok"`
}

func (d *diagnosis) add(name, detail string, err error) {
	f := finding{Name: name, OK: err == nil, Detail: detail}
	if err != nil {
		f.Detail = err.Error()
		var e *model.Error
		if errors.As(err, &e) {
			f.Hint = e.Hint
		}
	}
	d.Findings = append(d.Findings, f)
	d.OK = d.OK && f.OK
}

func doctorCommand(io stdio) *cobra.Command {
	var c connection
	var path string
	cmd := &cobra.Command{
		Use:     "doctor",
		Short:   "Look for what is wrong: server, key, clock, spool",
		Example: "  kymogram doctor\n  kymogram doctor --server https://kymogram.example.org --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			address, err := uplink.ParseServer(first(c.server, io.env("KYMOGRAM_SERVER"), defaultServer))
			if err != nil {
				return usageError{err}
			}
			d := diagnosis{OK: true}
			d.add("version", fmt.Sprintf("kymogram %s, %s %s/%s", version, runtime.Version(), runtime.GOOS, runtime.GOARCH), nil)
			folder := d.checkSpool(io, path)
			d.checkServer(cmd.Context(), io, folder, address, c.key)
			return d.print(io, c.json)
		},
	}
	c.addTo(cmd)
	cmd.Flags().StringVar(&path, "spool", "", "the spool folder (default: the one that programs use)")
	return cmd
}

func (d *diagnosis) checkSpool(io stdio, path string) *spool.Folder {
	folder, err := openSpool(io, path)
	if err != nil {
		d.add("spool", "", err)
		return nil
	}
	detail := fmt.Sprintf("%s on %s (%s); survives %s", folder.Path, folder.FS.Name, folder.FS.Kind, folder.FS.Survives())
	if len(folder.Passed) > 0 {
		detail += "; not used: " + strings.Join(folder.Passed, "; ")
	}
	d.add("spool", detail, nil)
	detail, err = space(folder)
	d.add("space", detail, err)
	waiting, err := leftIn(folder)
	d.add("waiting", fmt.Sprintf("%s of %d runs are not delivered yet", waiting, waiting.Writers), err)
	d.add("envs", "no program that logs here shares an environment with another", sharedIn(folder))
	d.checkHolder(folder)
	return folder
}

// leastCap is what a first segment and its successor need.
const leastCap = 2 << 20

func space(folder *spool.Folder) (string, error) {
	used, err := folder.Used()
	if err != nil {
		return "", err
	}
	limit, err := folder.Cap()
	if err == nil && limit < leastCap {
		err = model.Errorf(model.CodeDiskFull, "the spool may use %d bytes, a tenth of the free space", limit).
			WithHint("free disk space, or set KYMOGRAM_SPOOL_DIR to a folder on another disk")
	}
	return fmt.Sprintf("%d MiB of at most %d MiB used", used>>20, limit>>20), err
}

// sharedIn tells of a writer in the spool whose environment another one logs too.
func sharedIn(folder *spool.Folder) error {
	writers, err := folder.Writers()
	if err != nil {
		return err
	}
	for _, id := range writers {
		dir := folder.WriterPath(id)
		shared, err := spool.ReadShared(dir)
		if err != nil || len(shared) == 0 {
			continue // delivered meanwhile, or alone
		}
		open, err := spool.ReadOpen(dir)
		if err != nil {
			continue
		}
		s, run := shared[0], open.Open
		return model.Errorf(model.CodeConflict, "process %d of run %s logs the environment %q, and so does process %d on %s%s (%d such environments)",
			run.PID, run.RunName, s.Env, s.PID, s.Host, rankText(s.Rank), len(shared)).
			WithHint("let each process log environments of its own: their steps mix now")
	}
	return nil
}

func (d *diagnosis) checkHolder(folder *spool.Folder) {
	holder, held, err := folder.Held()
	detail := "nobody delivers the spool now; programs start an agent when they log"
	if held {
		detail = fmt.Sprintf("process %d (%s, version %s, protocol %d) delivers the spool", holder.PID, holder.Kind, holder.Version, holder.Protocol)
	}
	d.add("agent", detail, err)
}

func (d *diagnosis) checkServer(ctx context.Context, io stdio, folder *spool.Folder, address, key string) {
	ctx, cancel := context.WithTimeout(ctx, doctorLimit)
	defer cancel()
	key = first(key, io.env("KYMOGRAM_API_KEY"))
	if key == "" && folder != nil {
		found, err := uplink.FindKey(folder, address, io.env)
		if err != nil {
			d.add("key", "", err)
		}
		key = found
	}
	server, err := uplink.NewServer(address, key)
	if err != nil {
		d.add("server", "", err)
		return
	}
	began := time.Now()
	info, err := server.Info(ctx)
	took := time.Since(began)
	if err != nil {
		err = unreachable(address, err)
	}
	d.add("server", fmt.Sprintf("%s answers in %s: version %s, gRPC at %s", address, took.Round(time.Millisecond), info.Version, info.GRPC), err)
	if err != nil {
		return
	}
	d.checkClock(info, began, took)
	if d.checkKey(ctx, server, info, key) {
		d.checkStore(ctx, address, key)
	}
}

func unreachable(address string, err error) error {
	e := model.Errorf(model.CodeUnavailable, "%s: %v", address, err)
	var stranger x509.UnknownAuthorityError
	if errors.As(err, &stranger) {
		return e.WithHint("set SSL_CERT_FILE to the server's authority, DATA/tls/ca.pem with `kymogram serve --tls self`")
	}
	return e.WithHint("start it with `kymogram serve`, or name another with --server or KYMOGRAM_SERVER")
}

// checkClock compares the clocks at the middle of the question.
func (d *diagnosis) checkClock(info uplink.Info, began time.Time, took time.Duration) {
	skew := time.Unix(0, info.TimeNs).Sub(began.Add(took / 2))
	var err error
	if skew.Abs() > maxSkew+took {
		err = model.Errorf(model.CodeInvalid, "this clock and the server's differ by %s", skew.Round(time.Millisecond)).
			WithHint("set the clock (NTP): points carry this machine's time")
	}
	d.add("clock", fmt.Sprintf("differs by %s from the server's", skew.Round(time.Millisecond)), err)
}

// checkKey reports whether the key may read.
func (d *diagnosis) checkKey(ctx context.Context, server *uplink.Server, info uplink.Info, key string) bool {
	err := server.CheckKey(ctx)
	switch {
	case err == nil && !info.Auth:
		d.add("key", "the server asks for none", nil)
	case err == nil:
		d.add("key", "accepted", nil)
	case model.CodeOf(err) == model.CodePermission:
		d.add("key", "accepted for other things than reading", nil)
	case key == "":
		d.add("key", "", model.Errorf(model.CodeUnauthenticated, "there is no key for this server").
			WithHint("set KYMOGRAM_API_KEY; on the server `kymogram key create` makes one"))
	default:
		d.add("key", "", err)
	}
	return err == nil
}

// checkStore asks the server how its data folder fares.
func (d *diagnosis) checkStore(ctx context.Context, address, key string) {
	base, err := url.Parse(address)
	if err != nil {
		d.add("store", "", err)
		return
	}
	response, err := (&client{base: base, key: key, http: stayingClient()}).send(ctx, http.MethodGet, "/metrics", nil, nil)
	if err != nil {
		d.add("store", "", err)
		return
	}
	defer response.Body.Close()
	values := map[string]float64{}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if name, text, ok := strings.Cut(lines.Text(), " "); ok && (strings.HasPrefix(name, "kymogram_store_") || name == recoveredRuns) {
			values[name], _ = strconv.ParseFloat(text, 64) // no number is no news
		}
	}
	detail := fmt.Sprintf("%.0f points of %.0f runs, %.0f MiB; nothing damaged was met",
		values["kymogram_store_points"], values["kymogram_store_runs"], values["kymogram_store_disk_bytes"]/(1<<20))
	d.add("store", detail, storeTrouble(values))
	d.add("catalog", "knows every run of the store", catalogTrouble(values))
}

const recoveredRuns = "kymogram_catalog_recovered_runs"

// catalogTrouble tells of runs whose names are lost.
func catalogTrouble(values map[string]float64) error {
	if values[recoveredRuns] == 0 {
		return nil
	}
	return model.Errorf(model.CodeInternal, "the catalog had lost %.0f runs; their points are there, their names are not", values[recoveredRuns]).
		WithHint("they are in the workspace and project %q: give each a display name, or delete it; check the server's disk", catalog.Recovered)
}

// storeTrouble is the worst that the server's own figures tell.
func storeTrouble(values map[string]float64) error {
	damaged := values["kymogram_store_quarantined_total"]
	switch {
	case values["kymogram_store_poisoned"] > 0:
		return model.Errorf(model.CodeUnavailable, "the store stopped after the disk failed a write").
			WithHint("check the server's disk and restart the server; what was acknowledged is safe")
	case values["kymogram_store_disk_full"] > 0:
		return model.Errorf(model.CodeDiskFull, "the server's disk is full; reads work").
			WithHint("free space there; the server goes on by itself")
	case damaged > 0:
		return model.Errorf(model.CodeInternal, "the server met %.0f damaged files or ranges and left them out", damaged).
			WithHint("its log names them (damaged data is left out); restore them from a backup, and check the disk")
	}
	return nil
}

var errUnwell = errors.New("something is wrong")

func (d *diagnosis) print(io stdio, asJSON bool) error {
	var err error
	if asJSON {
		err = printJSON(io.out, d)
	}
	for _, f := range d.Findings {
		if asJSON || err != nil {
			break
		}
		mark := "ok  "
		if !f.OK {
			mark = "FAIL"
		}
		_, err = fmt.Fprintf(io.out, "%s  %-8s %s\n", mark, f.Name, printable(f.Detail))
		if err == nil && f.Hint != "" {
			_, err = fmt.Fprintf(io.out, "               %s\n", f.Hint)
		}
	}
	if err == nil && !d.OK {
		err = errUnwell
	}
	return err
}
