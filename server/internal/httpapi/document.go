package httpapi

import (
	"bytes"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/query"
)

// RunDocument is the JSON of GET /api/v1/runs/{id}, for the other protocols that
// answer with it.
func RunDocument(d *query.RunDetail) ([]byte, error) {
	b := &bounded{left: maxDocument}
	err := writeDetail(&jsonWriter{w: b}, d)
	return b.Bytes(), err
}

// maxDocument bounds a document that is one message.
const maxDocument = 8 << 20

type bounded struct {
	bytes.Buffer
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, model.Errorf(model.CodeTooLarge, "the document of this run has more than %d MiB", maxDocument>>20).
			WithHint("read it over HTTP: GET /api/v1/runs/{id} has no such bound")
	}
	return b.Buffer.Write(p)
}
