package subnet

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strconv"
	"text/tabwriter"

	"github.com/kymogram/kymogram/chain"
)

// PrintServed tells of a registration.
func PrintServed(w io.Writer, hotkey string, out *chain.Outcome) {
	switch {
	case out.AlreadyServed:
		fmt.Fprintf(w, "%s is registered already: %s\n", hotkey, Record(out.Info))
	case out.Info != nil:
		fmt.Fprintf(w, "registered %s: %s\n", hotkey, Record(out.Info))
	default:
		fmt.Fprintf(w, "sent as %s; kymogram chain status shows what became of it\n", out.Extrinsic)
	}
}

// Record is what the chain knows of an endpoint.
func Record(info *chain.PrometheusInfo) string {
	where := fmt.Sprintf("%s (no address)", info.IP)
	if addr, ok := info.Addr(); ok {
		where = netip.AddrPortFrom(addr, info.Port).String()
	}
	return fmt.Sprintf("%s, version %d, block %d", where, info.Version, info.Block)
}

// PrintEndpoints writes the endpoints of a subnet as a table.
func PrintEndpoints(out io.Writer, l *chain.Listing) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "UID\tADDRESS\tVERSION\tAGE\tHOTKEY")
	for _, e := range l.Endpoints {
		uid := "-"
		if e.UID != nil {
			uid = strconv.Itoa(int(*e.UID))
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d blocks\t%s\n", uid, e.Address, e.Version, e.AgeBlocks, e.Hotkey)
	}
	return w.Flush()
}

// Warnings leaves errors out of a log: the command prints its own.
func Warnings(log *slog.Logger) *slog.Logger { return slog.New(warnings{log.Handler()}) }

type warnings struct{ slog.Handler }

func (h warnings) Handle(ctx context.Context, r slog.Record) error {
	if r.Level != slog.LevelWarn {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{h.Handler.WithAttrs(attrs)}
}
