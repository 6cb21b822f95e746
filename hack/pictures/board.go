package main

import (
	"fmt"
	"time"

	"github.com/go-analyze/charts"
)

// Sizes in pixels. A picture is as wide as GitHub shows it on a large screen.
const (
	pictureWidth = 1248
	columns      = 24
	margin       = 12
	headHeight   = 62
	graphHeight  = 250
	numberHeight = 120
)

var (
	pageColor   = charts.Color{R: 240, G: 242, B: 245, A: 255}
	panelColor  = charts.ColorWhite
	borderColor = charts.Color{R: 220, G: 223, B: 228, A: 255}
	titleColor  = charts.Color{R: 30, G: 34, B: 42, A: 255}
	textColor   = charts.Color{R: 88, G: 94, B: 104, A: 255}
)

// row is a row of panels that begin at one height.
type row struct {
	panels []*panel
	height int
}

// rows returns the rows of a board. A row is as high as its contents need.
func (r *recording) rows(b *board) (all []row) {
	for i := range b.Panels {
		p := &b.Panels[i]
		if i == 0 || p.GridPos.Y != b.Panels[i-1].GridPos.Y {
			all = append(all, row{})
		}
		last := &all[len(all)-1]
		last.panels = append(last.panels, p)
		last.height = max(last.height, r.panelHeight(p))
	}
	return all
}

func (r *recording) panelHeight(p *panel) int {
	switch p.Type {
	case "table":
		return tableHeight(newTable(p))
	case "stat":
		return numberHeight
	default:
		return graphHeight
	}
}

// drawBoard returns the picture of a board as PNG.
func (r *recording) drawBoard(b *board) ([]byte, error) {
	rows := r.rows(b)
	height := headHeight
	for _, row := range rows {
		height += row.height + margin
	}

	page := charts.NewPainter(charts.PainterOptions{OutputFormat: charts.ChartOutputPNG, Width: pictureWidth, Height: height})
	page.FilledRect(0, 0, pictureWidth, height, pageColor, pageColor, 0)
	page.Text(b.Title, margin+4, 30, 0, font(17, titleColor))
	page.Text(r.caption(), margin+4, 50, 0, font(10, textColor))

	top := headHeight
	for _, row := range rows {
		for _, p := range row.panels {
			column := float64(pictureWidth-margin) / columns
			left := margin + int(float64(p.GridPos.X)*column)
			right := int(float64(p.GridPos.X+p.GridPos.W) * column)
			place := charts.Box{Left: left, Top: top, Right: right, Bottom: top + row.height, IsSet: true}
			if err := r.drawPanel(page.Child(charts.PainterBoxOption(place)), p); err != nil {
				return nil, fmt.Errorf("panel %q: %w", p.Title, err)
			}
		}
		top += row.height + margin
	}

	return page.Bytes()
}

// caption says what the picture shows.
func (r *recording) caption() string {
	shown := r.To.Sub(r.From).Round(time.Second)
	return fmt.Sprintf("A day of a local cluster, played in %d min %d s. Times are minutes and seconds. "+
		"Drawn from the answers of Prometheus to the queries of this board, without Grafana.", shown/time.Minute, shown%time.Minute/time.Second)
}

func (r *recording) drawPanel(p *charts.Painter, of *panel) error {
	p.FilledRect(0, 0, p.Width(), p.Height(), panelColor, borderColor, 1)
	p.Text(of.Title, 14, 23, 0, font(11, titleColor))
	switch of.Type {
	case "table":
		drawTable(p, newTable(of), of.FieldConfig.Defaults.Unit)
		return nil
	case "stat":
		r.drawNumber(p, of)
		return nil
	case "timeseries":
		r.drawGraph(p, of)
		return nil
	}

	return fmt.Errorf("a panel of type %q cannot be drawn", of.Type)
}

// drawNumber draws the last value of a panel.
func (r *recording) drawNumber(p *charts.Painter, of *panel) {
	text := "no data"
	if all := of.Targets[0].Answer; len(all) > 0 && len(all[0].Values) > 0 {
		text = formatValue(all[0].Values[len(all[0].Values)-1].value, of.FieldConfig.Defaults.Unit)
	}
	style := font(30, charts.Color{R: 0, G: 90, B: 150, A: 255})
	size := p.MeasureText(text, 0, style)
	p.Text(text, (p.Width()-size.Width())/2, (p.Height()+size.Height())/2+12, 0, style)
}

func font(size float64, color charts.Color) charts.FontStyle {
	return charts.FontStyle{FontSize: size, FontColor: color, Font: charts.GetDefaultFont()}
}
