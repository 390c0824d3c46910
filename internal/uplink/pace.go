package uplink

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"

	"github.com/kymogram/kymogram/internal/spool"
)

const (
	// leastBytes keeps a batch worth its message.
	leastBytes = 4 << 10
	// mostInFlight bounds the memory that a writer's unanswered batches take.
	mostInFlight = 256
	// videosAtOnce is for a writer that does not say, mostVideos for one that does.
	videosAtOnce = 4
	mostVideos   = 16
	shortest     = time.Millisecond
)

// pace is a writer's [spool.Pace] within what the protocol allows.
type pace struct {
	bytes       int
	linger      time.Duration
	inFlight    int
	first, last time.Duration // wait between two tries
	options     []grpc.CallOption
	videos      int // uploads at once
}

// paceOf fills in what a writer leaves open. The encoded form of a batch is up
// to four times its size in the spool and gRPC takes 4 MiB, hence the upper end.
func paceOf(p *spool.Pace) pace {
	out := pace{bytes: batchBytes, linger: linger, inFlight: inFlight, first: firstBackoff, last: lastBackoff, videos: videosAtOnce}
	if p == nil {
		return out
	}
	if p.MaxBytes > 0 {
		out.bytes = min(max(p.MaxBytes, leastBytes), batchBytes)
	}
	if p.MaxPending > 0 {
		out.inFlight = min(p.MaxPending, mostInFlight)
	}
	if p.RenderingUploads > 0 {
		out.videos = min(p.RenderingUploads, mostVideos)
	}
	if p.BatchAgeMs > 0 {
		out.linger = time.Duration(p.BatchAgeMs) * time.Millisecond
	}
	if p.FirstBackoffMs > 0 {
		out.first = max(time.Duration(p.FirstBackoffMs)*time.Millisecond, shortest)
	}
	if p.LastBackoffMs > 0 {
		out.last = max(time.Duration(p.LastBackoffMs)*time.Millisecond, out.first)
	}
	if p.Compression == "zstd" && encoding.GetCompressor("zstd") != nil {
		out.options = append(out.options, grpc.UseCompressor("zstd"))
	}
	return out
}
