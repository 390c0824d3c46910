// Package participant drives a [netstate.Node] for a program in another language:
// kymogram.netstate of Python runs it as a child process.
//
// One JSON object a line goes in: {"id", "method", "params"}; one comes out for each,
// in order: {"id", "result"} or {"id", "error": {"code", "message", "hint"}}. The
// first method is join. A key that is not on disk stays with the parent: then
// {"sign": HEX} comes out in the midst of a call, and {"signature": HEX} is awaited.
// When the input ends, the run is closed.
//
// What holds: one call at a time; a call that fails ends nothing; secrets are in no
// message but the parent's own. Start at [Serve]; methods.go lists the methods.
package participant

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wallet"
	"github.com/kymogram/kymogram/netstate"
)

// Options are what code sets.
type Options struct {
	// OpenDb opens the local database, with the driver of the program.
	OpenDb func(ctx context.Context, path string) (*netstate.ComputeDb, error)
	// Password is asked for a key file that is encrypted; nil refuses those.
	Password func() (string, error)
	// Inventory reads what the machine has.
	Inventory func(ctx context.Context) (netstate.Inventory, error)
	Log       *slog.Logger
}

type request struct {
	ID     int64           `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

type response struct {
	ID     int64        `json:"id"`
	Result any          `json:"result"`
	Error  *model.Error `json:"error,omitempty"`
}

// session is one parent's node.
type session struct {
	opts  Options
	lines *bufio.Reader
	out   *json.Encoder
	db    *netstate.ComputeDb
	chain *chain.Subtensor
	node  *netstate.Node
	stop  context.CancelFunc
	fresh chan struct{} // closed when the signing anew has ended
}

// Serve answers until the input ends, and closes the run then.
func Serve(ctx context.Context, in io.Reader, out io.Writer, opts Options) error {
	s := &session{opts: opts, lines: bufio.NewReader(in), out: json.NewEncoder(out)}
	err := s.answerAll(ctx)
	return errors.Join(err, s.end(context.WithoutCancel(ctx)))
}

func (s *session) answerAll(ctx context.Context) error {
	for {
		var r request
		if err := s.read(&r); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		answer := response{ID: r.ID}
		var err error
		if answer.Result, err = s.call(ctx, r.Method, r.Params); err != nil {
			answer.Result, answer.Error = nil, shape(err)
		}
		if err := s.out.Encode(answer); err != nil {
			return fmt.Errorf("answer the parent: %w", err)
		}
	}
}

func (s *session) read(into any) error {
	line, err := s.lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, into); err != nil {
		return fmt.Errorf("the parent's line is not JSON: %w", err)
	}
	return nil
}

func shape(err error) *model.Error {
	var known *model.Error
	if errors.As(err, &known) {
		out := *known
		out.Message = err.Error()
		return &out
	}
	return model.Errorf(model.CodeInternal, "%v", err)
}

func (s *session) end(ctx context.Context) error {
	if s.stop != nil {
		s.stop()
		<-s.fresh
	}
	var errs []error
	if s.node != nil {
		errs = append(errs, s.node.Close(ctx))
	}
	if s.chain != nil {
		s.chain.Close()
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	return errors.Join(errs...)
}

// parent is a key that the parent holds.
type parent struct {
	session *session
	account wallet.Account
}

func (p *parent) Account() wallet.Account { return p.account }

func (p *parent) Sign(message []byte) (signature [wallet.SignatureBytes]byte, err error) {
	if err := p.session.out.Encode(map[string]string{"sign": hex.EncodeToString(message)}); err != nil {
		return signature, fmt.Errorf("ask the parent to sign: %w", err)
	}
	var answer struct{ Signature string }
	if err := p.session.read(&answer); err != nil {
		return signature, fmt.Errorf("read the parent's signature: %w", err)
	}
	raw, err := hex.DecodeString(answer.Signature)
	if err != nil || len(raw) != len(signature) {
		return signature, model.Errorf(model.CodeInvalid, "the parent did not sign")
	}
	return [wallet.SignatureBytes]byte(raw), nil
}
