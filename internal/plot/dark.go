package plot

import (
	"bytes"
	"fmt"
	"image/color"
)

// dark is what a drawing's colours become where the reader prefers a dark page: paper and
// ink change places, names take the bright colour of their line, and the palette stays, as
// its colours have enough contrast with both.
func dark() string {
	var out bytes.Buffer
	out.WriteString("<style>@media (prefers-color-scheme: dark) {")
	change := func(from color.Color, to string) {
		r, g, b, _ := from.RGBA()
		code := fmt.Sprintf("#%02X%02X%02X", r>>8, g>>8, b>>8)
		for _, property := range [...]string{"fill", "stroke"} {
			fmt.Fprintf(&out, ` [style*="%s:%s"]{%s:%s !important}`, property, code, property, to)
		}
	}
	change(color.White, "#0d1117")
	change(ink, "#e0e0e0")
	change(faded, "#9a9a9a")
	change(grid, "#2a2f37")
	change(shade, "#1c2027")
	for _, c := range palette {
		change(darker(c), fmt.Sprintf("#%02X%02X%02X", (int(c.R)+0xff)/2, (int(c.G)+0xff)/2, (int(c.B)+0xff)/2))
	}
	out.WriteString(" }</style>")
	return out.String()
}
