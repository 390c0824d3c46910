package video

import (
	"image"
	"image/color"

	"github.com/kymogram/kymogram/internal/model"
)

// Check reports whether a frame can be part of a video.
func Check(frame image.Image) error {
	if frame == nil {
		return model.Errorf(model.CodeInvalid, "the frame is nil")
	}
	size := frame.Bounds().Size()
	if size.X <= 0 || size.Y <= 0 || size.X%2 != 0 || size.Y%2 != 0 {
		return model.Errorf(model.CodeInvalid, "the frame is %d × %d; width and height must be even and not 0 (H.264 with yuv420p halves them)", size.X, size.Y)
	}
	return nil
}

// pixels copies a frame as RGB, or as grey where it is.
func pixels(frame image.Image) (data []byte, grey bool) {
	b := frame.Bounds()
	switch p := frame.(type) {
	case *image.Gray:
		out := make([]byte, 0, b.Dx()*b.Dy())
		for y := b.Min.Y; y < b.Max.Y; y++ {
			at := p.PixOffset(b.Min.X, y)
			out = append(out, p.Pix[at:at+b.Dx()]...)
		}
		return out, true
	case *image.RGBA:
		return opaque(p.Pix, p.PixOffset(b.Min.X, b.Min.Y), p.Stride, b), false
	case *image.NRGBA:
		return opaque(p.Pix, p.PixOffset(b.Min.X, b.Min.Y), p.Stride, b), false
	}
	out := make([]byte, 0, 3*b.Dx()*b.Dy())
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			c := color.RGBAModel.Convert(frame.At(x, y)).(color.RGBA)
			out = append(out, c.R, c.G, c.B)
		}
	}
	return out, false
}

// opaque leaves the fourth channel out.
func opaque(pix []byte, start, stride int, b image.Rectangle) []byte {
	out := make([]byte, 0, 3*b.Dx()*b.Dy())
	for y := range b.Dy() {
		row := pix[start+y*stride:]
		for x := range b.Dx() {
			out = append(out, row[4*x], row[4*x+1], row[4*x+2])
		}
	}
	return out
}
