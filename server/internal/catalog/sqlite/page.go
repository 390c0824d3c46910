package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"

	"github.com/kymogram/kymogram/server/internal/catalog/mirror"
	"github.com/kymogram/kymogram/server/internal/catalog/still"
)

// Every page of the database's file ends with a checksum over its bytes and its
// number. SQLite keeps the place free (reserved bytes of its format); vfs.go fills
// it in and compares. docs/format/catalog.md has the bytes.
const (
	pageSize = 4096
	sumSize  = 8
	// sumless is the page that holds SQLite's locks; it is never written.
	sumless = 1<<30/pageSize + 1
)

const magic = "SQLite format 3\x00"

// seal writes the checksum into the end of a page.
func seal(page []byte, number uint32) {
	end := page[pageSize-sumSize:]
	binary.LittleEndian.PutUint32(end[4:], number)
	binary.LittleEndian.PutUint32(end, sum(page))
}

// sealed reports whether a page is the one that was written under its number.
func sealed(page []byte, number uint32) bool {
	end := page[pageSize-sumSize:]
	return binary.LittleEndian.Uint32(end[4:]) == number && binary.LittleEndian.Uint32(end) == sum(page)
}

// sum is over the bytes before it and the number behind it.
func sum(page []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(page[:pageSize-sumSize], table), table, page[pageSize-4:])
}

// emptyFile is the first page of a database without tables, with room for checksums.
func emptyFile() []byte {
	page := make([]byte, pageSize)
	copy(page, magic)
	binary.BigEndian.PutUint16(page[16:], pageSize)
	copy(page[18:], []byte{1, 1, sumSize, 64, 32, 32}) // a rollback journal; payload fractions
	binary.BigEndian.PutUint32(page[28:], 1)           // pages
	binary.BigEndian.PutUint32(page[44:], 4)           // schema format
	binary.BigEndian.PutUint32(page[56:], 1)           // UTF-8
	page[100] = 13                                     // a leaf without cells
	binary.BigEndian.PutUint16(page[105:], pageSize-sumSize)
	seal(page, 1)
	return page
}

// paged says what a database's file is.
type paged struct {
	missing bool
	plain   bool     // as SQLite writes it, by a version of Kymogram before checksums
	bad     []uint32 // pages that are not what was written
	noise   bool     // no database, or cut
}

func (p *paged) whole() bool { return !p.missing && !p.noise && len(p.bad) == 0 }

// String names the damage.
func (p *paged) String() string {
	switch {
	case p.missing:
		return "the file is missing"
	case p.noise:
		return "the file is not a whole database"
	}
	return fmt.Sprintf("%d pages are not as they were written, the first is page %d", len(p.bad), p.bad[0])
}

// readTries is how often a page that a server may just be writing is read.
const readTries = 5

// checkTries is how often a file that others change meanwhile is read.
const checkTries = 3

// checkPages reads every page of a file with its log over it, as SQLite would.
func checkPages(path string) (out *paged, err error) {
	for range checkTries {
		f, err := still.Open(path)
		if errors.Is(err, os.ErrNotExist) {
			return &paged{missing: true}, nil
		}
		if err != nil {
			return nil, err
		}
		c := &pageCheck{file: f, pages: uint32(f.Size() / pageSize)}
		if err = c.run(); err == nil {
			err = c.excuse(path)
		}
		changed := f.Changed()
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		if out = c.result(); !changed || out.whole() {
			break
		}
	}
	return out, nil
}

// intact judges a page of the file.
func intact(page []byte, number uint32) bool { return number == sumless || sealed(page, number) }

// isPlain reports whether a file has no checksums, by its first page.
func isPlain(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	page := make([]byte, pageSize)
	if n, err := f.ReadAt(page, 0); n < pageSize {
		return false, err
	}
	return string(page[:len(magic)]) == magic && page[20] == 0 && binary.LittleEndian.Uint32(page[pageSize-4:]) != 1, nil
}

type pageCheck struct {
	file   *still.File
	pages  uint32
	head   [100]byte
	good   int
	bad    []uint32
	under  []uint32 // bad ones that the log has as they should be
	zeroed []uint32
}

// excuse passes over half a page that a crash left as the file took over its log.
func (c *pageCheck) excuse(path string) error {
	if len(c.under) == 0 {
		return nil
	}
	s, err := mirror.Read(mirrorDir(path), nil, nil)
	if err == nil && !s.Unfinished {
		c.bad = append(c.bad, c.under...)
	}
	return err
}

// chunk is how much is read at once.
const chunk = 256 * pageSize

func (c *pageCheck) run() error {
	if _, err := c.file.ReadAt(c.head[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	buf := make([]byte, chunk)
	for first := uint32(0); first < c.pages; first += chunk / pageSize {
		n, err := c.file.ReadUnder(buf, int64(first)*pageSize)
		if err != nil {
			return err
		}
		for at := 0; at+pageSize <= n; at += pageSize {
			if err := c.page(buf[at:at+pageSize], first+uint32(at/pageSize)+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// page judges a page of the file, also one that the log has, too: a server reads it once
// the log was taken over.
func (c *pageCheck) page(page []byte, number uint32) error {
	for range readTries {
		if intact(page, number) {
			c.good++
			return nil
		}
		if _, err := c.file.ReadUnder(page, int64(number-1)*pageSize); err != nil {
			return err
		}
	}
	switch logged, zeroed := c.file.Logged(number), bytes.Count(page, []byte{0}) == pageSize; {
	case logged && zeroed: // not taken over yet
	case logged:
		c.under = append(c.under, number)
	case zeroed:
		c.zeroed = append(c.zeroed, number)
	default:
		c.bad = append(c.bad, number)
	}
	return nil
}

func (c *pageCheck) result() *paged {
	known := string(c.head[:len(magic)]) == magic
	if known && c.good == 0 && c.head[20] != sumSize {
		return &paged{plain: true}
	}
	// SQLite does not write a page that it frees before it first writes it.
	free := c.freePages()
	for _, number := range c.zeroed {
		if !slices.Contains(free, number) {
			c.bad = append(c.bad, number)
		}
	}
	promised := binary.BigEndian.Uint32(c.head[28:])
	c.bad = slices.DeleteFunc(c.bad, func(number uint32) bool { return number > promised && known }) // behind the end
	slices.Sort(c.bad)
	return &paged{bad: c.bad, noise: !known || c.pages < promised}
}

// freePages lists the pages without content: a chain of pages that name them.
func (c *pageCheck) freePages() (free []uint32) {
	page := make([]byte, pageSize)
	next := binary.BigEndian.Uint32(c.head[32:])
	for range c.pages {
		if next == 0 || next > c.pages {
			break
		}
		if _, err := c.file.ReadAt(page, int64(next-1)*pageSize); err != nil {
			break
		}
		next = binary.BigEndian.Uint32(page)
		for i := range min(int(binary.BigEndian.Uint32(page[4:])), (pageSize-sumSize)/4-2) {
			free = append(free, binary.BigEndian.Uint32(page[8+4*i:]))
		}
	}
	return free
}
