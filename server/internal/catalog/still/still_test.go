package still

import (
	"bytes"
	"database/sql"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite"
)

// crashed are the files of a database whose process was killed.
func crashed(t *testing.T, pageSize int) (file, log []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.db")
	db, err := sql.Open("sqlite", fmt.Sprintf("file:%s?_pragma=page_size(%d)&_pragma=journal_mode(WAL)&_pragma=wal_autocheckpoint(0)", path, pageSize))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	do := func(query string, args ...any) {
		t.Helper()
		if _, err := db.Exec(query, args...); err != nil {
			t.Fatal(err)
		}
	}
	do(`CREATE TABLE a (k INTEGER PRIMARY KEY, v BLOB)`)
	for i := range 60 {
		do(`INSERT INTO a VALUES (?, zeroblob(?))`, i, i*97)
		if i == 20 || i == 30 {
			do(`PRAGMA wal_checkpoint(PASSIVE)`)
		}
		if i%7 == 0 {
			do(`DELETE FROM a WHERE k = ?`, i/2)
		}
	}
	if file, err = os.ReadFile(path); err == nil {
		log, err = os.ReadFile(walOf(path))
	}
	if err != nil {
		t.Fatal(err)
	}
	return file, log
}

func put(t *testing.T, file, log []byte) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "a.db")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	if log != nil {
		if err := os.WriteFile(walOf(path), log, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// bySQLite is what SQLite itself makes of a file and its log.
func bySQLite(t *testing.T, file, log []byte) []byte {
	t.Helper()
	path := put(t, file, log)
	db, err := sql.Open("sqlite", "file:"+path)
	if err == nil {
		_, err = db.Exec(`PRAGMA wal_checkpoint(TRUNCATE)`)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestAFileIsReadAsSQLiteReadsIt, with every kind of end that a log may have.
func TestAFileIsReadAsSQLiteReadsIt(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	for _, pageSize := range []int{512, 4096, 65536} {
		file, log := crashed(t, pageSize)
		logs := [][]byte{log, nil, {}, log[:31], log[:40], append(bytes.Clone(log), log...)}
		for range 20 {
			flipped := bytes.Clone(log)
			flipped[draw.IntN(len(log))] ^= 1 << draw.IntN(8)
			logs = append(logs, flipped, log[:draw.IntN(len(log))])
		}
		for i, log := range logs {
			want := bySQLite(t, file, log)
			f, err := Open(put(t, file, log))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<40))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("pages of %d, log %d: %v, %d bytes, and SQLite has %d", pageSize, i, err, len(got), len(want))
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestNothingIsChanged: a folder has the same files and bytes after it was read, and what
// was read is all that was committed.
func TestNothingIsChanged(t *testing.T) {
	file, log := crashed(t, 4096)
	path := put(t, file, log)
	look := func() map[string]string {
		out := map[string]string{}
		found, err := os.ReadDir(filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range found {
			info, err := e.Info()
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(filepath.Join(filepath.Dir(path), e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			out[e.Name()] = fmt.Sprint(info.ModTime().UnixNano(), info.Mode(), string(b))
		}
		return out
	}
	before := look()
	var rows int
	err := Look{VFS: SystemVFS()}.Read(path, func(db *sql.DB) error {
		if _, err := db.Exec(`DELETE FROM a`); err == nil {
			t.Error("the database can be written")
		}
		if _, err := db.Exec(`VACUUM INTO ?`, Target(filepath.Join(t.TempDir(), "copy.db"), SystemVFS())); err != nil {
			t.Error(err)
		}
		return db.QueryRow(`SELECT count(*) FROM (SELECT DISTINCT k, hex(v) FROM a ORDER BY hex(v))`).Scan(&rows)
	})
	if err != nil || rows != 51 {
		t.Errorf("%d rows, %v", rows, err)
	}
	if after := look(); !maps.Equal(before, after) {
		t.Errorf("the folder had %d files, it has %d, or they are others", len(before), len(after))
	}
}

// TestReadsAgainAfterAWrite: who writes meanwhile makes the reader begin anew.
func TestReadsAgainAfterAWrite(t *testing.T) {
	file, log := crashed(t, 4096)
	path := put(t, file, log)
	calls := 0
	err := Look{VFS: SystemVFS()}.Read(path, func(*sql.DB) error {
		if calls++; calls > 1 {
			return nil
		}
		later := time.Now().Add(time.Minute)
		return os.Chtimes(path, later, later)
	})
	if err != nil || calls != 2 {
		t.Errorf("%d calls, %v", calls, err)
	}
}
