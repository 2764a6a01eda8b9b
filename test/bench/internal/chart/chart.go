// Package chart draws what was measured, as SVG.
package chart

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/redlatch/redlatch/test/bench/internal/peer"
	"github.com/redlatch/redlatch/test/bench/internal/plan"
	"github.com/redlatch/redlatch/test/bench/internal/result"
	"github.com/redlatch/redlatch/test/bench/internal/stat"
)

// chart is one picture: a group of bars for each scenario, a bar for each peer.
type chart struct {
	file, title, axis string
	groups            []group
	value             func(t *result.Table, round int, scenario, name string) (float64, bool)
	log               bool
}

type group struct{ scenario, label string }

var (
	uncontended = []group{{"R1", "1 goroutine"}, {"R2 4", "4"}, {"R2", "16"}, {"R3", "128"}, {"R4", "1024"}}
	far         = []group{{plan.Far128, "128 goroutines"}, {plan.Far1024, "1024"}}
	hot         = []group{{plan.HotOne, "1 process × 100"}, {plan.HotFour, "4 processes × 25"}, {plan.HotSection, "4 × 25, held 1 ms"}}
	tries       = []group{{plan.Elsewhere, "held elsewhere"}, {plan.Here, "held by this process"}}

	charts = []chart{
		{"uncontended.svg", "Lock and unlock, a key for each goroutine", "throughput, floor = 1", uncontended, toFloor, false},
		{"cpu.svg", "CPU of client and Redis for lock and unlock", "µs per cycle", uncontended, cpu, false},
		{"latency.svg", "The same with 1 ms of network each way", "throughput, floor = 1", far, toFloor, false},
		{"hot.svg", "One key for all", "grants per second", hot, metric(result.Rate), true},
		{"fairness.svg", "One key for all: who is served", "Jain index, 1 = all alike", hot, metric(result.Jain), false},
		{"waits.svg", "One key for all: the 99th percentile of the waits", "ms", hot, metric(result.P99), true},
		{"tries.svg", "One attempt at a key that is held, 128 goroutines", "refusals per second", tries, metric(result.Rate), true},
	}
)

// colors of the peers, distinguishable also without seeing red and green.
var colors = map[string]color.Color{
	peer.Redlatch:      color.RGBA{R: 0xb2, G: 0x18, B: 0x2b, A: 255},
	peer.RedlatchSETNX: color.RGBA{R: 0xf4, G: 0xa5, B: 0x82, A: 255},
	peer.Redsync:       color.RGBA{R: 0x43, G: 0x93, B: 0xc3, A: 255},
	peer.Bsm:           color.RGBA{R: 0x92, G: 0xc5, B: 0xde, A: 255},
	peer.Rueidis1:      color.RGBA{R: 0xe0, G: 0x8a, B: 0x2b, A: 255},
	peer.Rueidis:       color.RGBA{R: 0xf7, G: 0xcf, B: 0x7a, A: 255},
	peer.Floor:         color.Gray{120},
	peer.Pipelined:     color.Gray{190},
}

func metric(name string) func(*result.Table, int, string, string) (float64, bool) {
	return func(t *result.Table, round int, scenario, peer string) (float64, bool) {
		return t.Get(round, scenario, peer, name)
	}
}

func toFloor(t *result.Table, round int, scenario, name string) (float64, bool) {
	ours, ok := t.Get(round, scenario, name, result.Rate)
	floor, found := t.Get(round, scenario, peer.Floor, result.Rate)
	return ours / floor, ok && found && floor > 0
}

func cpu(t *result.Table, round int, scenario, name string) (float64, bool) {
	client, ok := t.Get(round, scenario, name, result.ClientCPU)
	server, found := t.Get(round, scenario, name, result.RedisCPU)
	return client + server, ok && found
}

// Title is the title of the chart in the file name.svg.
func Title(name string) (string, bool) {
	i := slices.IndexFunc(charts, func(c chart) bool { return c.file == name+".svg" })
	if i < 0 {
		return "", false
	}
	return charts[i].title, true
}

