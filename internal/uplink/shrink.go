package uplink

import (
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
)

// reasonLarge is the ledger's word for a record that is too large for the server.
const reasonLarge = "too_large"

// shrinkage is how much smaller batches get when the server finds one too large.
const shrinkage = 32

// isTooLarge reports whether the server, or gRPC before it, found a message too large.
func isTooLarge(err error) bool {
	s, ok := status.FromError(err)
	return ok && s.Code() == codes.ResourceExhausted && (strings.Contains(s.Message(), "larger than max") || strings.HasPrefix(s.Message(), string(model.CodeTooLarge)))
}

// shrink makes batches smaller after one that was too large, down to one record. A record
// that is too large alone is kept in rejected/, so that those after it arrive.
func (d *delivery) shrink(cause error) error {
	size := paceOf(d.open.Pace).bytes
	if d.most > 0 {
		size = d.most
	}
	if size > 1 {
		d.most = max(size/shrinkage, 1)
		return nil
	}
	d.most = 0
	return d.rejectNext(cause)
}

// rejectNext gives up the first record after the mark that holds anything: a batch is
// never too large for a definition of a series.
func (d *delivery) rejectNext(cause error) error {
	tail, err := spool.OpenTail(d.dir, d.id, d.counters().Mark+1, true)
	if err != nil {
		return err
	}
	defer tail.Close()
	var r spool.Record
	for r.Type == 0 || r.Type == spool.TypeSeries {
		if progress, err := tail.Next(&r); err != nil || progress != spool.Got {
			return err
		}
	}
	if err := d.folder.Reject(d.id, []spool.Rejected{{Seq: r.Seq, Code: model.CodeTooLarge, Message: cause.Error(), Record: tail.Payload}}); err != nil {
		return err
	}
	d.tooLarge = r.Seq
	d.count(func(p *spool.Page) { p.Refused += uint64(r.Points()) })
	d.log.Warn("a record is too large for the server; it is kept in rejected/", "writer", d.id, "sequence", r.Seq, "error", cause)
	return nil
}
