package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newRecording returns a recording of the boards of config/grafana, with three series of 60 values for each
// query.
func newRecording(t *testing.T) *recording {
	t.Helper()
	files, err := filepath.Glob("../../config/grafana/*.json")
	require.True(t, err == nil && len(files) >= 4, "boards %v, %v", files, err)

	begin := time.Unix(1763888400, 0)
	r := &recording{From: begin, To: begin.Add(time.Minute), Interval: 1}
	for _, file := range files {
		text, err := os.ReadFile(file)
		b := board{Name: strings.TrimSuffix(filepath.Base(file), ".json")}

		if err == nil {
			err = json.Unmarshal(text, &b)
		}
		require.NoError(t, err)

		for _, p := range b.Panels {
			for i := range p.Targets {
				for n := range 3 {
					one := series{Metric: map[string]string{"queue": fmt.Sprint("queue-", n), "card": "NVIDIA-H200"}}
					for k := range 60 {
						one.Values = append(one.Values, sample{float64(begin.Unix() + int64(k)), float64(n + k)})
					}
					p.Targets[i].Answer = append(p.Targets[i].Answer, one)
				}
			}
		}

		r.Boards = append(r.Boards, b)
	}

	return r
}

// TestEveryBoardCanBeDrawnAndIsShown: docs/metrics.md shows a picture of each board, which this program draws
// from the recorded answers of a real Prometheus. Each board of config/grafana must give a picture, and the
// page must show its file.
func TestEveryBoardCanBeDrawnAndIsShown(t *testing.T) {
	document, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)

	r := newRecording(t)
	for i := range r.Boards {
		b := &r.Boards[i]
		drawn, err := r.drawBoard(b)
		require.NoError(t, err)
		size, err := png.DecodeConfig(bytes.NewReader(drawn))
		require.NoError(t, err)
		assert.True(t, size.Width == pictureWidth && size.Height >= 400, "the picture of %s is %d × %d", b.Name, size.Width, size.Height)

		name := "images/board-" + b.Name + ".png"
		_, err = os.Stat("../../docs/" + name)
		require.NoError(t, err)
		assert.True(t, strings.Contains(string(document), "]("+name+")"), "docs/metrics.md does not show docs/%s", name)
	}
}

// TestAPanelOfAnUnknownTypeIsRefused: this program draws only the types that the boards use. A new type must be
// an error, and not a hole in the picture.
func TestAPanelOfAnUnknownTypeIsRefused(t *testing.T) {
	r := newRecording(t)
	r.Boards[0].Panels[0].Type = "piechart"
	_, err := r.drawBoard(&r.Boards[0])
	assert.True(t, err != nil && strings.Contains(err.Error(), `"piechart" cannot be drawn`), "error %v", err)
}

// TestALineHasAValueForEachStepOfTheRecording: the recording has five steps, from 100 s to 104 s. A series has
// a value at some of them, and the others get the placeholder, -1 here. A value at 101.6 s belongs to the
// nearest step, 102 s, and one at 200 s is outside. Lines are sorted by their legend.
func TestALineHasAValueForEachStepOfTheRecording(t *testing.T) {
	r := &recording{From: time.Unix(100, 0), To: time.Unix(104, 0), Interval: 1}
	p := &panel{Targets: []target{{LegendFormat: "{{queue}} {{ card }}", Answer: []series{
		{Metric: map[string]string{"queue": "q", "card": "B"}, Values: []sample{{101.6, 7}, {104, 9}, {200, 1}}},
		{Metric: map[string]string{"queue": "q", "card": "A"}, Values: []sample{{100, 1}}},
	}}}}

	lines := r.lines(p, -1)
	require.True(t, len(lines) == 2 && lines[0].name == "q A" && lines[1].name == "q B", "lines %+v, want q A and q B", lines)
	assert.True(t, slices.Equal(lines[1].values, []float64{-1, -1, 7, -1, 9}), "values of q B: %v", lines[1].values)
}

// TestATableHasARowForEachQueueAndAColumnForEachQuery: query Quota has a value for queues a and b, query Used only for b.
// Both are joined by their labels, and sorted. A value that is not there is not known, which is not 0.
func TestATableHasARowForEachQueueAndAColumnForEachQuery(t *testing.T) {
	answer := func(queue string, value float64) series {
		return series{Metric: map[string]string{"queue": queue}, Values: []sample{{100, value}}}
	}
	rows := newTable(&panel{Targets: []target{
		{LegendFormat: "Quota", Answer: []series{answer("b", 4), answer("a", 2)}},
		{LegendFormat: "Used", Answer: []series{answer("b", 3)}},
	}}).lines

	require.True(t, len(rows) == 2 && rows[0].labels[0] == "a", "rows %+v, want those of a and b", rows)
	assert.True(t, !rows[0].values[1].isKnown, "used of a is %v, want it not known", rows[0].values[1])
	assert.True(t, rows[1].values[1].value == 3, "used of b is %v, want 3", rows[1].values[1])
}

// TestValuesHaveAtMostThreeDigitsAndAUnit: a panel has little space. Large numbers get a K, short times are in
// ms and long ones in min, and a yes or no is written as such.
func TestValuesHaveAtMostThreeDigitsAndAUnit(t *testing.T) {
	for _, c := range []struct {
		value      float64
		unit, want string
	}{
		{0, "short", "0"},
		{48, "short", "48"},
		{1234.5, "short", "1.23 K"},
		{2.0 / 3, "short", "0.667"},
		{0, "s", "0 s"},
		{0.0025, "s", "2.5 ms"},
		{42, "s", "42 s"},
		{600, "s", "10 min"},
		{1, "bool_yes_no", "Yes"},
		{0, "bool_yes_no", "No"},
	} {
		got := formatValue(c.value, c.unit)

		assert.True(t, got == c.want, "%v %s: %q, want %q", c.value, c.unit, got, c.want)
	}
}

// TestAnAxisReachesTheGreatestValueInAtMostFiveSteps: an axis begins at 0, and has the smallest step with which
// at most five reach the greatest value. A step is 1, 2 or 5 times a power of ten, of minutes from 90 s on, and
// whole where things are counted. Without a value above 0 there is one step of 1. Each row is the greatest
// value in seconds, and the axis as {step, number of steps}. 48 s give 5 steps of 10 s, and 36,000 s, which are
// 600 min, give 3 steps of 200 min.
func TestAnAxisReachesTheGreatestValueInAtMostFiveSteps(t *testing.T) {
	for greatest, want := range map[float64]axis{
		0:     {1, 1},
		0.013: {0.005, 3},
		1:     {0.2, 5},
		8:     {2, 4},
		48:    {10, 5},
		170:   {60, 3},
		36000: {12000, 3},
	} {
		got := newAxis(greatest, "s")
		isWanted := math.Abs(got.step-want.step) <= want.step*1e-9 && got.steps == want.steps
		assert.True(t, isWanted && got.top() >= greatest, "%v s: %+v, want %+v", greatest, got, want)
	}

	got := newAxis(2, "short")
	assert.True(t, got == axis{1, 2}, "2 cards: %+v, want whole steps of 1", got)
}
