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
)

// expectThat reports a failed condition.
func expectThat(t *testing.T, holds bool, format string, args ...any) {
	t.Helper()
	if !holds {
		t.Errorf(format, args...)
	}
}

// requireThat is expectThat, but ends the test.
func requireThat(t *testing.T, holds bool, format string, args ...any) {
	t.Helper()
	if !holds {
		t.Fatalf(format, args...)
	}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// recordingOf returns a recording of the boards of config/grafana, with series for each query.
func recordingOf(t *testing.T) *recording {
	t.Helper()
	files, err := filepath.Glob("../../config/grafana/*.json")
	requireThat(t, err == nil && len(files) >= 4, "boards %v, %v", files, err)

	begin := time.Unix(1763888400, 0)
	r := &recording{From: begin, To: begin.Add(time.Minute), Interval: 1}
	for _, file := range files {
		text, err := os.ReadFile(file)
		b := board{Name: strings.TrimSuffix(filepath.Base(file), ".json")}

		if err == nil {
			err = json.Unmarshal(text, &b)
		}
		noError(t, err)

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

// TestEveryBoardCanBeDrawn draws each board of config/grafana, and checks that the documents show
// the picture of each.
func TestEveryBoardCanBeDrawn(t *testing.T) {
	document, err := os.ReadFile("../../docs/metrics.md")
	noError(t, err)

	r := recordingOf(t)
	for i := range r.Boards {
		b := &r.Boards[i]
		drawn, err := r.drawBoard(b)
		noError(t, err)
		if size, err := png.DecodeConfig(bytes.NewReader(drawn)); err != nil || size.Width != pictureWidth || size.Height < 400 {
			t.Errorf("%s: %+v, %v", b.Name, size, err)
		}

		name := "images/board-" + b.Name + ".png"
		if _, err := os.Stat("../../docs/" + name); err != nil || !strings.Contains(string(document), "]("+name+")") {
			t.Errorf("docs/metrics.md does not show docs/%s (%v)", name, err)
		}
	}
}

func TestPanelsOfUnknownTypesAreReported(t *testing.T) {
	r := recordingOf(t)
	r.Boards[0].Panels[0].Type = "piechart"
	_, err := r.drawBoard(&r.Boards[0])
	expectThat(t, err != nil && strings.Contains(err.Error(), `"piechart" cannot be drawn`), "error %v", err)
}

func TestLinesHaveAValueForEachStep(t *testing.T) {
	r := &recording{From: time.Unix(100, 0), To: time.Unix(104, 0), Interval: 1}
	p := &panel{Targets: []target{{LegendFormat: "{{queue}} {{ card }}", Answer: []series{
		{Metric: map[string]string{"queue": "q", "card": "B"}, Values: []sample{{101.1, 7}, {104, 9}, {200, 1}}},
		{Metric: map[string]string{"queue": "q", "card": "A"}, Values: []sample{{100, 1}}},
	}}}}
	got := r.lines(p, -1)
	expectThat(t, len(got) == 2 && got[0].name == "q A" && got[1].name == "q B" && slices.Equal(got[1].values, []float64{-1, 7, -1, -1, 9}), "lines %+v", got)
}

func TestTablesJoinQueriesByLabels(t *testing.T) {
	answer := func(queue string, value float64) series {
		return series{Metric: map[string]string{"queue": queue}, Values: []sample{{100, value}}}
	}
	got := newTable(&panel{Targets: []target{
		{LegendFormat: "Quota", Answer: []series{answer("b", 4), answer("a", 2)}},
		{LegendFormat: "Used", Answer: []series{answer("b", 3)}},
	}})
	expectThat(t, len(got.lines) == 2 && got.lines[0].labels[0] == "a" && !got.lines[0].values[1].isKnown && got.lines[1].values[1].value == 3, "table %+v", got)
}

func TestValuesAreShort(t *testing.T) {
	for _, c := range []struct {
		value      float64
		unit, want string
	}{
		{0, "short", "0"}, {48, "short", "48"}, {1234.5, "short", "1.23 K"}, {2.0 / 3, "short", "0.667"},
		{0, "s", "0 s"}, {0.0025, "s", "2.5 ms"}, {42, "s", "42 s"}, {600, "s", "10 min"}, {1, "bool_yes_no", "Yes"}, {0, "bool_yes_no", "No"},
	} {
		got := formatValue(c.value, c.unit)
		expectThat(t, got == c.want, "%v %s: %q, want %q", c.value, c.unit, got, c.want)
	}
}

func TestAxesBeginAtZeroAndReachTheGreatestValue(t *testing.T) {
	for greatest, want := range map[float64]axis{0: {1, 1}, 1: {0.2, 5}, 8: {2, 4}, 48: {10, 5}, 0.013: {0.005, 3}, 170: {60, 3}, 36000: {12000, 3}} {
		got := newAxis(greatest, "s")
		expectThat(t, math.Abs(got.step-want.step) <= want.step*1e-9 && got.steps == want.steps && got.top() >= greatest, "%v: %+v, want %+v", greatest, got, want)
	}
	if got := newAxis(3, "short"); got != (axis{1, 3}) {
		t.Errorf("3 whole things: %+v", got)
	}
}
