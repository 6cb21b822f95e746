package main

import (
	"math"
	"time"

	"github.com/go-analyze/charts"
)

// seriesColors are distinct also for most who see colours differently (Okabe and Ito).
var seriesColors = []charts.Color{
	{R: 0, G: 114, B: 178, A: 255}, {R: 230, G: 159, B: 0, A: 255}, {R: 0, G: 158, B: 115, A: 255}, {R: 204, G: 121, B: 167, A: 255},
	{R: 86, G: 180, B: 233, A: 255}, {R: 213, G: 94, B: 0, A: 255}, {R: 120, G: 120, B: 120, A: 255},
}

const (
	graphTop    = 40
	graphLeft   = 58
	graphRight  = 20
	legendLine  = 20
	axisHeight  = 24
	legendLimit = 2 // lines
)

// graph is the plane of a panel of lines.
type graph struct {
	*charts.Painter
	unit                     string
	axis                     axis
	left, top, right, bottom int
	steps                    int
}

// drawGraph draws lines, or areas on top of each other.
func (r *recording) drawGraph(p *charts.Painter, of *panel) {
	stacked := of.FieldConfig.Defaults.Custom.Stacking.Mode == "normal"
	missing := math.NaN()
	if stacked {
		missing = 0 // a queue that is not there uses nothing
	}

	all := r.lines(of, missing)
	g := &graph{Painter: p, unit: of.FieldConfig.Defaults.Unit, left: graphLeft, top: graphTop, right: p.Width() - graphRight, steps: r.steps()}
	g.bottom = p.Height() - axisHeight - legendLine*g.drawLegend(all) - 8
	g.axis = newAxis(greatestValue(all, stacked), g.unit)
	g.drawAxes(r)
	if stacked {
		g.drawAreas(all)
		return
	}

	for i, one := range all {
		g.drawLine(one.values, seriesColors[i%len(seriesColors)])
	}
}

func greatestValue(all []line, stacked bool) float64 {
	greatest := 0.0
	if len(all) == 0 {
		return greatest
	}

	for k := range all[0].values {
		sum := 0.0
		for _, one := range all {
			if math.IsNaN(one.values[k]) {
				continue
			}
			sum += one.values[k]
			greatest = max(greatest, one.values[k])
		}

		if stacked {
			greatest = max(greatest, sum)
		}
	}

	return greatest
}

func (g *graph) x(step int) int {
	return g.left + (g.right-g.left)*step/max(1, g.steps-1)
}

func (g *graph) y(value float64) int {
	return g.bottom - int(math.Round(float64(g.bottom-g.top)*value/g.axis.top()))
}

// drawAxes draws the scale of values with its lines, and the time.
func (g *graph) drawAxes(r *recording) {
	style := font(9, textColor)
	grid := charts.Color{R: 232, G: 234, B: 238, A: 255}
	for i := 0; i <= g.axis.steps; i++ {
		value := g.axis.step * float64(i)
		y := g.y(value)
		g.LineStroke([]charts.Point{{X: g.left, Y: y}, {X: g.right, Y: y}}, grid, 1)
		text := formatValue(value, g.unit)
		g.Text(text, g.left-8-g.MeasureText(text, 0, style).Width(), y+4, 0, style)
	}

	shown := r.To.Sub(r.From)
	tick := 30 * time.Second
	for shown/tick > 8 {
		tick *= 2
	}

	for at := time.Duration(0); at <= shown; at += tick {
		x := g.left + int(float64(g.right-g.left)*at.Seconds()/shown.Seconds())
		g.LineStroke([]charts.Point{{X: x, Y: g.bottom}, {X: x, Y: g.bottom + 4}}, textColor, 1)
		text := formatClock(at)
		g.Text(text, x-g.MeasureText(text, 0, style).Width()/2, g.bottom+17, 0, style)
	}
}

// drawLine draws a series. A value that is missing is a gap.
func (g *graph) drawLine(values []float64, color charts.Color) {
	var part []charts.Point
	for k, value := range values {
		if !math.IsNaN(value) {
			part = append(part, charts.Point{X: g.x(k), Y: g.y(value)})
		}

		if math.IsNaN(value) || k == len(values)-1 {
			if len(part) > 1 {
				g.LineStroke(part, color, 2)
			} else if len(part) == 1 {
				g.Dots(part, color, color, 1, 2)
			}
			part = nil
		}
	}
}

// drawAreas draws series on top of each other, the first at the bottom.
func (g *graph) drawAreas(all []line) {
	below := make([]float64, g.steps)
	for i, one := range all {
		color := seriesColors[i%len(seriesColors)]
		above := make([]float64, g.steps)
		var edge, area []charts.Point
		for k := range above {
			above[k] = below[k] + one.values[k]
			edge = append(edge, charts.Point{X: g.x(k), Y: g.y(above[k])})
		}

		area = append(area, edge...)
		for k := g.steps - 1; k >= 0; k-- {
			area = append(area, charts.Point{X: g.x(k), Y: g.y(below[k])})
		}

		fill := color
		fill.A = 120
		g.FillArea(append(area, area[0]), fill)
		g.LineStroke(edge, color, 1.5)
		below = above
	}
}

// drawLegend draws the names of the series at the bottom, and returns how many lines they need.
func (g *graph) drawLegend(all []line) int {
	const (
		swatch = 14
		gap    = 22
	)

	style := font(9.5, textColor)
	lines := [][]int{nil}
	x := g.left

	widths := make([]int, len(all))
	for i, one := range all {
		widths[i] = swatch + 6 + g.MeasureText(one.name, 0, style).Width() + gap
		if x+widths[i]-gap > g.right && len(lines[len(lines)-1]) > 0 && len(lines) < legendLimit {
			lines = append(lines, nil)
			x = g.left
		}
		lines[len(lines)-1] = append(lines[len(lines)-1], i)
		x += widths[i]
	}

	for n, members := range lines {
		x := g.left
		y := g.Height() - 8 - legendLine*(len(lines)-n-1)
		for _, i := range members {
			color := seriesColors[i%len(seriesColors)]
			g.FilledRect(x, y-8, x+swatch, y-4, color, color, 0)
			g.Text(all[i].name, x+swatch+6, y, 0, style)
			x += widths[i]
		}
	}

	return len(lines)
}
