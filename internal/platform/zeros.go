package platform

import "os"

// writeZeros is the reservation that every file system has.
func writeZeros(f *os.File, size int64) error {
	zeros := make([]byte, 256<<10)
	for off := int64(0); off < size; off += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(int64(len(zeros)), size-off)], off); err != nil {
			return err
		}
	}
	return nil
}
