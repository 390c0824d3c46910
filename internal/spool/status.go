package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/platform"
)

const (
	statusMagic = "KYMSTAT1"
	statusSize  = 4096
	// Alive is how young a heartbeat is while its deliverer lives.
	Alive = 3 * time.Second

	maxErrorText = 1024
	maxAnswer    = 2900
	answerAt     = 1104
	tallyAt      = 4008
)

// DeliveryState is what the deliverer is doing with a writer.
type DeliveryState uint32

// The states of a delivery.
const (
	StateNone       DeliveryState = 0
	StateConnecting DeliveryState = 1
	StateConnected  DeliveryState = 2
	StateWaiting    DeliveryState = 3 // to try again
	StateRefused    DeliveryState = 4 // key or rights
	StateDelivered  DeliveryState = 5 // and closed
)

// Status is a writer's status page. The deliverer sets its fields, each with one
// aligned write; the writer reads them.
type Status struct{ f *os.File }

// Page is a copy of a status page.
type Page struct {
	HeartbeatNs int64
	Mark        uint64
	Acked       uint64
	Refused     uint64
	Batches     uint64
	Connections uint64
	Errors      uint64
	State       DeliveryState
	Error       string
	Answer      []byte // JSON of model.OpenResult without starts
	// Sent is what of the acked and passed records was stored, by kind.
	Sent Tally
	// GivenUp is the last sequence that was given up after its last try; points
	// up to it are not sent any more. Dropped counts them.
	GivenUp uint64
	Dropped Tally
	// Failures counts the tries in a row that failed.
	Failures uint64
	// Shared counts the entries of [ReadShared].
	Shared uint64
}

// Delivering reports whether a deliverer is alive. A heartbeat far in the future
// was written before the clock was set back.
func (p *Page) Delivering(now time.Time) bool {
	return now.Sub(time.Unix(0, p.HeartbeatNs)).Abs() < Alive
}

func createStatus(path string) (*Status, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|platform.NoFollow, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make status page: %w", err)
	}
	page := make([]byte, statusSize)
	copy(page, statusMagic)
	if _, err := f.WriteAt(page, 0); err != nil {
		f.Close()
		return nil, fmt.Errorf("write status page: %w", err)
	}
	return &Status{f}, nil
}

// OpenStatus opens the status page of a writer's folder.
func OpenStatus(dir string) (*Status, error) {
	f, err := os.OpenFile(dir+"/status", os.O_RDWR|platform.NoFollow, 0)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		f, err = os.OpenFile(dir+"/status", os.O_RDONLY|platform.NoFollow, 0) // enough to look at it
	}
	if err != nil {
		return nil, fmt.Errorf("open status page: %w", err)
	}
	s := &Status{f}
	if info, err := f.Stat(); err != nil || info.Size() < statusSize {
		f.Close()
		return nil, errors.Join(fmt.Errorf("status page %s is too short", f.Name()), err)
	}
	return s, nil
}

// Close closes the page.
func (s *Status) Close() error { return s.f.Close() }

// Read copies the page.
func (s *Status) Read() (Page, error) {
	b := make([]byte, statusSize)
	if _, err := io.ReadFull(io.NewSectionReader(s.f, 0, statusSize), b); err != nil {
		return Page{}, fmt.Errorf("read status page: %w", err)
	}
	if string(b[:8]) != statusMagic {
		return Page{}, errors.New("read status page: it is damaged")
	}
	u64 := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	p := Page{
		HeartbeatNs: int64(u64(8)), Mark: u64(16), Acked: u64(24), Refused: u64(32),
		Batches: u64(40), Connections: u64(48), Errors: u64(56),
		State: DeliveryState(binary.LittleEndian.Uint32(b[64:])),
	}
	for i, field := range p.tallied() {
		*field = u64(tallyAt + 8*i)
	}
	p.Error = strings.ToValidUTF8(string(textAt(b, 68, maxErrorText)), "")
	p.Answer = textAt(b, answerAt, maxAnswer)
	return p, nil
}

// textAt reads a length and its text.
func textAt(b []byte, at, limit int) []byte {
	n := min(int(binary.LittleEndian.Uint32(b[at:])), limit)
	return b[at+4 : at+4+n]
}

func (s *Status) put64(at int64, v uint64) error {
	if _, err := s.f.WriteAt(binary.LittleEndian.AppendUint64(nil, v), at); err != nil {
		return fmt.Errorf("write status page: %w", err)
	}
	return nil
}

func (s *Status) put32(at int64, v uint32) error {
	if _, err := s.f.WriteAt(binary.LittleEndian.AppendUint32(nil, v), at); err != nil {
		return fmt.Errorf("write status page: %w", err)
	}
	return nil
}

// putText stores a text, then its length.
func (s *Status) putText(at int64, text []byte) error {
	if _, err := s.f.WriteAt(text, at+4); err != nil {
		return fmt.Errorf("write status page: %w", err)
	}
	return s.put32(at, uint32(len(text)))
}

// Heartbeat says that the deliverer lives.
func (s *Status) Heartbeat(now time.Time) error { return s.put64(8, uint64(now.UnixNano())) }

// SetMark says up to where everything is stored or refused for good.
func (s *Status) SetMark(mark uint64) error { return s.put64(16, mark) }

// SetCounts stores the counters of a page: acked, refused, batches, connections
// and errors.
func (s *Status) SetCounts(p Page) error {
	for i, v := range []uint64{p.Acked, p.Refused, p.Batches, p.Connections, p.Errors} {
		if err := s.put64(int64(24+8*i), v); err != nil {
			return err
		}
	}
	return nil
}

// tallied are the fields from tallyAt on.
func (p *Page) tallied() []*uint64 {
	return []*uint64{
		&p.Sent.Points, &p.Sent.RL, &p.Sent.Attributes, &p.Sent.Envs,
		&p.GivenUp, &p.Dropped.Points, &p.Dropped.RL, &p.Failures, &p.Shared,
	}
}

// SetTallies stores what was sent and dropped by kind, the failures and how many
// environments are shared.
func (s *Status) SetTallies(p Page) error {
	for i, field := range p.tallied() {
		if err := s.put64(int64(tallyAt+8*i), *field); err != nil {
			return err
		}
	}
	return nil
}

// SetState stores the state and, when text is not empty, the last error.
func (s *Status) SetState(state DeliveryState, text string) error {
	if text != "" {
		if err := s.putText(68, []byte(shorten(text, maxErrorText))); err != nil {
			return err
		}
	}
	return s.put32(64, uint32(state))
}

// shorten cuts a text at a rune, so that n bytes hold it.
func shorten(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "")
}

// SetAnswer stores the answer to the open; one that is too long is left out.
func (s *Status) SetAnswer(doc []byte) error {
	if len(doc) > maxAnswer {
		return nil
	}
	return s.putText(answerAt, doc)
}
