package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/netstate"
)

// told is what one node was told to say: what a test compares the server with.
type told struct {
	Role    string          `json:"role"`
	Kind    string          `json:"kind"`
	Hotkey  string          `json:"hotkey"`
	Reports []netstate.Stat `json:"reports,omitempty"`
}

// demo runs the network until ctx ends, or once.
func demo(ctx context.Context, o options) (err error) {
	folder, err := os.MkdirTemp("", "netstate")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	settings, words, err := o.nodes(folder)
	if err != nil {
		return err
	}
	if o.onChain {
		stop, err := o.startChain(ctx, settings)
		if err != nil {
			return err
		}
		defer stop()
	}
	if o.server == "" {
		stop, err := o.serve(ctx)
		if err != nil {
			return err
		}
		defer stop()
	}
	o.server = strings.TrimRight(o.server, "/")
	for i := range settings {
		settings[i].Server, settings[i].Key, settings[i].Chain = o.server, o.key, o.chain
	}
	if err := writeReport(o.report, words); err != nil {
		return err
	}
	children, err := start(ctx, settings)
	defer end(children)
	if err != nil {
		return err
	}
	workspace, project, _ := strings.Cut(o.project, "/")
	fmt.Printf("%d miners and %d validators speak at %s/network/%s/%s\n", o.miners, len(kinds), o.server, url.PathEscape(workspace), url.PathEscape(project))
	if !o.once {
		fmt.Println("Ctrl-C ends it")
		<-ctx.Done()
		return nil
	}
	return o.show(ctx, workspace, project)
}

// serve starts a server that ends with this program.
func (o *options) serve(ctx context.Context) (stop func(), err error) {
	if err := os.MkdirAll(o.data, 0o700); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(filepath.Dir(o.data), filepath.Base(o.data)+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	args := []string{"serve", "--data", o.data, "--http", "127.0.0.1:0"}
	if o.chain != "" {
		args = append(args, "--chain", o.chain)
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), o.binary, args...)
	cmd.Stderr, cmd.SysProcAttr = log, ownGroup()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s (run make build): %w", o.binary, err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_, rest, found := strings.Cut(line, " http=")
	address, _, _ := strings.Cut(rest, " ")
	if err != nil || !found {
		return nil, errors.Join(fmt.Errorf("the server did not start: %s says why", log.Name()), cmd.Process.Kill(), cmd.Wait())
	}
	o.server = "http://" + address
	if o.key, err = adminKey(o.data); err != nil {
		return nil, err
	}
	if link, err := exec.CommandContext(ctx, o.binary, "key", "link", "--server", o.server, "--key", o.key).Output(); err == nil {
		fmt.Printf("sign in: %s", link)
	}
	return func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // it ends by the signal
		_ = log.Close()
	}, nil
}

func adminKey(data string) (string, error) {
	text, err := os.ReadFile(filepath.Join(data, "admin.key"))
	return strings.TrimSpace(string(text)), err
}

// nodes makes keys and the truth, and tells each node its part: validators first, in
// the order of their UIDs.
func (o *options) nodes(folder string) (settings []Settings, words []told, err error) {
	workspace, project, _ := strings.Cut(o.project, "/")
	base := Settings{Netuid: subnet, Workspace: workspace, Project: project, Folder: folder, Every: o.every}
	first := 0
	if o.onChain { // UID 0 is in the genesis
		base.Netuid, first = devSubnet, 1
	}
	add := func(role, kind string) error {
		s := base
		s.Role, s.Kind, s.UID = role, kind, first+len(settings)
		_, _ = rand.Read(s.Seed[:]) // never fails, see crypto/rand
		wallet, err := chain.SeedWallet(s.Seed)
		if err != nil {
			return err
		}
		settings, words = append(settings, s), append(words, told{Role: role, Kind: kind, Hotkey: wallet.Hotkey()})
		return nil
	}
	for _, kind := range kinds {
		err = errors.Join(err, add(netstate.Validator, kind))
	}
	for range o.miners {
		err = errors.Join(err, add(netstate.Miner, honest))
	}
	if err != nil {
		return nil, nil, err
	}
	truth := measure(settings[len(kinds):], words[len(kinds):])
	for i := range settings {
		settings[i].Miners = truth
		if i < len(kinds) {
			words[i].Reports = said(kinds[i], truth)
		} else {
			settings[i].Miners = truth[i-len(kinds) : i-len(kinds)+1]
		}
	}
	return settings, words, nil
}

