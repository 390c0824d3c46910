package clickhouse_test

import (
	"os"
	"strings"
	"testing"

	native "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/kymogram/kymogram/server/internal/store/clickhouse/curve"
	"github.com/kymogram/kymogram/server/internal/store/storetest"
)

// Current servers get a table whose column of runs is of another type. ClickHouse 18.16 knows that
// type behind a setting, so rows are written to it and read from it here.
func TestCurrentColumns(t *testing.T) {
	if os.Getenv("CLUSTER") == "" {
		t.Skip("the suite once more: make test-cluster")
	}
	r := newRig(t)
	create := strings.Replace(curve.Create(r.table(), curve.Form{}), "`run` FixedString(16)", "`run` LowCardinality(FixedString(16))", 1)
	db, err := native.Open(&native.Options{Addr: r.points.Addrs, Settings: native.Settings{"allow_experimental_low_cardinality_type": 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Exec(t.Context(), create); err != nil {
		t.Fatal(err)
	}
	conform(t, r, storetest.RunFixed)
	if kind := r.points.Do(t, "SELECT toTypeName(run) FROM "+r.table()+" LIMIT 1"); strings.TrimSpace(kind) != "LowCardinality(FixedString(16))" {
		t.Errorf("runs are of type %s", kind)
	}
}
