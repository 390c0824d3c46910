package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	_ "embed"
)

//go:embed log.py
var script string

// logged is what the script prints: µs of the calls, and the processor time of the program.
type logged struct{ Median, P99, CPU, Finish float64 }

// log measures a call of wandb.log of the real SDKs, against this server and another one in
// turn.
func (b *bench) log(ctx context.Context) error {
	if b.sdks == "" {
		row("wandb.log", "SKIPPED: no SDKs: -sdks or WANDB_BENCH_SDKS names their environments")
		return nil
	}
	return b.anew(ctx, func(s *server) error {
		servers := map[string][2]string{"kymogram": {s.address, s.key}}
		order := []string{"kymogram"}
		if b.peer == "" {
			row("wandb.log", "SKIPPED beside another server: -peer or WANDB_BENCH_PEER names its program")
		} else {
			address, stop, err := b.startPeer(ctx, s.folder)
			if err != nil {
				return err
			}
			defer stop()
			servers["peer"] = [2]string{address, strings.Repeat("0123abcd", 5)}
			order = append(order, "peer")
		}
		for sdk := range strings.SplitSeq(b.sdks, ",") {
			for _, keys := range []int{1, 10} {
				all := map[string][]logged{}
				for range 3 {
					for _, name := range order {
						one, err := program(ctx, s.folder, sdk, servers[name], keys, b.size(10_000, 200))
						if err != nil {
							return fmt.Errorf("%s, %s: %w", sdk, name, err)
						}
						all[name] = append(all[name], one)
					}
					slices.Reverse(order)
				}
				for _, name := range slices.Sorted(slices.Values(order)) {
					row(fmt.Sprintf("wandb.log, %s, %d keys, %s", filepath.Base(sdk), keys, name), "median %.1f µs, p99 %.0f µs, processor time of the program %.1f µs a call, finish %.2f s",
						middle(all[name], func(l logged) float64 { return l.Median }), middle(all[name], func(l logged) float64 { return l.P99 }), middle(all[name], func(l logged) float64 { return l.CPU }), middle(all[name], func(l logged) float64 { return l.Finish }))
				}
			}
		}
		return nil
	})
}

func middle(all []logged, of func(logged) float64) float64 {
	var out []float64
	for _, one := range all {
		out = append(out, of(one))
	}
	slices.Sort(out)
	return out[len(out)/2]
}

// program runs the script under an SDK.
func program(ctx context.Context, folder, sdk string, to [2]string, keys, calls int) (one logged, err error) {
	home, err := os.MkdirTemp(folder, "sdk-")
	if err != nil {
		return one, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(sdk, "bin", "python"), "-c", script, strconv.Itoa(keys), strconv.Itoa(calls))
	cmd.Dir = home
	cmd.Env = append(os.Environ(), "HOME="+home, "WANDB_DIR="+home, "WANDB_CACHE_DIR="+home, "WANDB_CONFIG_DIR="+home, "WANDB_DATA_DIR="+home, "WANDB_BASE_URL=http://"+to[0], "WANDB_API_KEY="+to[1],
		"WANDB_ENTITY="+entity, "WANDB_PROJECT=log", "WANDB__DISABLE_UPDATE_CHECK=true", "WANDB_ERROR_REPORTING=false", "WANDB_DISABLE_GIT=true", "WANDB_SILENT=true")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return one, fmt.Errorf("%w\n%s", err, tail(said.String()))
	}
	text := bytes.TrimSpace(out)
	return one, json.Unmarshal(text[bytes.LastIndexByte(text, '\n')+1:], &one)
}

// startPeer starts another server that speaks the protocol.
func (b *bench) startPeer(ctx context.Context, folder string) (address string, stop func(), err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	address = l.Addr().String()
	_, port, err := net.SplitHostPort(address)
	if err := errors.Join(err, l.Close()); err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(ctx, "python3", b.peer, port, filepath.Join(folder, "peer.log"))
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("start %s: %w", b.peer, err)
	}
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}
	for range 500 {
		if c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address); err == nil {
			return address, stop, c.Close()
		}
		time.Sleep(20 * time.Millisecond)
	}
	stop()
	return "", nil, fmt.Errorf("%s does not listen", b.peer)
}
