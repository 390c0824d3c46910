package wal

import (
	"encoding/binary"
	"hash/crc32"
	"path/filepath"
)

// The tip says beside the log up to which record it was synced. A log that ends
// before it has lost what was acknowledged: its records alone look like those of a
// crash. It is written after each sync and not synced itself, so it never says too
// much; one that is missing or damaged says nothing. A second one in another folder
// is there when the log and the one beside it are lost together.
const (
	tipName = "TIP"
	tipSize = 12 // LSN u64, CRC32C u32
)

// ReadTip is the last record that a log was synced to, as the newest tip in some
// folders says; 0 when none does.
func ReadTip(fs FS, dirs ...string) (tip uint64) {
	for _, dir := range dirs {
		one, _ := readTip(fs, dir)
		tip = max(tip, one)
	}
	return tip
}

// DamagedTip says whether the folder has a tip that says nothing. That of a log without
// records says 0, and one that was never written is empty.
func DamagedTip(fs FS, dir string) bool {
	_, damaged := readTip(fs, dir)
	return damaged
}

func readTip(fs FS, dir string) (tip uint64, damaged bool) {
	f, err := fs.Open(filepath.Join(dir, tipName), false)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	b := make([]byte, tipSize)
	n, _ := f.ReadAt(b, 0) // what is short is damaged
	if n < tipSize || crc32.Checksum(b[:8], castagnoli()) != binary.LittleEndian.Uint32(b[8:]) {
		return 0, n > 0
	}
	return binary.LittleEndian.Uint64(b), false
}

func (l *Log) openTips() {
	for _, dir := range l.opts.Tips {
		f, err := l.fs.Open(filepath.Join(dir, tipName), true)
		if err != nil {
			l.opts.Logger.Warn("the log's tip cannot be written: a cut of its end may not be noticed", "err", err)
			continue
		}
		l.tips = append(l.tips, f)
	}
}

// writeTip is best effort: the log is durable without it.
func (l *Log) writeTip(lsn uint64) {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, tipSize), lsn)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli()))
	for _, f := range l.tips {
		_, _ = f.WriteAt(b, 0) // as said above
	}
}

// compareTip reports what the log lost of its end; its numbers are not given again.
func (l *Log) compareTip() (damage []Damage) {
	tip := ReadTip(l.fs, l.opts.Tips...)
	if tip < l.nextLSN {
		return nil
	}
	lost := tip + 1 - l.nextLSN
	l.nextLSN = tip + 1
	return []Damage{{File: tipName, Records: lost}}
}
