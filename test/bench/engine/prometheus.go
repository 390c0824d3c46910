package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
)

// prometheus is Prometheus with its defaults, that takes remote write, of the times of the workload.
type prometheus struct {
	process
	binary, folder, address string
}

func (p *prometheus) name() string { return prometheusName }

func (p *prometheus) boot(ctx context.Context) error {
	free, err := addresses(ctx, 1)
	if err != nil {
		return err
	}
	p.address = free[0]
	config := filepath.Join(p.folder, "prometheus.yml")
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		return err
	}
	p.cmd = exec.CommandContext(ctx, p.binary, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(p.folder, "data"), "--storage.tsdb.retention.time=100y",
		"--web.listen-address="+p.address, "--web.enable-remote-write-receiver", "--log.level=error")
	p.said.Reset()
	p.cmd.Stderr = &p.said
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start prometheus: %w", err)
	}
	if err := waitFor(ctx, "start of prometheus", func() bool {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+"/-/ready", http.NoBody)
		if err == nil {
			_, err = do(r)
		}
		return err == nil
	}); err != nil {
		return err
	}
	return p.ready()
}

func (p *prometheus) target(protocol) target {
	return target{url: "http://" + p.address + "/api/v1/write", header: remoteHeader(map[string]string{})}
}

func (p *prometheus) bytesAtRest() (int64, error) {
	return folderBytes(filepath.Join(p.folder, "data"), func(string) bool { return true })
}

func (p *prometheus) queries(context.Context) (map[string]func(context.Context) error, error) {
	return nil, errors.New("prometheus is measured with -what promql")
}
