package chart

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/redlatch/redlatch/test/bench/internal/stat"
)

// bars is one series of a grouped bar chart: a bar for each group, with a
// whisker from quartile to quartile. Unlike gonum's, its bars begin at the axis,
// so that they can stand on a logarithmic one.
type bars struct {
	values []stat.Spread // one a group; without a value, no bar
	color  color.Color
	width  vg.Length
	offset vg.Length // of the middle of the bar from the middle of the group
}

// Plot implements plot.Plotter.
func (b *bars) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	whisker := draw.LineStyle{Color: color.Gray{60}, Width: vg.Points(0.6)}
	for i, value := range b.values {
		if value.N == 0 || value.Median <= 0 {
			continue
		}
		x := toX(float64(i)) + b.offset
		left, right := x-b.width/2, x+b.width/2
		bottom, top := toY(p.Y.Min), toY(value.Median)
		c.FillPolygon(b.color, []vg.Point{{X: left, Y: bottom}, {X: left, Y: top}, {X: right, Y: top}, {X: right, Y: bottom}})
		if value.Q1 > 0 && value.Q1 < value.Q3 {
			c.StrokeLine2(whisker, x, toY(math.Max(value.Q1, p.Y.Min)), x, toY(value.Q3))
		}
	}
}

// DataRange implements plot.DataRanger.
func (b *bars) DataRange() (xmin, xmax, ymin, ymax float64) {
	ymin = math.Inf(1)
	for _, value := range b.values {
		if value.N > 0 && value.Median > 0 {
			ymin, ymax = math.Min(ymin, value.Q1), math.Max(ymax, value.Q3)
		}
	}
	return -0.5, float64(len(b.values)) - 0.5, ymin, ymax
}

// Thumbnail implements plot.Thumbnailer.
func (b *bars) Thumbnail(c *draw.Canvas) {
	c.FillPolygon(b.color, []vg.Point{
		{X: c.Min.X, Y: c.Min.Y}, {X: c.Min.X, Y: c.Max.Y}, {X: c.Max.X, Y: c.Max.Y}, {X: c.Max.X, Y: c.Min.Y},
	})
}
