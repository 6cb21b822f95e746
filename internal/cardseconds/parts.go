package cardseconds

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

const (
	// Parts is how many texts hold all sums. A ConfigMap holds 1 MiB.
	Parts = 8
	// maxPartSize is the size up to which a part takes more sums. It leaves room for their digits.
	maxPartSize = 800 << 10
)

// row is one sum in a part, as a line of JSON.
type row struct {
	Queue       string  `json:"queue"`
	Tenant      string  `json:"tenant"`
	Project     string  `json:"project,omitempty"`
	Namespace   string  `json:"namespace,omitempty"`
	ServiceType string  `json:"type"`
	Card        string  `json:"card"`
	Seconds     float64 `json:"cardSeconds"`
	// GrewAt is rounded up, so that no second counts twice.
	GrewAt int64 `json:"at"`
}

// Load adds stored sums to what was summed up since the start. It returns an error for lines that
// it cannot read, and loads the others.
func (m *Meter) Load(parts [Parts]string) error {
	var unreadable []error
	for i, text := range parts {
		for line := range strings.Lines(text) {
			var r row
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				unreadable = append(unreadable, fmt.Errorf("part %d: %w", i, err))
				continue
			}
			if math.IsNaN(r.Seconds) || math.IsInf(r.Seconds, 0) || r.Seconds < 0 {
				unreadable = append(unreadable, fmt.Errorf("part %d: %s has %v card-seconds", i, r.Queue, r.Seconds))
				continue
			}
			series := Series{Tenant: r.Tenant, Project: r.Project, Queue: r.Queue, Namespace: r.Namespace, Card: r.Card, ServiceType: r.ServiceType}
			grewAt := time.Unix(r.GrewAt, 0)
			m.add(series, r.Seconds, grewAt, i)
			if grewAt.After(m.loadedUntil) {
				m.loadedUntil = grewAt
			}
		}
	}
	return errors.Join(unreadable...)
}

// Store returns the parts that hold all sums, and how many sums have no room. A sum stays in its
// part, so that it is in one whenever the writer stops between two parts. Store rounds the sums:
// a counter that falls after a restart would count as a new start.
func (m *Meter) Store(now time.Time) (parts [Parts]string, left int) {
	m.forgetIdle(now)
	for _, s := range m.sums {
		s.seconds = math.Round(s.seconds*10) / 10
	}
	var texts [Parts]strings.Builder
	var added []Series
	for _, series := range m.sorted() {
		if s := m.sums[series]; s.part >= 0 {
			texts[s.part].WriteString(s.line(series))
		} else {
			added = append(added, series)
		}
	}
	part := 0
	for _, series := range added {
		s := m.sums[series]
		line := s.line(series)
		for part < Parts && texts[part].Len()+len(line) > maxPartSize {
			part++
		}
		if part == Parts {
			left++
			continue
		}
		s.part = part
		texts[part].WriteString(line)
	}
	for i := range texts {
		parts[i] = texts[i].String()
	}
	return parts, left
}

func (s *sum) line(series Series) string {
	text, err := json.Marshal(row{
		Queue: series.Queue, Tenant: series.Tenant, Project: series.Project, Namespace: series.Namespace, ServiceType: series.ServiceType, Card: series.Card,
		Seconds: s.seconds, GrewAt: s.grewAt.Add(time.Second - 1).Unix(),
	})
	if err != nil { // no field can fail
		return ""
	}
	return string(text) + "\n"
}
