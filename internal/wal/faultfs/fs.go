//go:build unix

// Package faultfs is an in-memory file system for crash tests: it knows what was
// synced, makes crash clones that keep that and a random part of the rest, and
// fails on demand. It implements wal.FS.
package faultfs

import (
	"fmt"
	"io"
	iofs "io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/kymogram/kymogram/internal/wal"
)

// Op names an operation for a fault hook.
type Op string

// The operations that a hook sees.
const (
	OpOpen     Op = "open"
	OpWrite    Op = "write"
	OpSync     Op = "sync"
	OpTruncate Op = "truncate"
	OpRename   Op = "rename"
	OpRemove   Op = "remove"
	OpSyncDir  Op = "syncdir"
	OpRead     Op = "read"
)

type change struct {
	off  int64
	data []byte // nil: truncate to off
}

type inode struct {
	data    []byte
	durable []byte
	pending []change // since the last sync
}

// FS is the file system.
type FS struct {
	mu      sync.Mutex
	names   map[string]*inode
	durable map[string]*inode // what the folders hold on disk
	locks   map[string]bool
	used    int64
	limit   int64 // bytes, 0: no limit
	hook    func(op Op, name string) error
	clone   func(op Op) *rand.Rand
	give    func(*FS)
}

// New makes an empty file system.
func New() *FS {
	return &FS{names: map[string]*inode{}, durable: map[string]*inode{}, locks: map[string]bool{}}
}

// Limit sets the size of the disk in bytes; 0 lifts it.
func (f *FS) Limit(n int64) { f.mu.Lock(); defer f.mu.Unlock(); f.limit = n }

// Used is the sum of all sizes.
func (f *FS) Used() int64 { f.mu.Lock(); defer f.mu.Unlock(); return f.used }

// Hook sets a function that is asked before every operation; an error fails it.
func (f *FS) Hook(h func(op Op, name string) error) { f.mu.Lock(); defer f.mu.Unlock(); f.hook = h }

// CloneAt takes a crash clone before every operation that changes the disk for
// which choose returns a source of chance. Clones know nothing of it.
func (f *FS) CloneAt(choose func(op Op) *rand.Rand, give func(*FS)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clone, f.give = choose, give
}

func (f *FS) ask(op Op, name string) error {
	if f.clone != nil && op != OpRead {
		if r := f.clone(op); r != nil {
			f.give(f.crash(r))
		}
	}
	if f.hook == nil {
		return nil
	}
	return f.hook(op, name)
}

// Crash returns what a machine that loses power now finds afterwards: synced
// content, and of the rest what r decides. The clone holds no locks.
func (f *FS) Crash(r *rand.Rand) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.crash(r)
}

func (f *FS) crash(r *rand.Rand) *FS {
	out := New()
	seen := map[*inode]*inode{}
	for _, name := range sortedNames(f.durable, f.names) {
		node := f.durable[name]
		if now := f.names[name]; now != node && r.IntN(2) == 0 {
			node = now // a change of the folder that happened to reach the disk
		}
		if node == nil {
			continue
		}
		if seen[node] == nil {
			data := node.afterCrash(r)
			seen[node] = &inode{data: data, durable: slices.Clone(data)}
			out.used += int64(len(data))
		}
		out.names[name], out.durable[name] = seen[node], seen[node]
	}
	return out
}

