package record_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// A caller learns that the disk is full, not where the data lies.
func TestAFullDiskRevealsNoPath(t *testing.T) {
	err := record.Refusing(fmt.Errorf("write /srv/secret/wal/1: %w: %w", wal.ErrDiskFull, syscall.ENOSPC))
	var e *model.Error
	if !errors.As(err, &e) || e.Code != model.CodeDiskFull || strings.Contains(e.Message+e.Hint, "secret") {
		t.Errorf("%v", err)
	}
	err = record.Refusing(fmt.Errorf("sync /srv/secret/wal/1: %w", wal.ErrPoisoned))
	if !errors.As(err, &e) || e.Code != model.CodeUnavailable || strings.Contains(e.Message+e.Hint, "secret") {
		t.Errorf("%v", err)
	}
}
