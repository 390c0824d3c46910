package importer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/klauspost/compress/zstd"

	"github.com/kymogram/kymogram/internal/model"
)

const (
	// maxFooter and maxRecords bound what the library makes of a footer: some 25 bytes of
	// memory for each of its own, and up to 300 for a record of it that is empty.
	maxFooter  = 16 << 20
	maxRecords = 1 << 20
	maxPage    = 256 << 20
	// freeRows and rowRatio bound the rows of a file by its bytes: a run of one value
	// takes none.
	freeRows = 1 << 20
	rowRatio = 100
	headRead = 64 << 10 // a header with statistics of long texts
)

// checkParquet looks at the ends and the footer before the library does, which trusts
// the lengths of lists there.
func checkParquet(f *reading) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	var head [4]byte
	var tail [8]byte
	if size < 12 {
		return model.Errorf(model.CodeInvalid, "it is no Parquet file: it has %d bytes", size)
	}
	_, errHead := f.ReadAt(head[:], 0)
	_, errTail := f.ReadAt(tail[:], size-8)
	if err := errors.Join(errHead, errTail); err != nil {
		return err
	}
	footer := int64(binary.LittleEndian.Uint32(tail[:]))
	switch {
	case string(head[:]) == "PARE" || string(tail[4:]) == "PARE":
		return model.Errorf(model.CodeInvalid, "it is an encrypted Parquet file, which is not read").WithHint("write it anew without encryption")
	case string(head[:]) != "PAR1":
		return model.Errorf(model.CodeInvalid, "it is no Parquet file: it does not begin as one")
	case string(tail[4:]) != "PAR1":
		return model.Errorf(model.CodeInvalid, "the Parquet file is cut off: its end is missing")
	case footer > size-12:
		return model.Errorf(model.CodeInvalid, "the Parquet file is damaged: its footer has %d bytes", footer)
	case footer > maxFooter:
		return model.Errorf(model.CodeInvalid, "the footer of the Parquet file has %d MiB, at most %d are read", footer>>20, maxFooter>>20).
			WithHint("write it anew with larger row groups, or with fewer columns")
	}
	text := make([]byte, footer)
	if _, err := f.ReadAt(text, size-8-footer); err != nil {
		return err
	}
	if _, err := (&compact{rest: text}).record(0, nil); err != nil {
		return model.Errorf(model.CodeInvalid, "the Parquet file is damaged: its footer %v", err)
	}
	return nil
}

// checkPages looks at the head of each page: what its content expands to, and how many
// values it says it has.
func checkPages(f *reading, r *file.Reader) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	most := freeRows + rowRatio*info.Size()
	if r.NumRows() > most {
		return model.Errorf(model.CodeInvalid, "the Parquet file says that it has %d rows in %d bytes, at most %d are read", r.NumRows(), info.Size(), most)
	}
	for g := range r.NumRowGroups() {
		group := r.MetaData().RowGroup(g)
		if rows := group.NumRows(); rows < 0 || rows > r.NumRows() {
			return model.Errorf(model.CodeInvalid, "the Parquet file is damaged: a part has %d of %d rows", rows, r.NumRows())
		}
		for i := range group.NumColumns() {
			column, err := group.ColumnChunk(i)
			if err != nil {
				return model.Errorf(model.CodeInvalid, "the Parquet file is damaged: %v", err)
			}
			if column.CryptoMetadata() != nil {
				return model.Errorf(model.CodeInvalid, "the Parquet file has encrypted columns, which are not read").WithHint("write it anew without encryption")
			}
			from := column.DataPageOffset()
			if column.HasDictionaryPage() && column.DictionaryPageOffset() > 0 {
				from = min(from, column.DictionaryPageOffset())
			}
			if err := checkColumn(f, from, column.TotalCompressedSize(), info.Size(), column.Compression()); err != nil {
				return model.Errorf(model.CodeInvalid, "the Parquet file is damaged: part %d, column %d: %v", g+1, i+1, err)
			}
		}
	}
	return nil
}

