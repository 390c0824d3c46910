package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
)

// influx is InfluxDB 1.6 with its defaults, but limits that let the series of a subnet in, and
// nothing that it logs of requests or keeps of itself.
type influx struct {
	process
	binary, folder, address string
}

func (i *influx) name() string { return influxName }

func (i *influx) boot(ctx context.Context) error {
	free, err := addresses(ctx, 2)
	if err != nil {
		return err
	}
	i.address = free[0]
	i.cmd = exec.CommandContext(ctx, i.binary, "-config", os.DevNull)
	i.cmd.Env = append(os.Environ(), "INFLUXDB_REPORTING_DISABLED=true", "INFLUXDB_BIND_ADDRESS="+free[1], "INFLUXDB_HTTP_BIND_ADDRESS="+i.address,
		"INFLUXDB_META_DIR="+filepath.Join(i.folder, "meta"), "INFLUXDB_DATA_DIR="+filepath.Join(i.folder, "data"), "INFLUXDB_DATA_WAL_DIR="+filepath.Join(i.folder, "wal"),
		"INFLUXDB_HTTP_LOG_ENABLED=false", "INFLUXDB_DATA_QUERY_LOG_ENABLED=false", "INFLUXDB_MONITOR_STORE_ENABLED=false",
		"INFLUXDB_DATA_MAX_SERIES_PER_DATABASE=0", "INFLUXDB_DATA_MAX_VALUES_PER_TAG=0", "INFLUXDB_LOGGING_LEVEL=error")
	i.said.Reset()
	i.cmd.Stderr = &i.said
	if err := i.cmd.Start(); err != nil {
		return fmt.Errorf("start InfluxDB: %w; `make influx` gets it", err)
	}
	if err := waitFor(ctx, "start of InfluxDB", func() bool {
		_, err := i.query(ctx, "CREATE DATABASE "+project)
		return err == nil
	}); err != nil {
		return err
	}
	return i.ready()
}

// addresses are of ports that are free now.
func addresses(ctx context.Context, n int) (out []string, err error) {
	for range n {
		free, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer free.Close()
		out = append(out, free.Addr().String())
	}
	return out, nil
}

func (i *influx) target(protocol) target {
	return target{url: "http://" + i.address + "/write?db=" + project + "&precision=ns"}
}

// bytesAtRest counts the shards and the index of series; the log is empty after a stop.
func (i *influx) bytesAtRest() (int64, error) {
	return folderBytes(filepath.Join(i.folder, "data"), func(string) bool { return true })
}

func (i *influx) query(ctx context.Context, q string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+i.address+"/query?"+url.Values{"db": {project}, "q": {q}}.Encode(), http.NoBody)
	if err != nil {
		return nil, err
	}
	return do(r)
}

func (i *influx) queries(context.Context) (map[string]func(context.Context) error, error) {
	return nil, fmt.Errorf("the reads of the older package are not measured for %s: use -what subnet", i.name())
}