func sortedNames(sets ...map[string]*inode) []string {
	var names []string
	for _, set := range sets {
		for name := range set {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// afterCrash applies a random prefix of the pending changes, the last in part.
func (n *inode) afterCrash(r *rand.Rand) []byte {
	data := slices.Clone(n.durable)
	if len(n.pending) == 0 {
		return data
	}
	keep := r.IntN(len(n.pending) + 1)
	for _, c := range n.pending[:keep] {
		data = c.apply(data)
	}
	if keep < len(n.pending) {
		if c := n.pending[keep]; c.data != nil {
			c.data = c.data[:r.IntN(len(c.data)+1)]
			data = c.apply(data)
		}
	}
	return data
}

func (c change) apply(data []byte) []byte {
	if c.data == nil {
		return resize(data, c.off)
	}
	if end := c.off + int64(len(c.data)); end > int64(len(data)) {
		data = resize(data, end)
	}
	copy(data[c.off:], c.data)
	return data
}

func resize(data []byte, size int64) []byte {
	if size <= int64(len(data)) {
		return data[:size]
	}
	return append(data, make([]byte, size-int64(len(data)))...)
}

// Open implements wal.FS.
func (f *FS) Open(name string, create bool) (wal.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.ask(OpOpen, name); err != nil {
		return nil, err
	}
	name = filepath.Clean(name)
	node := f.names[name]
	if node == nil {
		if !create {
			return nil, &iofs.PathError{Op: "open", Path: name, Err: iofs.ErrNotExist}
		}
		node = &inode{}
		f.names[name] = node
	}
	return &file{fs: f, node: node, name: name}, nil
}

// Remove implements wal.FS.
func (f *FS) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.ask(OpRemove, name); err != nil {
		return err
	}
	name = filepath.Clean(name)
	node := f.names[name]
	if node == nil {
		return &iofs.PathError{Op: "remove", Path: name, Err: iofs.ErrNotExist}
	}
	f.used -= int64(len(node.data))
	delete(f.names, name)
	return nil
}

// Rename implements wal.FS.
func (f *FS) Rename(from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.ask(OpRename, to); err != nil {
		return err
	}
	from, to = filepath.Clean(from), filepath.Clean(to)
	node := f.names[from]
	if node == nil {
		return &iofs.PathError{Op: "rename", Path: from, Err: iofs.ErrNotExist}
	}
	if old := f.names[to]; old != nil {
		f.used -= int64(len(old.data))
	}
	f.names[to] = node
	delete(f.names, from)
	return nil
}

// List implements wal.FS.
func (f *FS) List(dir string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for name := range f.names {
		if filepath.Dir(name) == filepath.Clean(dir) {
			names = append(names, filepath.Base(name))
		}
	}
	slices.Sort(names)
	return names, nil
}

// MkdirAll implements wal.FS; folders need not exist here.
func (f *FS) MkdirAll(string) error { return nil }

// SyncDir implements wal.FS.
func (f *FS) SyncDir(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.ask(OpSyncDir, dir); err != nil {
		return err
	}
	dir = filepath.Clean(dir)
	for _, name := range sortedNames(f.durable, f.names) {
		if filepath.Dir(name) != dir {
			continue
		}
		if node := f.names[name]; node != nil {
			f.durable[name] = node
		} else {
			delete(f.durable, name)
		}
	}
	return nil
}

type lock struct {
	fs   *FS
	name string
}

func (l lock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	delete(l.fs.locks, l.name)
	return nil
}

// Lock implements wal.FS.
func (f *FS) Lock(name string) (io.Closer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.locks[name] {
		return nil, fmt.Errorf("%s: %w", name, wal.ErrLocked)
	}
	f.locks[name] = true
	return lock{f, name}, nil
}

// Corrupt changes a file's bytes in place, on disk as well.
func (f *FS) Corrupt(name string, change func(data []byte) []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	node := f.names[filepath.Clean(name)]
	f.used -= int64(len(node.data))
	node.data = change(slices.Clone(node.data))
	node.durable, node.pending = slices.Clone(node.data), nil
	f.used += int64(len(node.data))
}

// Names lists every file.
func (f *FS) Names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return sortedNames(f.names)
}

type file struct {
	fs   *FS
	node *inode
	name string
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.fs.ask(OpRead, f.name); err != nil {
		return 0, err
	}
	if off >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.node.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.fs.ask(OpWrite, f.name); err != nil {
		return 0, err
	}
	whole := len(p)
	grow := max(off+int64(len(p))-int64(len(f.node.data)), 0)
	if room := f.fs.limit - f.fs.used; f.fs.limit > 0 && grow > room {
		p = p[:max(int64(len(p))-(grow-max(room, 0)), 0)]
	}
	if len(p) > 0 {
		f.apply(change{off, slices.Clone(p)})
	}
	if len(p) < whole {
		return len(p), &iofs.PathError{Op: "write", Path: f.name, Err: unix.ENOSPC}
	}
	return len(p), nil
}

func (f *file) apply(c change) {
	before := len(f.node.data)
	f.node.data = c.apply(f.node.data)
	f.node.pending = append(f.node.pending, c)
	f.fs.used += int64(len(f.node.data) - before)
}

func (f *file) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.fs.ask(OpTruncate, f.name); err != nil {
		return err
	}
	f.apply(change{off: size})
	return nil
}

func (f *file) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.fs.ask(OpSync, f.name); err != nil {
		return err
	}
	f.node.durable, f.node.pending = slices.Clone(f.node.data), nil
	return nil
}

func (f *file) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return int64(len(f.node.data)), nil
}

func (f *file) Close() error { return nil }
