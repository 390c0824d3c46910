package ingest

import (
	"encoding/base64"
	"unicode/utf8"

	"github.com/kymogram/kymogram/internal/model"
)

const (
	maxContentType = 256
	md5Bytes       = 16
)

// checkKept checks a tree or a file of a run. A file's bytes are checked where they arrive.
func checkKept(u *model.Update) *fault {
	if u.Op == model.OpSetFile {
		if f := faultOf(model.CheckFileName(u.Path)); f != nil || u.File == nil {
			return f
		}
		return checkFile(u.Path, u.File)
	}
	switch f := faultOf(model.CheckTreeName(u.Path)); {
	case f != nil:
		return f
	case len(u.Text) > model.MaxTreeBytes:
		return limit("the tree %q has %d bytes, at most %d", model.Clip(u.Path), len(u.Text), model.MaxTreeBytes)
	case !utf8.ValidString(u.Text):
		return bad("the tree %q is not UTF-8", model.Clip(u.Path))
	}
	return nil
}

func faultOf(err error) *fault {
	if e := model.Shown(err); e != nil {
		return &fault{e.Code, e.Message}
	}
	return nil
}

func checkFile(name string, f *model.RunFile) *fault {
	switch {
	case !blobHash.MatchString(f.SHA256):
		return bad("the sha256 %q of the file %q is not 64 lower-case hexadecimal characters", model.Clip(f.SHA256), model.Clip(name))
	case f.Size < 0 || f.Size > maxStep:
		return bad("the file %q has %d bytes", model.Clip(name), f.Size)
	case len(f.ContentType) > maxContentType || !model.IsClean(f.ContentType):
		return bad("the content type %q of the file %q is not valid", model.Clip(f.ContentType), model.Clip(name))
	case f.TimeNs < 0 || f.TimeNs > maxStep:
		return bad("the time of the file %q is %d ns", model.Clip(name), f.TimeNs)
	}
	if sum, err := base64.StdEncoding.Strict().DecodeString(f.MD5); err != nil || f.MD5 != "" && len(sum) != md5Bytes {
		return bad("the md5 %q of the file %q is not base64 of %d bytes", model.Clip(f.MD5), model.Clip(name), md5Bytes)
	}
	return nil
}
