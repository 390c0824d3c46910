package postgres_test

import (
	"flag"
	"os"
	"sync"
	"testing"

	server "github.com/kymogram/kymogram/internal/testkit/postgres"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/catalogtest"
	"github.com/kymogram/kymogram/server/internal/catalog/postgres"
)

// schemas gives each folder of the suite a schema of its own.
type schemas struct {
	server *server.Server
	mu     sync.Mutex
	of     map[string]string
}

func (s *schemas) open(t testing.TB, dir string) catalog.Catalog {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[dir] == "" {
		s.of[dir] = s.server.URL(t)
	}
	db, err := postgres.Open(t.Context(), s.of[dir], postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// TestConformance runs the suite: make test-cluster with all its random histories, else with
// some of them, since a request to PostgreSQL takes longer than one to a file.
func TestConformance(t *testing.T) {
	if os.Getenv("CLUSTER") == "" {
		if err := flag.Set("rapid.checks", "20"); err != nil {
			t.Fatal(err)
		}
	}
	s := &schemas{server: server.Any(t), of: map[string]string{}}
	catalogtest.Test(t, s.open)
}
