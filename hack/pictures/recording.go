package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"time"
)

// recording is what test/monitoring/cmd/record writes: the boards with Prometheus' answers.
type recording struct {
	From, To time.Time
	// Interval is the time between two values, in seconds.
	Interval float64
	Boards   []board
}

type board struct {
	Name, Title string
	Panels      []panel
}

type panel struct {
	Title, Type string
	GridPos     struct{ X, Y, W, H int }
	FieldConfig struct {
		Defaults struct {
			Unit   string
			Custom struct{ Stacking struct{ Mode string } }
		}
	}
	Targets []target
}

type target struct {
	LegendFormat string
	Answer       []series
}

type series struct {
	Metric map[string]string
	Values []sample
}

// sample is a time in seconds and a value.
type sample struct{ at, value float64 }

// UnmarshalJSON reads Prometheus' notation: [1763888400.123, "1.5"].
func (s *sample) UnmarshalJSON(text []byte) error {
	var value string
	if err := json.Unmarshal(text, &[]any{&s.at, &value}); err != nil {
		return fmt.Errorf("sample %s: %w", text, err)
	}
	var err error
	s.value, err = strconv.ParseFloat(value, 64)
	return err
}

func readRecording(file string) (*recording, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}

	r := &recording{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("recording %s: %w", file, err)
	}
	if r.Interval <= 0 || !r.From.Before(r.To) || len(r.Boards) == 0 {
		return nil, fmt.Errorf("recording %s: it shows nothing", file)
	}

	return r, nil
}

var label = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)

// legend returns the name of a series as Grafana writes it: "{{queue}} {{card}}".
func (t *target) legend(s *series) string {
	name := label.ReplaceAllStringFunc(t.LegendFormat, func(reference string) string {
		return s.Metric[label.FindStringSubmatch(reference)[1]]
	})
	return strings.TrimSpace(name)
}

// line is a series with a value for each step of the shown time.
type line struct {
	name   string
	values []float64 // NaN is none
}

// lines returns all series of a panel by name. missing is the value where a series has none.
func (r *recording) lines(p *panel, missing float64) []line {
	steps := r.steps()
	var all []line
	for i := range p.Targets {
		t := &p.Targets[i]
		for j := range t.Answer {
			one := line{name: t.legend(&t.Answer[j]), values: make([]float64, steps)}
			for k := range one.values {
				one.values[k] = missing
			}

			for _, s := range t.Answer[j].Values {
				if k := r.step(s.at); k >= 0 && k < steps {
					one.values[k] = s.value
				}
			}
			all = append(all, one)
		}
	}

	sort.SliceStable(all, func(i, j int) bool { return all[i].name < all[j].name })
	return all
}

// steps returns the number of values of a series that has one at each step.
func (r *recording) steps() int { return int(r.To.Sub(r.From).Seconds()/r.Interval) + 1 }

// step returns the index of a time in seconds.
func (r *recording) step(at float64) int {
	return int((at-float64(r.From.UnixMilli())/1000)/r.Interval + 0.5)
}
