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
	"github.com/kymogram/kymogram/internal/model"
)

// Print tells of what was done; of a failure the error does.
func (d Document) Print(w io.Writer) error {
	switch out := d.Done; {
	case d.err != nil:
	case out == nil:
		fmt.Fprintf(w, "served for %s\n", d.hotkey)
	case out.AlreadyServed:
		fmt.Fprintf(w, "%s is registered already: %s\n", d.hotkey, describeInfo(out.Info))
	case out.Info != nil:
		fmt.Fprintf(w, "registered %s: %s\n", d.hotkey, describeInfo(out.Info))
	default:
		fmt.Fprintf(w, "sent as %s; kymogram chain status shows what became of it\n", out.Extrinsic)
	}
	return nil
}

// Err is why it failed.
func (d Document) Err() error { return d.err }

// Record is what the chain knows of one hotkey.
type Record struct {
	Hotkey string                `json:"hotkey"`
	Info   *chain.PrometheusInfo `json:"info"`
	Netuid int                   `json:"netuid"`
}

// Print shows it; no record is an error.
func (r Record) Print(w io.Writer) error {
	if r.Info == nil {
		return model.Errorf(model.CodeNotFound, "%s has no record in subnet %d", r.Hotkey, r.Netuid).
			WithHint("kymogram chain serve makes one")
	}
	_, err := fmt.Fprintf(w, "%s in subnet %d: %s\n", r.Hotkey, r.Netuid, describeInfo(r.Info))
	return err
}

func describeInfo(info *chain.PrometheusInfo) string {
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

// warnings leaves all else out of a log.
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
