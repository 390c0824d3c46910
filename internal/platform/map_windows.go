package platform

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Map maps the first size bytes of a file, shared and writable.
func Map(f *os.File, size int) ([]byte, error) {
	section, err := windows.CreateFileMapping(windows.Handle(f.Fd()), nil, windows.PAGE_READWRITE, 0, uint32(size), nil)
	if err != nil {
		return nil, err
	}
	defer windows.CloseHandle(section) //nolint:errcheck // the view keeps the section
	at, err := windows.MapViewOfFile(section, windows.FILE_MAP_WRITE, 0, 0, uintptr(size))
	if err != nil {
		return nil, err
	}
	// The view lies outside Go's heap and never moves.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&at)), size), nil
}

// Unmap ends a map; its bytes must not be touched again.
func Unmap(mem []byte) error {
	return windows.UnmapViewOfFile(uintptr(unsafe.Pointer(unsafe.SliceData(mem))))
}
