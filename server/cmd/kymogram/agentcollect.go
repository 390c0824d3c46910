package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/kymogram/kymogram"
	"github.com/kymogram/kymogram/internal/duration"
	"github.com/kymogram/kymogram/internal/spool"
)

// collectClose is how long the end of the machine's run is waited for.
const collectClose = 3 * time.Second

// agentCollect is a run of the machine itself, which needs no program that trains.
type agentCollect struct {
	on         bool
	into, name string
	server     string
	every      time.Duration
}

func (c *agentCollect) addTo(f *pflag.FlagSet) {
	f.BoolVar(&c.on, "collect", false, "log what this machine does, into a run of its own")
	f.StringVar(&c.into, "collect-into", "default/machines", "the WORKSPACE/PROJECT of that run")
	f.StringVar(&c.name, "collect-run", "", "its name (default: the host's)")
	f.StringVar(&c.server, "collect-server", "", "the server of that run (default KYMOGRAM_SERVER, else http://127.0.0.1:7070)")
	c.every = 30 * time.Second
	f.Var(duration.Var(&c.every), "collect-interval", "the time between two samples, at least 100ms")
}

func (c *agentCollect) check() error {
	workspace, project, both := strings.Cut(c.into, "/")
	if !both || workspace == "" || project == "" || strings.Contains(project, "/") {
		return usagef("--collect-into is WORKSPACE/PROJECT, not %q", c.into)
	}
	if c.every < spool.LeastSystemInterval {
		return usagef("--collect-interval is a time such as 30s, at least %s, not %s", duration.Text(spool.LeastSystemInterval), duration.Text(c.every))
	}
	return nil
}

// during runs an agent while the machine's run is open. The run ends before the agent does,
// so that its end is delivered too.
func (c *agentCollect) during(ctx context.Context, folder *spool.Folder, host string, agent func(context.Context) error) error {
	if !c.on {
		return agent(ctx)
	}
	workspace, project, _ := strings.Cut(c.into, "/")
	name := c.name
	if name == "" {
		name = host
	}
	run, err := kymogram.Init(ctx, kymogram.Options{
		Server: c.server, Workspace: workspace, Project: project, RunName: name, ResumeStrategy: kymogram.ResumeAllow,
		SystemMetricsInterval: c.every, SpoolDir: folder.Path, NoUplink: true, CloseTimeout: collectClose,
	})
	if err != nil {
		return err
	}
	delivering, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- agent(delivering) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	err = run.Close(context.WithoutCancel(ctx))
	stop()
	if failed := <-ended; failed != nil {
		return failed
	}
	return err
}

// makeSpool opens a spool, and makes it where there is none.
func makeSpool(env func(string) string, path string) (*spool.Folder, error) {
	if path != "" {
		return spool.OpenFolder(path)
	}
	return spool.Resolve(env)
}
