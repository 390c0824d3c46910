package main

import (
	"encoding/binary"
	"math"

	"github.com/klauspost/compress/s2"
)

// remoteBody is a block as a remote write 1.0 request, as Prometheus sends it:
// one sample a TimeSeries, every sample of a scrape after the other.
func remoteBody(scratch []byte, b *block) (body, grown []byte) {
	scratch = scratch[:0]
	labels := make([][]byte, len(b.names))
	for i, name := range b.names {
		for _, l := range [][2]string{{"__name__", measurement + "_" + name}, {"instance", "node-0:9100"}, {"job", "train"}, {"run", b.run}} {
			labels[i] = append(labels[i], 0x0a, byte(4+len(l[0])+len(l[1])), 0x0a, byte(len(l[0])))
			labels[i] = append(labels[i], l[0]...)
			labels[i] = append(labels[i], 0x12, byte(len(l[1])))
			labels[i] = append(labels[i], l[1]...)
		}
	}
	var sample []byte
	for row, ns := range b.timeNs {
		for i := range b.names {
			sample = append(sample[:0], 0x09)
			sample = binary.LittleEndian.AppendUint64(sample, math.Float64bits(b.columns[i][row]))
			sample = append(sample, 0x10)
			sample = binary.AppendUvarint(sample, uint64(ns/1_000_000))
			scratch = append(scratch, 0x0a)
			scratch = binary.AppendUvarint(scratch, uint64(len(labels[i])+2+len(sample)))
			scratch = append(scratch, labels[i]...)
			scratch = append(scratch, 0x12, byte(len(sample)))
			scratch = append(scratch, sample...)
		}
	}
	return s2.EncodeSnappy(nil, scratch), scratch
}
