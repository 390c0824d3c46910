package video

import (
	"image"
	"image/color"
	"testing"
)

// Every way to read an image gives what At gives.
func TestPixels(t *testing.T) {
	whole := image.Rect(0, 0, 6, 4)
	part := image.Rect(2, 0, 6, 2)
	rgba, nrgba, grey, paletted := image.NewRGBA(whole), image.NewNRGBA(whole), image.NewGray(whole), image.NewPaletted(whole, color.Palette{color.Black, color.RGBA{9, 8, 7, 255}})
	for y := range 4 {
		for x := range 6 {
			c := color.RGBA{uint8(10 * x), uint8(20 * y), uint8(x * y), 255}
			rgba.Set(x, y, c)
			nrgba.Set(x, y, c)
			grey.SetGray(x, y, color.Gray{uint8(7*x + y)})
			paletted.SetColorIndex(x, y, uint8((x+y)%2))
		}
	}
	for _, frame := range []image.Image{rgba, nrgba, grey, paletted, rgba.SubImage(part), grey.SubImage(part)} {
		data, isGrey := pixels(frame)
		b, i := frame.Bounds(), 0
		for y := b.Min.Y; y < b.Max.Y; y++ {
			for x := b.Min.X; x < b.Max.X; x++ {
				red, green, blue, _ := frame.At(x, y).RGBA()
				for _, want := range []uint32{red, green, blue}[:map[bool]int{true: 1, false: 3}[isGrey]] {
					if uint32(data[i]) != want>>8 {
						t.Fatalf("%T at %d,%d: %d, want %d", frame, x, y, data[i], want>>8)
					}
					i++
				}
			}
		}
		if i != len(data) {
			t.Errorf("%T has %d bytes, want %d", frame, len(data), i)
		}
	}
}
