package doctor

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/kymogram/kymogram/internal/duration"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/internal/uplink"
)

func (d *Diagnosis) checkServer(ctx context.Context, q Question, folder *spool.Folder) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	address, key := q.Server, cmp.Or(q.Key, q.Env("KYMOGRAM_API_KEY"))
	if key == "" && folder != nil {
		found, err := uplink.FindKey(folder, address, q.Env)
		if err != nil {
			d.add("key", "", err)
		}
		key = found
	}
	server, err := uplink.NewServer(address, key)
	if err != nil {
		d.add("server", "", err)
		return
	}
	began := time.Now()
	info, err := server.Info(ctx)
	took := time.Since(began)
	if err != nil {
		err = unreachable(address, err)
	}
	d.add("server", fmt.Sprintf("%s answers in %s: version %s, gRPC at %s", address, duration.Text(took.Round(time.Millisecond)), info.Version, info.GRPC), err)
	if err != nil {
		return
	}
	d.checkClock(info, began, took)
	if d.checkKey(ctx, server, info, key) {
		d.checkStore(ctx, &remote.Client{Base: address, Key: key, Flag: "--server"}, q.Recovered)
	}
}

func unreachable(address string, err error) error {
	e := model.Errorf(model.CodeUnavailable, "%s: %v", address, err)
	var stranger x509.UnknownAuthorityError
	if errors.As(err, &stranger) {
		return e.WithHint("set SSL_CERT_FILE to the server's authority, DATA/tls/ca.pem with `kymogram serve --tls self`")
	}
	return e.WithHint("start it with `kymogram serve`, or name another with --server or KYMOGRAM_SERVER")
}

// checkClock compares the clocks at the middle of the question.
func (d *Diagnosis) checkClock(info uplink.Info, began time.Time, took time.Duration) {
	skew := time.Unix(0, info.TimeNs).Sub(began.Add(took / 2))
	var err error
	if skew.Abs() > maxSkew+took {
		err = model.Errorf(model.CodeInvalid, "this clock and the server's differ by %s", duration.Text(skew.Round(time.Millisecond))).
			WithHint("set the clock (NTP): points carry this machine's time")
	}
	d.add("clock", fmt.Sprintf("differs by %s from the server's", duration.Text(skew.Round(time.Millisecond))), err)
}

// checkKey reports whether the key may read.
func (d *Diagnosis) checkKey(ctx context.Context, server *uplink.Server, info uplink.Info, key string) bool {
	err := server.CheckKey(ctx)
	switch {
	case err == nil && !info.Auth:
		d.add("key", "the server asks for none", nil)
	case err == nil:
		d.add("key", "accepted", nil)
	case model.CodeOf(err) == model.CodePermission:
		d.add("key", "accepted for other things than reading", nil)
	case key == "":
		d.add("key", "", model.Errorf(model.CodeUnauthenticated, "there is no key for this server").
			WithHint("sign in with `kymogram login ADDRESS`, or set KYMOGRAM_API_KEY"))
	default:
		d.add("key", "", err)
	}
	return err == nil
}
