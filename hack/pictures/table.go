package main

import (
	"sort"
	"strings"

	"github.com/go-analyze/charts"
)

// table has a line for each set of labels, with a column for each label and each query.
type table struct {
	labels, queries []string
	lines           []tableLine
}

type tableLine struct {
	labels []string
	values []cell // by query
}

// cell is a value, if the query has such a series.
type cell struct {
	value   float64
	isKnown bool
}

// labelOrder is the order of columns.
var labelOrder = []string{"tenant", "project", "service_type", "queue", "card"}

func newTable(p *panel) *table {
	t := &table{}
	present := map[string]bool{}
	for _, target := range p.Targets {
		t.queries = append(t.queries, target.LegendFormat)
		for _, s := range target.Answer {
			for name := range s.Metric {
				present[name] = true
			}
		}
	}

	for _, name := range labelOrder {
		if present[name] {
			t.labels = append(t.labels, name)
		}
	}

	byKey := map[string]*tableLine{}
	var keys []string
	for q, target := range p.Targets {
		for _, s := range target.Answer {
			var labels []string
			for _, name := range t.labels {
				labels = append(labels, s.Metric[name])
			}

			key := strings.Join(labels, "\x00")
			one := byKey[key]
			if one == nil {
				one = &tableLine{labels: labels, values: make([]cell, len(p.Targets))}
				byKey[key] = one
				keys = append(keys, key)
			}

			if len(s.Values) > 0 {
				one.values[q] = cell{s.Values[len(s.Values)-1].value, true}
			}
		}
	}

	sort.Strings(keys)
	for _, key := range keys {
		t.lines = append(t.lines, *byKey[key])
	}

	return t
}

const (
	tableTop   = 38
	lineHeight = 25
)

func tableHeight(t *table) int { return max(numberHeight, tableTop+lineHeight*(len(t.lines)+1)+12) }

// drawTable draws texts at the left of their columns, and numbers at the right.
func drawTable(p *charts.Painter, t *table, unit string) {
	const padding = 14
	head := font(9.5, textColor)
	body := font(10, titleColor)

	texts := [][]string{append(append([]string{}, t.labels...), t.queries...)}
	for _, one := range t.lines {
		cells := append([]string{}, one.labels...)
		for _, v := range one.values {
			text := ""
			if v.isKnown {
				text = formatValue(v.value, unit)
			}
			cells = append(cells, text)
		}
		texts = append(texts, cells)
	}

	widths := make([]int, len(texts[0]))
	sum := 0
	for i := range widths {
		for n, cells := range texts {
			style := body
			if n == 0 {
				style = head
			}
			widths[i] = max(widths[i], p.MeasureText(cells[i], 0, style).Width())
		}
		sum += widths[i]
	}

	space := max(10, (p.Width()-2*padding-sum)/max(1, len(widths)-1))
	for n, cells := range texts {
		style := body
		y := tableTop + lineHeight*n + 16
		if n == 0 {
			style = head
		}

		line := charts.Color{R: 232, G: 234, B: 238, A: 255}
		p.LineStroke([]charts.Point{{X: padding, Y: y + 8}, {X: p.Width() - padding, Y: y + 8}}, line, 1)
		x := padding
		for i, cell := range cells {
			at := x
			if i >= len(t.labels) {
				at = x + widths[i] - p.MeasureText(cell, 0, style).Width()
			}
			p.Text(cell, at, y, 0, style)
			x += widths[i] + space
		}
	}
}