func checkColumn(f *reading, from, length, size int64, codec compress.Compression) error {
	if from < 4 || length < 0 || from > size || length > size-from {
		return errors.New("it lies outside the file")
	}
	buffer := make([]byte, headRead)
	for at := from; at < from+length; {
		n, err := f.ReadAt(buffer[:min(headRead, from+length-at)], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		parser := &compact{rest: buffer[:n]}
		page, err := readPageHead(parser)
		if err != nil {
			return err
		}
		head := int64(n - len(parser.rest))
		if page.expanded < 0 || page.packed < 0 || page.expanded > maxPage || page.packed > from+length-at-head || page.levels < 0 || page.levels > page.packed {
			return errors.New("the length of a page is wrong")
		}
		content := parser.rest[:min(page.packed, int64(len(parser.rest)))]
		if content = content[min(page.levels, int64(len(content))):]; page.plain {
			content = nil
		}
		if says := contentSize(content, codec); says > page.expanded-page.levels {
			return errors.New("a page expands to more than it says")
		}
		at += head + page.packed
	}
	return nil
}

// pageHead is what a page says of itself.
type pageHead struct {
	expanded, packed int64
	levels           int64 // bytes at its begin that are not compressed; in pages of version 2
	plain            bool  // nothing of it is
}

// readPageHead reads uncompressed_page_size 2, compressed_page_size 3, data_page_header_v2 8
// with the bytes of levels 5 and 6 and is_compressed 7.
func readPageHead(parser *compact) (pageHead, error) {
	page := pageHead{expanded: -1, packed: -1}
	_, err := parser.record(0, func(path [2]int16, value int64) {
		switch path {
		case [2]int16{2}:
			page.expanded = value
		case [2]int16{3}:
			page.packed = value
		case [2]int16{8, 5}, [2]int16{8, 6}:
			if page.levels += value; value < 0 || value > maxPage {
				page.levels = maxPage + 1
			}
		case [2]int16{8, 7}:
			page.plain = value == 0
		}
	})
	return page, err
}

// contentSize is what compressed bytes say of their own size; the library makes room for it.
func contentSize(b []byte, codec compress.Compression) int64 {
	switch codec {
	case compress.Codecs.Snappy:
		n, _ := binary.Uvarint(b)
		return int64(min(n, 1<<40))
	case compress.Codecs.Zstd:
		var head zstd.Header
		if err := head.Decode(b); err == nil && head.HasFCS {
			return int64(min(head.FrameContentSize, 1<<40))
		}
	}
	return 0
}

// compact walks Thrift's compact protocol and checks that what it counts is there.
type compact struct {
	rest    []byte
	records int // that were read
}

var (
	errCut  = errors.New("ends within a value")
	errDeep = errors.New("is nested too deep")
	errMany = fmt.Errorf("has more than %d records", maxRecords)
)

func (c *compact) varint() (uint64, error) {
	v, n := binary.Uvarint(c.rest)
	if n <= 0 {
		return 0, errCut
	}
	c.rest = c.rest[n:]
	return v, nil
}

func (c *compact) skip(n uint64) error {
	if n > uint64(len(c.rest)) {
		return errCut
	}
	c.rest = c.rest[n:]
	return nil
}

// teller is told of an integer or a bool: of the field where it lies, and of the one in it.
type teller func(path [2]int16, value int64)

// record reads a structure, and the structures in it. It calls tell for each of their integers.
func (c *compact) record(depth int, tell teller) (int, error) {
	if depth > maxDepth {
		return 0, errDeep
	}
	if c.records++; c.records > maxRecords {
		return 0, errMany
	}
	id := int16(0)
	for n := 0; ; n++ {
		if len(c.rest) == 0 {
			return n, errCut
		}
		head := c.rest[0]
		c.rest = c.rest[1:]
		if head == 0 {
			return n, nil
		}
		if delta := int16(head >> 4); delta > 0 {
			id += delta
		} else {
			v, err := c.varint()
			if err != nil {
				return n, err
			}
			id = int16(zigzag(v))
		}
		if err := c.value(head&0xf, false, depth, func(path [2]int16, value int64) {
			if tell != nil {
				tell([2]int16{id, path[0]}, value)
			}
		}); err != nil {
			return n, err
		}
	}
}

func zigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// value walks a value: 1, 2 bool, 3 byte, 4 to 6 integers, 7 double, 8 bytes, 9, 10 lists,
// 11 maps, 12 structures.
func (c *compact) value(kind byte, inList bool, depth int, tell teller) error {
	switch kind {
	case 1, 2:
		if inList {
			return c.skip(1)
		}
		tell([2]int16{}, int64(2-kind))
		return nil
	case 3:
		return c.skip(1)
	case 4, 5, 6:
		v, err := c.varint()
		tell([2]int16{}, zigzag(v))
		return err
	case 7:
		return c.skip(8)
	case 8:
		n, err := c.varint()
		return errors.Join(err, c.skip(n))
	case 9, 10:
		return c.list(depth)
	case 12:
		_, err := c.record(depth+1, tell)
		return err
	}
	return errors.New("holds a type that is not known")
}

func (c *compact) list(depth int) error {
	if len(c.rest) == 0 {
		return errCut
	}
	head := c.rest[0]
	c.rest = c.rest[1:]
	n := uint64(head >> 4)
	if n == 15 {
		var err error
		if n, err = c.varint(); err != nil {
			return err
		}
	}
	if n > uint64(len(c.rest)) || depth > maxDepth {
		return errCut
	}
	for range n {
		if err := c.value(head&0xf, true, depth+1, func([2]int16, int64) {}); err != nil {
			return err
		}
	}
	return nil
}
