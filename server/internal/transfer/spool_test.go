package transfer

import (
	"bytes"
	"os"
	"testing"

	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/server/internal/delivery"
)

// silentServer is an address that nobody listens on.
const silentServer = "http://127.0.0.1:1"

// Another import may have made its spool and not locked it yet.
func TestImportLeavesASpoolInTheMakingAlone(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	making, err := os.MkdirTemp("", importSpoolName(silentServer))
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	w := &Import{Server: &remote.Client{Base: silentServer}, Process: delivery.Process{Env: os.Getenv, Err: &said}}
	if err := w.Resume(t.Context()); err != nil || said.Len() > 0 {
		t.Errorf("%v, it said %q", err, said.String())
	}
	if _, err := os.Stat(making); err != nil {
		t.Errorf("it is gone: %v", err)
	}
}

// A spool that an import holds is nobody else's; one that is left is the next's, and
// goes when nothing waits in it.
func TestASpoolIsOfOneImport(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	held, err := newImportSpool(silentServer)
	if err != nil {
		t.Fatal(err)
	}
	if other, err := openImportSpool(held.Path); other != nil || err != nil {
		t.Errorf("a spool at work can be taken: %v", err)
	}
	if left, err := held.close(); err != nil || left.Writers != 0 {
		t.Errorf("%+v, %v", left, err)
	}
	if _, err := os.Stat(held.Path); !os.IsNotExist(err) {
		t.Errorf("the empty spool is still there: %v", err)
	}
}
