package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// victoria is VictoriaMetrics with its defaults, but a retention that takes any
// timestamp, and limits that let the reads and the widest lines through.
type victoria struct {
	process
	binary, folder, address string
}

func (v *victoria) name() string { return victoriaName }

func (v *victoria) boot(ctx context.Context) error {
	free, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	v.address = free.Addr().String()
	_ = free.Close()
	v.cmd = exec.CommandContext(ctx, v.binary, "-storageDataPath="+filepath.Join(v.folder, "data"), "-retentionPeriod=100y", "-httpListenAddr="+v.address,
		"-search.maxSamplesPerQuery=1000000000", "-search.latencyOffset=0s", "-influx.maxLineSize=8MB", "-loggerLevel=ERROR")
	v.said.Reset()
	v.cmd.Stderr = &v.said
	if err := v.cmd.Start(); err != nil {
		return fmt.Errorf("start victoria-metrics: %w", err)
	}
	if err := waitFor(ctx, "start of victoria-metrics", func() bool { _, err := v.get(ctx, "/health", nil); return err == nil }); err != nil {
		return err
	}
	return v.ready()
}

func (v *victoria) target(p protocol) target {
	if p == remoteProtocol {
		return target{url: "http://" + v.address + "/api/v1/write", header: remoteHeader(map[string]string{})}
	}
	return target{url: "http://" + v.address + "/write?precision=ns"}
}

func (v *victoria) bytesAtRest() (int64, error) {
	return folderBytes(filepath.Join(v.folder, "data"), func(string) bool { return true })
}

func (v *victoria) get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	return fetch(ctx, "http://"+v.address+path+"?"+query.Encode(), nil)
}

// settle merges what can be merged, which its background does in time.
func (v *victoria) settle(ctx context.Context) error {
	if _, err := v.get(ctx, "/internal/force_flush", nil); err != nil {
		return err
	}
	if _, err := v.get(ctx, "/internal/force_merge", nil); err != nil {
		return err
	}
	return waitFor(ctx, "merge of victoria-metrics", func() bool {
		text, err := v.get(ctx, "/metrics", nil)
		return err == nil && !bytes.Contains(text, []byte(`vm_active_force_merges 1`))
	})
}

func (v *victoria) queries(context.Context) (map[string]func(context.Context) error, error) {
	out := map[string]func(context.Context) error{}
	add := func(name, path string, query url.Values, want string) {
		query.Set("nocache", "1")
		out[name] = question(name, "http://"+v.address+path+"?"+query.Encode(), nil, want)
	}
	const ms = 1e3
	longTo := firstMs/ms + float64(longPoints)*stepMs/ms*1.001
	add(queryLong, "/api/v1/query_range", url.Values{
		"query": {`rollup(ml_loss_00{run="long"}[` + fmt.Sprintf("%ds", longPoints/1000) + `])`},
		"start": {strconv.Itoa(firstMs / 1000)}, "end": {fmt.Sprintf("%.0f", longTo)}, "step": {fmt.Sprintf("%ds", longPoints/1000)},
	}, `"min"`)
	add(querySeries, "/api/v1/export", url.Values{"match[]": {`ml_loss_00{run="run-0000"}`}}, `"values"`)
	add(queryLast, "/api/v1/query", url.Values{
		"query": {`last_over_time({run="wide"}[1d])`}, "time": {strconv.Itoa(firstMs/1000 + 3600)},
	}, `metric_09999`)
	return out, nil
}

func remoteHeader(h map[string]string) map[string]string {
	h["Content-Type"], h["Content-Encoding"], h["X-Prometheus-Remote-Write-Version"] = "application/x-protobuf", "snappy", "0.1.0"
	return h
}

// client asks for plain answers, as curl does: on one machine compression only costs.
var client = &http.Client{Timeout: 5 * time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}} //nolint:gochecknoglobals // of this program alone
