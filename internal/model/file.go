package model

import (
	"path"
	"strings"
)

// The longest names of trees and files, and the longest text of a tree.
const (
	MaxTreeName  = 512
	MaxTreeBytes = 8 << 20
	MaxFileName  = 1 << 10
)

// RunFile is a file of a run. Its bytes are the blob SHA256.
type RunFile struct {
	SHA256      string `json:"sha256"` // 64 lower-case hexadecimal characters
	Size        int64  `json:"size"`
	ContentType string `json:"content_type,omitempty"`
	MD5         string `json:"md5,omitempty"` // base64 with padding
	// TimeNs is when it was changed; 0: when the server applies the update.
	TimeNs int64 `json:"time_ns,omitempty"`
}

// IsCleanPath reports whether name is a relative slash path that means the same everywhere:
// clean UTF-8, no backslash, and no empty, "." or ".." part.
func IsCleanPath(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.HasPrefix(name, "../") && name[0] != '/' &&
		!strings.ContainsRune(name, '\\') && path.Clean(name) == name && IsClean(name)
}

// CheckFileName reports whether name can be that of a run's file.
func CheckFileName(name string) error { return checkPathName("file", name, MaxFileName) }

// CheckTreeName reports whether name can be that of a run's tree.
func CheckTreeName(name string) error { return checkPathName("tree", name, MaxTreeName) }

func checkPathName(what, name string, most int) error {
	if len(name) > most {
		return Errorf(CodeLimit, "the name of the %s %q… has %d bytes, at most %d", what, Clip(name), len(name), most)
	}
	if !IsCleanPath(name) {
		return Errorf(CodeBadRecord, "the name of the %s %q is not valid", what, Clip(name)).
			WithHint("It is a relative path with slashes: UTF-8 without control characters, backslashes, and parts that are empty, \".\" or \"..\".")
	}
	return nil
}
