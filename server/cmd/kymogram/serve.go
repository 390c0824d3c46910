package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/duration"
	"github.com/kymogram/kymogram/internal/platform"
	"github.com/kymogram/kymogram/server/internal/config"
	"github.com/kymogram/kymogram/server/internal/progress"
	"github.com/kymogram/kymogram/server/internal/server"
)

// stopLimit is how long a stop may take in all. What is not done by then is
// not lost: it is in the log of the store, which the next start reads.
const stopLimit = 4800 * time.Millisecond

func serveCommand(io stdio) *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server and its page",
		Long: "Run the server: one address for the page, the API and the agents of training\n" +
			"processes. When it is ready it prints one line on stdout,\n" +
			"  ready http=HOST:PORT grpc=HOST:PORT\n" +
			"and on stderr, after its log, a one-time link that opens the page. SIGTERM\n" +
			"lets work under way finish and stops within 5 seconds.",
		Example: `  kymogram serve --data ~/kymogram
  kymogram serve --data /srv/kymogram --http 0.0.0.0:7070 --tls self
  kymogram serve --config /etc/kymogram/kymogram.yaml
  kymogram serve --store clickhouse://kymogram@ch.example.org:9000/kymogram \
    --catalog postgres://kymogram@db.example.org/kymogram --blob s3://my-bucket`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.load(io)
			if err != nil {
				return usageError{err}
			}
			return server.Within(cmd.Context(), stopLimit, func(ctx context.Context) error { return serve(ctx, c, io) })
		},
	}
	s.addTo(cmd, io)
	return cmd
}

func serve(ctx context.Context, c config.Config, io stdio) error {
	platform.PrivateFiles()
	log := newLog(io, c.Log.Level)
	listeners, err := server.Listen(ctx, c.HTTP, c.GRPC)
	if err != nil {
		return err
	}
	defer listeners.Close()
	n, err := openNode(ctx, c, log)
	if err != nil {
		return err
	}
	secure, err := server.OpenTLS(c, tlsFolder(c), listeners)
	if err != nil {
		return errors.Join(err, n.close())
	}
	srv, err := n.mount(listeners, secure)
	if err == nil {
		err = announce(ctx, n, srv, listeners, io)
	}
	if err == nil {
		err = n.run(ctx, srv)
	}
	return errors.Join(err, n.close())
}

func newLog(io stdio, level string) *slog.Logger {
	var l slog.Level
	_ = l.UnmarshalText([]byte(level)) // config has checked it
	return slog.New(slog.NewTextHandler(io.err, &slog.HandlerOptions{Level: l, ReplaceAttr: writtenDuration}))
}

// writtenDuration writes a duration in the log as it is written everywhere.
func writtenDuration(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(duration.Text(a.Value.Duration()))
	}
	return a
}

func tlsFolder(c config.Config) string { return filepath.Join(c.Data, "tls") }

// announce says on stderr how to reach the server and on stdout that it is ready.
func announce(ctx context.Context, n *node, srv *server.Server, l *server.Listeners, io stdio) error {
	if !n.config.NoAuth {
		if err := n.keyring.Share(ctx, n.config.Data, n.config.AdminKey, srv.Address(), io.env, n.log); err != nil {
			return err
		}
	}
	if n.config.TLS.Mode == config.TLSSelf {
		ca := filepath.Join(tlsFolder(n.config), server.CAFile)
		fmt.Fprintf(io.err, "\nTLS by a private authority. Clients trust it with SSL_CERT_FILE=%s\n"+
			"(a copy of that file on other machines); browsers import it as an authority.\n", ca)
	}
	if n.config.NoAuth {
		fmt.Fprintf(io.err, "\nOpen %s\nNo key is needed: whoever reaches this address may do everything.\n\n", srv.Address())
	} else {
		fmt.Fprintf(io.err, "\nOpen %s\n(good once, for 15 minutes; kymogram key link makes another)\n\n", srv.LoginLink())
	}
	if err := greet(ctx, n, srv.Address(), io); err != nil {
		return err
	}
	n.log.Info("serving", "version", version, "http", l.HTTP(), "grpc", l.GRPC(), "data", n.config.Data)
	_, err := fmt.Fprintf(io.out, "ready http=%s grpc=%s\n", l.HTTP(), l.GRPC())
	return err
}

// greet shows a person whose server is empty the lines that change it. They need no key here:
// the server has just put it where the user's programs find it.
func greet(ctx context.Context, n *node, address string, io stdio) error {
	if !progress.IsTerminal(io.err) {
		return nil
	}
	projects, _, err := n.catalog.ListProjects(ctx, 1, "")
	if err != nil || len(projects) > 0 {
		return err
	}
	fmt.Fprintf(io.err, `Nothing is logged yet. In Python:

import kymogram
kymogram.init(server=%q, project_name="first")
for step in range(100):
    kymogram.log("loss", 1 / (step + 1), step=step)
kymogram.close()

On another machine run: kymogram login LINK, with a link of kymogram key link

`, address)
	return nil
}
