package httpapi

import (
	"encoding/json"

	"github.com/kymogram/kymogram/server/internal/query"
)

// RunDocument is the JSON of GET /api/v1/runs/{id}, for the other protocols that
// answer with it.
func RunDocument(d *query.RunDetail) ([]byte, error) { return json.Marshal(newDetailDoc(d)) }
