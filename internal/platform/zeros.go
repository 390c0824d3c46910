package platform

import "os"

// zeros is what a reservation is written with, in pieces.
var zeros [1 << 20]byte

// writeZeros is the reservation that every file system has.
func writeZeros(f *os.File, size int64) error {
	for off := int64(0); off < size; off += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(int64(len(zeros)), size-off)], off); err != nil {
			return err
		}
	}
	return nil
}
