package doctor

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
)

// checkStore asks the server how its data folder fares.
func (d *Diagnosis) checkStore(ctx context.Context, server *remote.Client, recovered string) {
	response, err := server.Send(ctx, http.MethodGet, "/metrics", nil, nil)
	if model.CodeOf(err) == model.CodePermission {
		d.add("store", "not shown to a key for one project", nil)
		return
	}
	if err != nil {
		d.add("store", "", err)
		return
	}
	defer response.Body.Close()
	values := map[string]float64{}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if name, text, ok := strings.Cut(lines.Text(), " "); ok && (strings.HasPrefix(name, "kymogram_store_") || name == RecoveredRuns) {
			values[name], _ = strconv.ParseFloat(text, 64) // no number is no news
		}
	}
	detail := fmt.Sprintf("%.0f points of %.0f runs, %.0f MiB; nothing damaged was met",
		values["kymogram_store_points"], values["kymogram_store_runs"], values["kymogram_store_disk_bytes"]/(1<<20))
	d.add("store", detail, storeTrouble(values))
	d.add("catalog", "knows every run of the store", catalogTrouble(values, recovered))
}

// RecoveredRuns is the server's metric of the runs whose names are lost.
const RecoveredRuns = "kymogram_catalog_recovered_runs"

// catalogTrouble tells of runs whose names are lost.
func catalogTrouble(values map[string]float64, recovered string) error {
	if values[RecoveredRuns] == 0 {
		return nil
	}
	return model.Errorf(model.CodeInternal, "the catalog had lost %.0f runs; their points are there, their names are not", values[RecoveredRuns]).
		WithHint("they are in the workspace and project %q: give each a display name, or delete it; check the server's disk", recovered)
}

// storeTrouble is the worst that the server's own figures tell.
func storeTrouble(values map[string]float64) error {
	damaged := values["kymogram_store_quarantined_total"]
	switch {
	case values["kymogram_store_poisoned"] > 0:
		return model.Errorf(model.CodeUnavailable, "the store stopped after the disk failed a write").
			WithHint("check the server's disk and restart the server; what was acknowledged is safe")
	case values["kymogram_store_disk_full"] > 0:
		return model.Errorf(model.CodeDiskFull, "the server's disk is full; reads work").
			WithHint("free space there; the server goes on by itself")
	case damaged > 0:
		return model.Errorf(model.CodeInternal, "the server met %.0f damaged files or ranges and left them out", damaged).
			WithHint("its log names them (damaged data is left out); restore them from a backup, and check the disk")
	}
	return nil
}