// Write draws what there are figures for, each chart for light and for dark pages,
// and returns the names of the files.
func Write(t *result.Table, dir string) (files []string, err error) {
	for _, c := range charts {
		p, err := c.draw(t)
		if err != nil {
			return files, fmt.Errorf("chart: %s: %w", c.file, err)
		}
		if p == nil {
			continue
		}
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return files, fmt.Errorf("chart: %w", err)
		}
		svg, err := picture(p)
		if err != nil {
			return files, fmt.Errorf("chart: %w", err)
		}
		for name, content := range map[string][]byte{c.file: svg, Dark(c.file): darken(svg)} {
			file := filepath.Join(dir, name)
			if err := os.WriteFile(file, content, 0o644); err != nil {
				return files, fmt.Errorf("chart: %w", err)
			}
			files = append(files, file)
		}
	}
	slices.Sort(files)
	return files, nil
}

// Dark is the name of the file with the same chart for dark pages.
func Dark(file string) string { return strings.TrimSuffix(file, ".svg") + "-dark.svg" }

// darken changes the colors of the page, of what is written and of the lines.
func darken(svg []byte) []byte {
	return []byte(strings.NewReplacer(
		"fill:#FFFFFF", "fill:#0D1117",
		"<g transform=\"scale(1, -1)", "<g fill=\"#E6EDF3\" transform=\"scale(1, -1)",
		"stroke:#000000", "stroke:#E6EDF3",
		"stroke:#3C3C3C", "stroke:#C9D1D9",
		"fill:#B2182B", "fill:#E5484D",
	).Replace(string(svg)))
}

// Sizes of a picture.
const (
	width, height = 566, 255
	// plotted is about as wide as what lies right of the axis.
	plotted = 500
	// legend is the part of it that the legend has for itself, in groups per group.
	legend = 0.42
)

// picture writes the plot. Fonts are those of the reader.
func picture(p *plot.Plot) ([]byte, error) {
	canvas, err := p.WriterTo(vg.Points(width), vg.Points(height), "svg")
	if err != nil {
		return nil, err
	}
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return nil, err
	}
	return bytes.ReplaceAll(svg.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;")), nil
}

// draw returns nil if nothing of the chart was measured.
func (c chart) draw(t *result.Table) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.Y.Label.Text = c.title, c.axis
	for _, style := range []*font.Font{&p.Title.TextStyle.Font, &p.Y.Label.TextStyle.Font, &p.X.Tick.Label.Font, &p.Y.Tick.Label.Font, &p.Legend.TextStyle.Font} {
		style.Variant = "Sans"
	}
	c.groups = slices.DeleteFunc(slices.Clone(c.groups), func(g group) bool { return !t.Has(g.scenario) })
	series, names := c.series(t)
	if len(series) == 0 {
		return nil, nil
	}
	groups := float64(len(c.groups))
	step := vg.Points(plotted*0.85) / vg.Length(groups*(1+legend)*float64(len(series)))
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	p.Add(grid)
	for i, s := range series {
		s.width = step * 0.9
		s.offset = step * (vg.Length(i) - vg.Length(len(series)-1)/2)
		p.Add(s)
		p.Legend.Add(names[i], s)
	}
	p.Legend.Top, p.Legend.Left, p.Legend.ThumbnailWidth = true, true, vg.Points(10)
	p.Legend.XOffs = vg.Points(plotted / (1 + legend))
	p.Legend.TextStyle.Font.Size = vg.Points(10)
	labels := make([]string, len(c.groups))
	for i, g := range c.groups {
		labels[i] = g.label
	}
	p.NominalX(labels...)
	p.X.Min, p.X.Max = -0.5, groups*(1+legend)-0.5
	if c.log {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
		p.Y.Min = math.Pow(10, math.Floor(math.Log10(p.Y.Min)))
	} else {
		p.Y.Min = 0
	}
	return p, nil
}

// series are the bars of each peer that was measured.
func (c chart) series(t *result.Table) (all []*bars, names []string) {
	for _, other := range peer.All {
		paint, ok := colors[other.Name]
		if !ok {
			continue
		}
		s := &bars{color: paint}
		found := false
		for _, g := range c.groups {
			var values []float64
			for round := range t.Rounds() {
				if value, ok := c.value(t, round, g.scenario, other.Name); ok {
					values = append(values, value)
				}
			}
			spread := stat.Of(values)
			found = found || spread.N > 0 && spread.Median > 0
			s.values = append(s.values, spread)
		}
		if found {
			all, names = append(all, s), append(names, other.Name)
		}
	}
	return all, names
}
