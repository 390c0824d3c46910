package statelog_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/kymogram/kymogram/internal/testkit/postgres"
	"github.com/kymogram/kymogram/server/internal/statelog"
)

// place is where records are. It can be opened again.
type place interface {
	open(t testing.TB) *statelog.Log
	// verify checks all that is there.
	verify(t *testing.T) *statelog.Inventory
}

// makes is a new place each time.
type makes func(t testing.TB) place

// rules are the tests of what holds wherever the records are.
var rules = map[string]func(t *testing.T, in makes){
	"a record is taken on top of the newest":              takenOnTop,
	"a run is the one its name says":                      runOfItsName,
	"the content names its signer":                        contentNamesSigner,
	"a run that is renamed stays its signer's":            renamedRun,
	"conflicts carry the head and keep evidence":          conflictsKeepEvidence,
	"evidence is bounded":                                 boundedEvidence,
	"records that are refused":                            refusedRecords,
	"list and wait":                                       listAndWait,
	"each record of a history has a verdict":              verdictsOfHistory,
	"lists carry the evidence":                            listsCarryEvidence,
	"large pages end early":                               largePages,
	"signers with one hotkey race":                        signersRace,
	"lists ask once about a run":                          listsAskOnce,
	"the tree is that of RFC 9162":                        treeOfRFC9162,
	"the tree of many records":                            treeOfMany,
	"a server that shows two histories is caught":         twoHistories,
	"witnesses are hotkeys of the project":                witnessesOfProject,
	"heads that are asked for at once":                    headsAtOnce,
	"a log that lost a head that was given signs nothing": lostHead,
}

// longRules write much.
var longRules = map[string]func(t *testing.T, in makes){
	"old payloads go":           oldPayloadsGo,
	"payloads of evidence stay": evidenceStays,
}

// inFile is a file with a mirror.
type inFile string

func newFile(t testing.TB) place { return inFile(filepath.Join(t.TempDir(), "state.db")) }

func (f inFile) open(t testing.TB) *statelog.Log         { return openLog(t, string(f)) }
func (f inFile) verify(t *testing.T) *statelog.Inventory { return inspect(t, string(f)) }

// inDatabase is the address of a schema in PostgreSQL.
type inDatabase string

func (d inDatabase) open(t testing.TB) *statelog.Log {
	t.Helper()
	l, err := statelog.OpenShared(t.Context(), string(d), now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func (d inDatabase) verify(t *testing.T) *statelog.Inventory {
	t.Helper()
	l := d.open(t)
	defer l.Close()
	i, err := l.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// newDatabases makes schemas of one server, which ends with the test.
func newDatabases(t testing.TB) makes {
	server := postgres.Any(t)
	return func(t testing.TB) place { return inDatabase(server.URL(t)) }
}

func TestRulesInAFile(t *testing.T) {
	for name, rule := range rules {
		t.Run(name, func(t *testing.T) { rule(t, newFile) })
	}
	for name, rule := range longRules {
		t.Run(name, func(t *testing.T) { rule(t, newFile) })
	}
}

func TestRulesInPostgreSQL(t *testing.T) {
	in := newDatabases(t)
	for name, rule := range rules {
		t.Run(name, func(t *testing.T) { rule(t, in) })
	}
	if os.Getenv("CLUSTER") == "" {
		return
	}
	for name, rule := range longRules {
		t.Run(name, func(t *testing.T) { rule(t, in) })
	}
}
