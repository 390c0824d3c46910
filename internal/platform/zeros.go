package platform

import "os"

// zeros is what a reservation is written with, in pieces.
var zeros [1 << 20]byte

// writeZeros is the reservation that every file system has.
func writeZeros(f *os.File, from, to int64) error {
	for from < to {
		n, err := f.WriteAt(zeros[:min(int64(len(zeros)), to-from)], from)
		if err != nil {
			return err
		}
		from += int64(n)
	}
	return nil
}
