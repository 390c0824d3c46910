package httpapi

import (
	"io"

	"github.com/kymogram/kymogram/server/internal/query"
)

// WriteDocument writes the document of a run as GET /api/v1/runs/{id} does.
func WriteDocument(w io.Writer, d *query.RunDetail) error { return writeDetail(&jsonWriter{w: w}, d) }
