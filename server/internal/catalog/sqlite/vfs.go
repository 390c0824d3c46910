package sqlite

import (
	"fmt"
	"unsafe"

	"modernc.org/libc"
	sqlitelib "modernc.org/sqlite/lib"
)

// vfsName is the file system under a database with checksums: the operating
// system's, but for the pages of the database's own file on their way in and out.
const vfsName = "kymogram"

// sealing is the operating system's file system with another xOpen.
type sealing struct {
	vfs  sqlitelib.Tsqlite3_vfs
	open uintptr // of the operating system
}

// sealedFile follows the operating system's file in memory: its methods with
// another xRead and xWrite.
type sealedFile struct {
	methods     sqlitelib.Tsqlite3_io_methods
	read, write uintptr // of the operating system
}

type (
	openMethod     = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32
	transferMethod = func(tls *libc.TLS, file, buf uintptr, n int32, at int64) int32
)

// at is what SQLite's memory holds at an address; it is not Go's.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// method is a function that SQLite calls by its address, and back.
func method[F any](address uintptr) F {
	f := &struct{ address uintptr }{address}
	return *(*F)(unsafe.Pointer(f))
}

func address[F any](f F) uintptr {
	return *(*uintptr)(unsafe.Pointer(&struct{ f F }{f}))
}

// registerVFS makes the file system known to SQLite, once a process.
func registerVFS() error {
	if errFunctions != nil {
		return fmt.Errorf("register functions: %w", errFunctions)
	}
	tls := libc.NewTLS()
	defer tls.Close()
	name, err := libc.CString(vfsName)
	if err != nil {
		return fmt.Errorf("register a file system: %w", err)
	}
	if sqlitelib.Xsqlite3_vfs_find(tls, name) != 0 {
		libc.Xfree(tls, name)
		return nil
	}
	system := sqlitelib.Xsqlite3_vfs_find(tls, 0)
	p := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(sealing{})))
	if p == 0 || system == 0 {
		return fmt.Errorf("register a file system: no memory")
	}
	s := at[sealing](p)
	*s = sealing{vfs: *at[sqlitelib.Tsqlite3_vfs](system)}
	s.open = s.vfs.FxOpen
	s.vfs.FzName, s.vfs.FpNext, s.vfs.FxOpen = name, 0, address[openMethod](openSealed)
	s.vfs.FszOsFile += int32(unsafe.Sizeof(sealedFile{}))
	if rc := sqlitelib.Xsqlite3_vfs_register(tls, p, 0); rc != sqlitelib.SQLITE_OK {
		return fmt.Errorf("register a file system: code %d", rc)
	}
	return nil
}

func openSealed(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32 {
	s := at[sealing](vfs)
	rc := method[openMethod](s.open)(tls, vfs, name, file, flags, outFlags)
	base := at[sqlitelib.Tsqlite3_file](file)
	if rc != sqlitelib.SQLITE_OK || base.FpMethods == 0 || flags&sqlitelib.SQLITE_OPEN_MAIN_DB == 0 {
		return rc
	}
	behind := file + uintptr(s.vfs.FszOsFile) - unsafe.Sizeof(sealedFile{})
	f := at[sealedFile](behind)
	*f = sealedFile{methods: *at[sqlitelib.Tsqlite3_io_methods](base.FpMethods)}
	f.read, f.write = f.methods.FxRead, f.methods.FxWrite
	f.methods.FxRead, f.methods.FxWrite = address[transferMethod](readSealed), address[transferMethod](writeSealed)
	f.methods.FiVersion = min(f.methods.FiVersion, 2) // no mapped pages: they would not be compared
	base.FpMethods = behind
	return rc
}

func readSealed(tls *libc.TLS, file, buf uintptr, n int32, offset int64) int32 {
	f := at[sealedFile](at[sqlitelib.Tsqlite3_file](file).FpMethods)
	rc := method[transferMethod](f.read)(tls, file, buf, n, offset)
	if rc != sqlitelib.SQLITE_OK || n != pageSize || offset%pageSize != 0 {
		return rc
	}
	if !sealed(at[[pageSize]byte](buf)[:], uint32(offset/pageSize)+1) {
		return sqlitelib.SQLITE_IOERR_DATA
	}
	return rc
}

func writeSealed(tls *libc.TLS, file, buf uintptr, n int32, offset int64) int32 {
	f := at[sealedFile](at[sqlitelib.Tsqlite3_file](file).FpMethods)
	if n == pageSize && offset%pageSize == 0 {
		seal(at[[pageSize]byte](buf)[:], uint32(offset/pageSize)+1)
	}
	return method[transferMethod](f.write)(tls, file, buf, n, offset)
}
