package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// HolderKind says what delivers a folder.
type HolderKind string

// The kinds of holders.
const (
	KindAgent   HolderKind = "agent"
	KindPerson  HolderKind = "person" // an agent that a person started; it stays
	KindSync    HolderKind = "sync"
	KindProcess HolderKind = "process" // a Go program that logs
)

// Protocol is the version of the uplink in this program: a later one takes the
// folder over. 2 reads format 2 of the spool.
const Protocol = 3

// Holder is who delivers a folder, or wants to.
type Holder struct {
	PID      int        `json:"pid"`
	Version  string     `json:"version"`
	Protocol int        `json:"protocol"`
	Kind     HolderKind `json:"kind"`
}

// Hold is a folder that this program delivers.
type Hold struct {
	folder *Folder
	holder Holder
	lock   *Lock
}

// Take makes h the holder of the folder; nil when another holds it.
func (f *Folder) Take(h Holder) (*Hold, error) {
	lock, ok, err := tryLock(filepath.Join(f.Path, "agent.lock"))
	if err != nil || !ok {
		return nil, err
	}
	doc, err := json.Marshal(h)
	if err == nil {
		err = replace(filepath.Join(f.Path, "agent.json"), doc)
	}
	if err == nil {
		// The request was for the previous holder. A program that still wants the folder
		// asks again within a second; a killed one does not.
		err = f.forget()
	}
	if err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	return &Hold{folder: f, holder: h, lock: lock}, nil
}

// Held reports who holds the folder now. A program that has the lock and has not said yet who
// it is takes it this moment: it does not hold it.
func (f *Folder) Held() (Holder, bool, error) {
	live, err := held(filepath.Join(f.Path, "agent.lock"))
	if err != nil || !live {
		return Holder{}, false, err
	}
	var h Holder
	doc, err := os.ReadFile(filepath.Join(f.Path, "agent.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return h, false, nil
	}
	if err != nil {
		return h, true, fmt.Errorf("read agent.json: %w", err)
	}
	if err := json.Unmarshal(doc, &h); err != nil {
		return h, true, fmt.Errorf("read agent.json: %w", err)
	}
	return h, true, nil
}

// Ask asks the holder to give the folder to h.
func (f *Folder) Ask(h Holder) error {
	doc, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("encode agent.takeover: %w", err)
	}
	return replace(f.takeover(), doc)
}

func (f *Folder) takeover() string { return filepath.Join(f.Path, "agent.takeover") }

func (f *Folder) asked() (Holder, bool) {
	var h Holder
	doc, err := os.ReadFile(f.takeover())
	if err != nil || json.Unmarshal(doc, &h) != nil {
		return h, false
	}
	return h, true
}

func (f *Folder) forget() error {
	if err := os.Remove(f.takeover()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove agent.takeover: %w", err)
	}
	return nil
}

// Outranks reports whether one who asks gets the folder from its holder.
func (h Holder) Outranks(holder Holder) bool {
	if h.Protocol > holder.Protocol {
		return true
	}
	switch holder.Kind {
	case KindPerson:
		return false
	case KindSync:
		return h.Kind == KindPerson
	}
	return h.Kind == KindPerson || h.Kind == KindSync
}

// Asked reports whether someone who may have the folder asks for it.
func (h *Hold) Asked() bool {
	asked, ok := h.folder.asked()
	return ok && asked.PID != h.holder.PID && asked.Outranks(h.holder)
}

// Release gives the folder up and removes the wish that was fulfilled.
func (h *Hold) Release() error {
	var err error
	if h.Asked() {
		err = h.folder.forget()
	}
	return errors.Join(err, h.lock.Release())
}
