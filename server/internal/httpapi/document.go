package httpapi

import (
	"bytes"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/query"
)

// RunDocument is the JSON of GET /api/v1/runs/{id}, for the other protocols that
// answer with it as one message of at most so many bytes. A longer one is refused
// with model.CodeTooLarge.
func RunDocument(d *query.RunDetail, most int) ([]byte, error) {
	b := &bounded{most: most}
	err := writeDetail(&jsonWriter{w: b}, d)
	return b.Bytes(), err
}

type bounded struct {
	bytes.Buffer
	most int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.most {
		return 0, model.Errorf(model.CodeTooLarge, "the document of this run has more than %d KiB", b.most>>10).
			WithHint("read it over HTTP: GET /api/v1/runs/{id} has no such bound")
	}
	return b.Buffer.Write(p)
}
