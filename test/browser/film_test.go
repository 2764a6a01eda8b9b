package browser_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"slices"
	"time"
)

// film is a short animation: an APNG, which browsers and GitHub play, and which is a
// picture of its first frame elsewhere.
type film struct{ frames []shot }

// shot is a picture and how long it is shown.
type shot struct {
	picture image.Image
	shown   time.Duration
}

func (f *film) last() image.Image { return f.frames[len(f.frames)-1].picture }

// add adds a picture. One that looks like the last prolongs it.
func (f *film) add(picture image.Image, shown time.Duration) {
	if len(f.frames) > 0 && bytes.Equal(pixels(f.last()), pixels(picture)) {
		f.frames[len(f.frames)-1].shown += shown
		return
	}
	f.frames = append(f.frames, shot{picture, shown})
}

func pixels(picture image.Image) []byte {
	plain := image.NewRGBA(picture.Bounds())
	draw.Draw(plain, plain.Bounds(), picture, picture.Bounds().Min, draw.Src)
	return plain.Pix
}

// encode writes the film. All frames have the size of the largest, and one palette.
func (f *film) encode(w *bytes.Buffer) error {
	size := image.Rectangle{}
	for _, s := range f.frames {
		size = size.Union(image.Rectangle{Max: s.picture.Bounds().Size()})
	}
	colors := f.palette()
	w.WriteString("\x89PNG\r\n\x1a\n")
	sequence := uint32(0)
	for i, s := range f.frames {
		chunks, err := encodeFrame(s.picture, size, colors)
		if err != nil {
			return err
		}
		if i == 0 {
			chunk(w, "IHDR", chunks["IHDR"])
			chunk(w, "acTL", numbers(uint32(len(f.frames)), 0))
			chunk(w, "PLTE", chunks["PLTE"])
		}
		control := numbers(sequence, uint32(size.Dx()), uint32(size.Dy()), 0, 0)
		control = binary.BigEndian.AppendUint16(control, uint16(s.shown.Milliseconds()))
		control = binary.BigEndian.AppendUint16(control, 1000)
		chunk(w, "fcTL", append(control, 0, 0)) // leave it, and replace it
		sequence++
		if i == 0 {
			chunk(w, "IDAT", chunks["IDAT"])
			continue
		}
		chunk(w, "fdAT", append(numbers(sequence), chunks["IDAT"]...))
		sequence++
	}
	chunk(w, "IEND", nil)
	return nil
}

// palette are the colors that are seen most.
func (f *film) palette() color.Palette {
	seen := make(map[color.RGBA]int)
	for _, s := range f.frames {
		p := pixels(s.picture)
		for i := 0; i < len(p); i += 4 {
			seen[color.RGBA{p[i] &^ 3, p[i+1] &^ 3, p[i+2] &^ 3, 255}]++
		}
	}
	most := slices.SortedFunc(maps.Keys(seen), func(a, b color.RGBA) int { return seen[b] - seen[a] })
	var colors color.Palette
	for _, c := range most[:min(256, len(most))] {
		colors = append(colors, c)
	}
	return colors
}

// encodeFrame returns the chunks of a frame as a PNG of its own, by name.
func encodeFrame(picture image.Image, size image.Rectangle, colors color.Palette) (map[string][]byte, error) {
	frame := image.NewPaletted(size, colors)
	nearest := make(map[color.Color]uint8)
	for y := range size.Dy() {
		for x := range size.Dx() {
			at := picture.Bounds().Min.Add(image.Pt(x, y))
			if !at.In(picture.Bounds()) { // below it is the page, which its corners show
				at = picture.Bounds().Min
			}
			c := picture.At(at.X, at.Y)
			index, known := nearest[c]
			if !known {
				index = uint8(colors.Index(c))
				nearest[c] = index
			}
			frame.SetColorIndex(x, y, index)
		}
	}
	var file bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&file, frame); err != nil {
		return nil, err
	}
	chunks := make(map[string][]byte)
	for text := file.Bytes()[8:]; len(text) > 0; {
		n := binary.BigEndian.Uint32(text)
		name := string(text[4:8])
		chunks[name] = append(chunks[name], text[8:8+n]...)
		text = text[12+n:]
	}
	return chunks, nil
}

func numbers(list ...uint32) (text []byte) {
	for _, n := range list {
		text = binary.BigEndian.AppendUint32(text, n)
	}
	return text
}

func chunk(w *bytes.Buffer, name string, data []byte) {
	body := append([]byte(name), data...)
	w.Write(numbers(uint32(len(data))))
	w.Write(body)
	w.Write(numbers(crc32.ChecksumIEEE(body)))
}
