package blob

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// signContext keeps these signatures apart from any other use of the secret.
const signContext = "kymogram/blob-url/v1"

// Signer makes and checks short-lived URLs: whoever holds one may do the one
// thing that it names, with the one blob, until it expires.
type Signer struct {
	secret []byte
	now    func() time.Time
}

// NewSigner uses a secret of at least 32 random bytes.
func NewSigner(secret []byte, now func() time.Time) (*Signer, error) {
	if len(secret) < 32 {
		return nil, fmt.Errorf("the secret of blob URLs has %d bytes, it needs 32", len(secret))
	}
	return &Signer{secret: secret, now: now}, nil
}

// Query is what a signed URL carries after its path.
func (s *Signer) Query(method string, h Hash, life time.Duration) (query string, expires time.Time) {
	return s.QueryOf(method, h.String(), life)
}

// Check fails unless the query was signed for this method and blob and is still
// valid.
func (s *Signer) Check(method string, h Hash, query url.Values) error {
	return s.CheckOf(method, h.String(), query)
}

// QueryOf is Query for something other than a blob: a subject that is no hash.
func (s *Signer) QueryOf(method, subject string, life time.Duration) (query string, expires time.Time) {
	expires = s.now().Add(life).Truncate(time.Second)
	unix := strconv.FormatInt(expires.Unix(), 10)
	return url.Values{"expires": {unix}, "signature": {hex.EncodeToString(s.mac(method, subject, unix))}}.Encode(), expires
}

// CheckOf is Check for what QueryOf signed.
func (s *Signer) CheckOf(method, subject string, query url.Values) error {
	given, err := hex.DecodeString(query.Get("signature"))
	if err != nil || !hmac.Equal(given, s.mac(method, subject, query.Get("expires"))) {
		return model.Errorf(model.CodePermission, "the signature of this URL is not valid")
	}
	expires, err := strconv.ParseInt(query.Get("expires"), 10, 64)
	if err != nil || s.now().Unix() >= expires {
		return model.Errorf(model.CodePermission, "this URL has expired").WithHint("ask the server for a new one")
	}
	return nil
}

// mac needs no length prefixes: of its fields only the last ones may hold anything, and
// they are quoted. A hash is written as it is, as in the first version.
func (s *Signer) mac(method, subject, expires string) []byte {
	mac := hmac.New(sha256.New, s.secret)
	if _, err := ParseHash(subject); err != nil {
		subject = strconv.Quote(subject)
	}
	fmt.Fprintf(mac, "%s\n%s\n%s\n%q", signContext, method, subject, expires)
	return mac.Sum(nil)
}
