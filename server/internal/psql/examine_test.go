package psql_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/testkit/postgres"
	"github.com/kymogram/kymogram/server/internal/psql"
)

// A database tells of its standbys, and whether commits wait for one; its standby alone takes no
// writes; one that is away is an error without the password.
func TestExamine(t *testing.T) {
	t.Parallel()
	primary := postgres.Start(t)
	place := primary.URL(t)
	s, err := psql.Examine(t.Context(), place)
	if err != nil || s.Standbys != 0 || s.Synchronous || s.Skew.Abs() > s.Took+time.Second || s.Connections < 1 || s.MostConnections <= s.Connections || s.Acknowledged == "" || !strings.Contains(primary.Do(t, "SELECT version()"), s.Version) {
		t.Errorf("%+v, %v", s, err)
	}
	standby := primary.Standby(t)
	if s, err = psql.Examine(t.Context(), place); err != nil || s.Standbys != 1 || !s.Synchronous {
		t.Errorf("with a standby: %+v, %v", s, err)
	}
	primary.Do(t, "ALTER SYSTEM SET synchronous_standby_names = ''")
	primary.Do(t, "SELECT pg_reload_conf()")
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if s, err = psql.Examine(t.Context(), place); err == nil && !s.Synchronous {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("without synchronous standbys: %+v, %v", s, err)
		}
	}
	if s, err := psql.Examine(t.Context(), "postgres://postgres:secret@127.0.0.1:"+strconv.Itoa(standby.Port)+"/postgres"); model.CodeOf(err) != model.CodeUnavailable || strings.Contains(err.Error(), "secret") {
		t.Errorf("the standby: %+v, %v", s, err)
	}
}
