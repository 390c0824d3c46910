package ingest

import (
	"math"
	"regexp"

	"github.com/kymogram/kymogram/internal/model"
)

const (
	maxRenderingTags  = 64
	maxRenderingMarks = 1_000
	maxSide           = 1 << 16
)

var (
	renderingID = regexp.MustCompile(`^[0-9A-Za-z._-]{1,128}$`)
	blobHash    = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// checkRendering checks the record of a video; its bytes are checked by their
// hash where they arrive.
func checkRendering(r *model.Rendering) *fault {
	switch {
	case r == nil:
		return bad("the update has no rendering")
	case !renderingID.MatchString(r.ID):
		return bad("the rendering's id %q is not 1 to 128 letters, digits, '.', '_' or '-'", model.Clip(r.ID))
	case r.Env == "" || len(r.Env) > maxAttrPath || !model.IsClean(r.Env):
		return bad("the environment %q is not valid", model.Clip(r.Env))
	case r.SHA256 != "" && !blobHash.MatchString(r.SHA256):
		return bad("the rendering's sha256 %q is not 64 lower-case hexadecimal characters", model.Clip(r.SHA256))
	case !model.IsClean(r.Name) || len(r.Name) > maxAttrPath || !model.IsClean(r.ContentType) || len(r.ContentType) > maxLabelName:
		return bad("the rendering's name or content type is not valid")
	case math.IsNaN(r.FPS) || math.IsInf(r.FPS, 0) || r.FPS < 0:
		return bad("the rendering has %v frames a second", r.FPS)
	case r.Width > maxSide || r.Height > maxSide:
		return bad("the rendering is %d × %d, at most %d a side", r.Width, r.Height, maxSide)
	}
	for _, n := range []int64{r.Episode, r.SizeBytes, r.Frames, r.FramesDropped, r.Width, r.Height, r.FirstRLStep, r.LastRLStep} {
		if n < 0 || n > maxStep {
			return bad("a number of the rendering is %d; it must not be negative", n)
		}
	}
	return checkMarks(r)
}

func checkMarks(r *model.Rendering) *fault {
	if len(r.Tags) > maxRenderingTags {
		return limit("the rendering has %d tags, at most %d", len(r.Tags), maxRenderingTags)
	}
	if len(r.Marks) > maxRenderingMarks {
		return limit("the rendering has %d marks, at most %d", len(r.Marks), maxRenderingMarks)
	}
	for _, m := range r.Marks {
		if m.Name == "" || len(m.Name) > maxTagBytes || !model.IsClean(m.Name) || m.FromFrame < 0 || m.ToFrame < m.FromFrame {
			return bad("the mark %q of frames %d to %d is not valid", model.Clip(m.Name), m.FromFrame, m.ToFrame)
		}
	}
	return checkTags(r.Tags)
}
