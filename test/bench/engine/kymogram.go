package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// kymogram is our server, with its keys on.
type kymogram struct {
	process
	binary, folder string
	address, key   string
}

const project = "bench"

func (k *kymogram) name() string { return "kymogram" }

func (k *kymogram) boot(ctx context.Context) error {
	k.cmd = exec.CommandContext(ctx, k.binary, "serve", "--data", filepath.Join(k.folder, "data"), "--http", "127.0.0.1:0", "--log-level", "warn")
	k.cmd.Env = append(os.Environ(), "HOME="+k.folder, "XDG_CONFIG_HOME="+k.folder)
	k.said.Reset()
	k.cmd.Stderr = &k.said
	out, err := k.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := k.cmd.Start(); err != nil {
		return fmt.Errorf("start kymogram: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("kymogram said no ready line: %w\n%s", err, tail(k.said.String()))
	}
	m := regexp.MustCompile(`http=(\S+)`).FindStringSubmatch(line)
	if m == nil {
		return fmt.Errorf("the ready line is %q", line)
	}
	k.address = m[1]
	key, err := os.ReadFile(filepath.Join(k.folder, "data", "admin.key"))
	if err != nil {
		return fmt.Errorf("read the key: %w", err)
	}
	k.key = strings.TrimSpace(string(key))
	return k.ready()
}

func (k *kymogram) target(p protocol) target {
	header := map[string]string{"Authorization": "Bearer " + k.key}
	switch p {
	case linesProtocol:
		header["Authorization"] = "Token " + k.key
		return target{url: "http://" + k.address + "/api/v2/write?org=" + project + "&bucket=" + project + "&precision=ns", header: header}
	case remoteProtocol:
		return target{url: "http://" + k.address + "/api/v1/write", header: remoteHeader(header)}
	}
	return target{address: k.address, key: k.key}
}

// bytesAtRest counts all files but the log of writes and the 2 MiB that are kept for a full
// disk: those do not grow with the points.
func (k *kymogram) bytesAtRest() (int64, error) {
	return folderBytes(filepath.Join(k.folder, "data"), func(path string) bool {
		return !strings.HasSuffix(path, ".wal") && filepath.Base(path) != "reserve"
	})
}

func (k *kymogram) get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	return fetch(ctx, "http://"+k.address+path+"?"+query.Encode(), k.authorization())
}

func (k *kymogram) authorization() map[string]string {
	return map[string]string{"Authorization": "Bearer " + k.key}
}

// runID finds a run by its name in any project.
func (k *kymogram) runID(ctx context.Context, workspace, project, run string) (string, error) {
	text, err := k.get(ctx, "/api/v1/projects/"+workspace+"/"+project+"/runs", url.Values{"limit": {"1000"}})
	if err != nil {
		return "", err
	}
	var page struct {
		Runs []struct{ ID, Name string } `json:"runs"`
	}
	if err := json.Unmarshal(text, &page); err != nil {
		return "", fmt.Errorf("read the list of runs: %w", err)
	}
	for _, r := range page.Runs {
		if r.Name == run {
			return r.ID, nil
		}
	}
	return "", fmt.Errorf("no run %q", run)
}

func (k *kymogram) queries(ctx context.Context) (map[string]func(context.Context) error, error) {
	out := map[string]func(context.Context) error{}
	add := func(name, run, path string, query url.Values, want string) error {
		id, err := k.runID(ctx, project, project, run)
		if err != nil {
			return err
		}
		out[name] = question(name, "http://"+k.address+"/api/v1/runs/"+id+path+"?"+query.Encode(), k.authorization(), want)
		return nil
	}
	err := errors.Join(
		add(queryLong, "long", "/buckets", url.Values{"metric": {measurement + "/loss_00"}, "label.host": {"node-0"}, "n": {"1000"}}, `"min"`),
		add(querySeries, "run-0000", "/points", url.Values{"metric": {measurement + "/loss_00"}, "label.host": {"node-0"}, "limit": {"2000"}, "column": {"time_ns", "value"}}, `"value"`),
		add(queryLast, "wide", "/series", url.Values{"limit": {"10000"}}, `metric_09999"`),
	)
	return out, err
}
