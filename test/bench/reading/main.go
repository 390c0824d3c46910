//go:build linux

// Command reading fetches a series with the Go readers: reading ADDRESS RUN WAY, of which
// WAY is record, chunks or points. It prints the points, the processor time in seconds and
// the peak of its memory above what it had before, in MB. test/bench/reading.py runs it.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/kymogram/kymogram/read"
	"github.com/kymogram/kymogram/read/record"
)

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "reading:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, server, name, way string) error {
	client, err := read.Dial(server, "")
	if err != nil {
		return err
	}
	from, err := client.Run(ctx, name)
	if err != nil {
		return err
	}
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // the peak begins anew
		return err
	}
	memory, before := status("VmRSS:"), processor()
	points, keep, err := fetch(ctx, from, way)
	if err != nil {
		return err
	}
	took := processor() - before
	fmt.Println(points, took.Seconds(), status("VmHWM:")-memory)
	_ = keep
	return nil
}

// fetch holds all points at once, as a program would that works on them.
func fetch(ctx context.Context, from *read.Run, way string) (points int64, keep any, err error) {
	switch way {
	case "record":
		var batches []arrow.RecordBatch
		for batch, err := range record.Batches(from.Arrow(ctx, "loss", 100_000)) {
			if err != nil {
				return 0, nil, err
			}
			batch.Retain()
			batches, points = append(batches, batch), points+batch.NumRows()
		}
		return points, batches, nil
	case "chunks":
		var chunks []*read.Chunk
		for chunk, err := range from.Chunks(ctx, "loss", 100_000) {
			if err != nil {
				return 0, nil, err
			}
			chunks, points = append(chunks, chunk), points+int64(chunk.Rows())
		}
		return points, chunks, nil
	}
	for _, err := range from.Points(ctx, "loss") { // one at a time
		if err != nil {
			return 0, nil, err
		}
		points++
	}
	return points, nil, nil
}

func processor() time.Duration {
	var used unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// status is a figure of this process in MB.
func status(name string) float64 {
	text, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); fields[0] == name {
			kib, _ := strconv.ParseFloat(fields[1], 64)
			return kib * 1024 / 1e6
		}
	}
	return 0
}