// measure is what is true of the miners.
func measure(miners []Settings, words []told) (truth []netstate.Stat) {
	gpus := []netstate.GPU{{Name: "NVIDIA H100 80GB HBM3", Count: 8}, {Name: "NVIDIA A100-SXM4-80GB", Count: 4}, {Name: "NVIDIA GeForce RTX 4090", Count: 1}}
	for i, s := range miners {
		truth = append(truth, netstate.Stat{
			UID: s.UID, Hotkey: words[i].Hotkey, GPU: &gpus[i%len(gpus)], Score: math.Round(100*(20+75*wave(i, 3*i))) / 100, Allocated: i%4 != 3, OwnScore: true,
		})
	}
	return truth
}

func writeReport(path string, words []told) error {
	if path == "" {
		return nil
	}
	text, err := json.Marshal(words)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// atOnce is how many nodes may start at the same time.
const atOnce = 8

// start starts every node as a process and waits until each has spoken.
func start(ctx context.Context, all []Settings) (children []*exec.Cmd, err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	words := make([]io.Reader, 0, len(all))
	heard := func(i int) error {
		line, err := bufio.NewReader(words[i]).ReadString('\n')
		if err != nil || line != "ready\n" {
			return fmt.Errorf("the %s %s with uid %d did not speak", all[i].Kind, all[i].Role, all[i].UID)
		}
		return nil
	}
	for i := range all {
		text, err := json.Marshal(&all[i])
		if err != nil {
			return children, err
		}
		cmd := exec.CommandContext(context.WithoutCancel(ctx), program, nodeCommand)
		cmd.Stdin, cmd.Stderr, cmd.SysProcAttr = strings.NewReader(string(text)), os.Stderr, ownGroup()
		out, err := cmd.StdoutPipe()
		if err != nil {
			return children, err
		}
		if err := cmd.Start(); err != nil {
			return children, err
		}
		children, words = append(children, cmd), append(words, out)
		if i >= atOnce {
			if err := heard(i - atOnce); err != nil {
				return children, err
			}
		}
	}
	for i := max(0, len(all)-atOnce); i < len(all); i++ {
		if err := heard(i); err != nil {
			return children, err
		}
	}
	return children, ctx.Err()
}

// end stops the nodes; each closes its run first.
func end(children []*exec.Cmd) {
	for _, cmd := range children {
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}
	for _, cmd := range children {
		_ = cmd.Wait() // it ends by the signal
	}
}

// show waits until the stale validator's record has expired, and prints what the
// server thinks.
func (o *options) show(ctx context.Context, workspace, project string) error {
	path := fmt.Sprintf("/api/v1/projects/%s/%s/network", url.PathEscape(workspace), url.PathEscape(project))
	client := &remote.Client{Base: o.server, Key: o.key}
	for {
		var doc struct {
			Chain      *struct{ Block uint64 }
			Miners     []struct{ Result *struct{ Score float64 } }
			Validators []struct{ Stake *float64 }
			Findings   []struct{ Kind, Role, Hotkey, Text string }
		}
		if err := client.Exchange(ctx, http.MethodGet, path, nil, &doc); err != nil {
			return err
		}
		found := map[string]bool{}
		for _, f := range doc.Findings {
			found[f.Kind] = true
		}
		if !found["stale"] {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(500 * time.Millisecond):
			}
			continue
		}
		results := 0
		for _, m := range doc.Miners {
			if m.Result != nil {
				results++
			}
		}
		fmt.Printf("%d miners, %d with a merged result\n", len(doc.Miners), results)
		if doc.Chain != nil {
			stake := 0.0
			for _, v := range doc.Validators {
				if v.Stake != nil {
					stake += *v.Stake
				}
			}
			fmt.Printf("chain at block %d, stake of the validators %.0f\n", doc.Chain.Block, stake)
		}
		for _, f := range doc.Findings {
			fmt.Printf("%-12s %s %s: %s\n", strings.ReplaceAll(f.Kind, "_", " "), f.Role, f.Hotkey, f.Text)
		}
		return nil
	}
}
