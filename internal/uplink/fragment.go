package uplink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// maxMoof bounds the head of one fragment: a second of video needs kilobytes.
const maxMoof = 16 << 20

// wholeFragments reads a fragmented mp4 that a killed encoder left behind: size
// is where its last whole fragment ends, frames what is in there. Without a
// whole fragment both are 0.
func wholeFragments(r io.ReaderAt, length int64) (size, frames int64, err error) {
	var pending int64 // frames of a moof whose mdat is not seen yet
	started := false
	for at := int64(0); ; {
		kind, head, end, err := boxAt(r, at, length)
		if err != nil || end == 0 {
			return size, frames, err
		}
		switch kind {
		case "moov":
			started = true
		case "moof":
			if end-at > maxMoof {
				return size, frames, nil
			}
			body := make([]byte, end-at-head)
			if n, err := r.ReadAt(body, at+head); err != nil && n < len(body) {
				return 0, 0, fmt.Errorf("read fragment: %w", err)
			}
			pending = samplesIn(body)
		case "mdat":
			if started && pending > 0 {
				size, frames, pending = end, frames+pending, 0
			}
		}
		at = end
	}
}

// boxAt reads a box's head; end is 0 where no whole box is.
func boxAt(r io.ReaderAt, at, length int64) (kind string, head, end int64, err error) {
	var b [16]byte
	n, err := r.ReadAt(b[:], at)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", 0, 0, fmt.Errorf("read box: %w", err)
	}
	if n < 8 {
		return "", 0, 0, nil
	}
	size, head := int64(binary.BigEndian.Uint32(b[:])), int64(8)
	if size == 1 && n == 16 {
		size, head = int64(binary.BigEndian.Uint64(b[8:])), 16
	}
	if size < head || size > length-at {
		return "", 0, 0, nil
	}
	return string(b[4:8]), head, at + size, nil
}

// samplesIn counts the samples that a moof announces: those of all its truns.
func samplesIn(moof []byte) (n int64) {
	eachBox(moof, func(kind string, traf []byte) {
		if kind != "traf" {
			return
		}
		eachBox(traf, func(kind string, trun []byte) {
			if kind == "trun" && len(trun) >= 8 {
				n += int64(binary.BigEndian.Uint32(trun[4:]))
			}
		})
	})
	return n
}

func eachBox(b []byte, visit func(kind string, body []byte)) {
	for len(b) >= 8 {
		size := int64(binary.BigEndian.Uint32(b))
		if size < 8 || size > int64(len(b)) {
			return
		}
		visit(string(b[4:8]), b[8:size])
		b = b[size:]
	}
}
