package cardseconds

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// Parts is how many running parts there are, each in a ConfigMap of its own.
	Parts = 16
	// MaxPartSize is the size up to which a running part takes more sums, and a ConfigMap more entries. A
	// ConfigMap takes 1 MiB, so digits may be added.
	MaxPartSize = 800 << 10
)

// rowGrowth is how many bytes a row may grow after it got its part: longer numbers, and the day and the month
// that begin before those before them are closed. With it, a part stays below what the API server takes.
const rowGrowth = 112

// maxRunningSize is MaxPartSize, or less in tests. Each row counts with its growth.
var maxRunningSize = MaxPartSize

// Header is the first line of a running part. A part of an earlier version has none.
type Header struct {
	// CountedUntil is until when the sums of the part are counted.
	CountedUntil time.Time `json:"countedUntil"`
	TimeZone     string    `json:"timeZone"`
	// Since is when the first leader began to count.
	Since time.Time `json:"since"`
	// ClosedDay and ClosedMonth are the last ones that left the part.
	ClosedDay   Period `json:"closedDay,omitempty"`
	ClosedMonth Period `json:"closedMonth,omitempty"`
	// DaysDropped is the last day that is stored no more, LackedRoom whether that was before its time.
	DaysDropped Period `json:"daysDropped,omitempty"`
	LackedRoom  bool   `json:"lackedRoom,omitempty"`
}

// row is one sum in a text, as a line of JSON.
type row struct {
	Queue       string  `json:"queue,omitempty"`
	Tenant      string  `json:"tenant,omitempty"`
	Project     string  `json:"project,omitempty"`
	Namespace   string  `json:"namespace,omitempty"`
	ServiceType string  `json:"type"`
	Card        string  `json:"card"`
	Seconds     seconds `json:"cardSeconds"`
	// GrewAt is in whole seconds, rounded up.
	GrewAt int64 `json:"at,omitempty"`
	// Open are the sums of days and months that are not closed.
	Open map[Period]seconds `json:"open,omitempty"`
}

// seconds is a number of card-seconds, written as a decimal.
type seconds Milli

// MarshalJSON implements json.Marshaler.
func (s seconds) MarshalJSON() ([]byte, error) { return []byte(Milli(s).String()), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (s *seconds) UnmarshalJSON(text []byte) error {
	var value float64
	if err := json.Unmarshal(text, &value); err != nil {
		return err
	}
	if math.IsNaN(value) || value < 0 || value > float64(maxMilli)/1000 {
		return fmt.Errorf("%v is no number of card-seconds", value)
	}
	*s = seconds(math.Round(value * 1000))
	return nil
}

// String returns the card-seconds as a decimal.
func (m Milli) String() string {
	text := strconv.FormatInt(int64(m/1000), 10)
	rest := int64(m % 1000)
	if rest == 0 {
		return text
	}
	decimals := strconv.FormatInt(1000+rest, 10)[1:] // three digits, with zeros in front
	return text + "." + strings.TrimRight(decimals, "0")
}

func newRow(series Series, amount Milli) row {
	return row{
		Queue: series.Queue, Tenant: series.Tenant, Project: series.Project, Namespace: series.Namespace,
		ServiceType: series.ServiceType, Card: series.Card, Seconds: seconds(amount),
	}
}

func (r *row) series() Series {
	return Series{Tenant: r.Tenant, Project: r.Project, Queue: r.Queue, Namespace: r.Namespace, Card: r.Card, ServiceType: r.ServiceType}
}

// line returns a row as a line. It writes the same as package json, in a tenth of the time: a leader with 40,000
// sums writes them every 30 seconds.
func (r *row) line() string {
	line := make([]byte, 0, 256)
	line = append(line, '{')
	for _, field := range []struct{ name, value string }{{"queue", r.Queue}, {"tenant", r.Tenant}, {"project", r.Project}, {"namespace", r.Namespace}} {
		if field.value != "" {
			line = append(appendField(line, field.name, field.value), ',')
		}
	}

	line = append(appendField(line, "type", r.ServiceType), ',')
	line = append(appendField(line, "card", r.Card), `,"cardSeconds":`...)
	line = append(line, Milli(r.Seconds).String()...)
	if r.GrewAt != 0 {
		line = strconv.AppendInt(append(line, `,"at":`...), r.GrewAt, 10)
	}

	if len(r.Open) > 0 {
		line = append(line, `,"open":{`...)
		for i, period := range slices.Sorted(maps.Keys(r.Open)) {
			if i > 0 {
				line = append(line, ',')
			}
			line = append(appendString(line, string(period)), ':')
			line = append(line, Milli(r.Open[period]).String()...)
		}
		line = append(line, '}')
	}

	return string(append(line, '}', '\n'))
}

func appendField(line []byte, name, value string) []byte {
	line = append(append(append(line, '"'), name...), '"', ':')
	return appendString(line, value)
}

// appendString appends a string as JSON. Package json writes it if a character must be escaped.
func appendString(line []byte, value string) []byte {
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || strings.IndexByte(`"\<>&`, c) >= 0 {
			quoted, _ := json.Marshal(value) // a string cannot fail
			return append(line, quoted...)
		}
	}
	return append(append(append(line, '"'), value...), '"')
}

// Running is a running part that was read.
type Running struct {
	Header Header
	Rows   []RunningRow
}

// RunningRow is a sum of a running part.
type RunningRow struct {
	Series
	Total  Milli
	GrewAt time.Time
	Open   map[Period]Milli
}

// IsIdle reports whether the total has not grown for so long that the metric drops it.
func (r *RunningRow) IsIdle(now time.Time) bool { return now.Sub(r.GrewAt) > idleTime }

// ParseRunning reads a running part. It returns an error for lines that it cannot read, and reads the others.
func ParseRunning(text string) (Running, error) {
	var read Running
	var unreadable []error
	isFirst := true
	for line := range strings.Lines(text) {
		// Earlier versions wrote no header, so the first line can be a row.
		if isFirst {
			isFirst = false
			if strings.HasPrefix(line, `{"countedUntil"`) {
				unreadable = append(unreadable, json.Unmarshal([]byte(line), &read.Header))
				continue
			}
		}

		var r row
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			unreadable = append(unreadable, err)
			continue
		}

		running := RunningRow{Series: r.series(), Total: Milli(r.Seconds), GrewAt: time.Unix(r.GrewAt, 0), Open: map[Period]Milli{}}
		for period, amount := range r.Open {
			if period.isValid() {
				running.Open[period] = Milli(amount)
			} else {
				unreadable = append(unreadable, fmt.Errorf("%.40q is no day and no month", period))
			}
		}
		read.Rows = append(read.Rows, running)
	}

	return read, errors.Join(unreadable...)
}

// Load adds a running part that is stored to what was summed up since the start. has reports whether a day or
// month of the part has an entry: then that has the sums, and those of the part are left out. Load returns an
// error for lines that it cannot read, and loads the others.
func (m *Meter) Load(part int, text string, has func(Period) bool) error {
	read, err := ParseRunning(text)
	if err != nil {
		err = fmt.Errorf("part %d: %w", part, err)
	}

	p := &m.parts[part]
	h := &read.Header
	p.closedDay = max(p.closedDay, h.ClosedDay)
	p.closedMonth = max(p.closedMonth, h.ClosedMonth)
	p.countedUntil = h.CountedUntil

	m.daysDropped = max(m.daysDropped, h.DaysDropped)
	m.lackedRoom = m.lackedRoom || h.LackedRoom
	if !h.Since.IsZero() && (m.since.IsZero() || h.Since.Before(m.since)) {
		m.since = h.Since
	}

	for i := range read.Rows {
		r := &read.Rows[i]
		s := m.addTotal(part, r)
		// An earlier version wrote no header: then the sum that grew last says until when the part was counted.
		if h.CountedUntil.IsZero() && r.GrewAt.After(p.countedUntil) {
			p.countedUntil = r.GrewAt
		}

		for period, amount := range r.Open {
			if !has(period) {
				s.open[period] = min(s.open[period]+amount, maxMilli)
			}
		}
	}

	return err
}

// addTotal adds the total of a row of a part to its sum, and returns the sum.
func (m *Meter) addTotal(part int, r *RunningRow) *sum {
	s := m.sums[r.Series]
	if s == nil {
		s = m.sumOf(r.Series)
		s.grewAt = r.GrewAt
	}

	m.settle(s, part)
	s.total = min(s.total+r.Total, maxMilli)
	if s.grewAt.Before(r.GrewAt) {
		s.grewAt = r.GrewAt
	}

	return s
}

// SetClosed records that a day or a month of a part has an entry.
func (m *Meter) SetClosed(part int, period Period) {
	p := &m.parts[part]
	if period.IsDay() {
		p.closedDay = max(p.closedDay, period)
	} else {
		p.closedMonth = max(p.closedMonth, period)
	}
}

// settle gives a sum without a part its part. What was summed up meanwhile of a day that the part has closed counts for
// the next one: the entry of a closed day is written once, and would never have it.
func (m *Meter) settle(s *sum, part int) {
	if s.part >= 0 {
		return
	}

	s.part = part
	for period, amount := range s.open {
		closed := m.parts[part].closedMonth
		if period.IsDay() {
			closed = m.parts[part].closedDay
		}
		if period <= closed {
			delete(s.open, period)
			s.open[closed.next()] += amount
		}
	}
}

// Place gives each sum a part, and returns how many find no room. A sum stays in its part, so that it is in
// exactly one whenever the writer stops between two parts. It drops idle sums first: series come and go with
// namespaces, and would fill the parts until nothing new had room.
func (m *Meter) Place() (left int) {
	m.forgetIdle()
	var added []Series
	for series, s := range m.sums {
		if s.part < 0 { // it has none yet
			added = append(added, series)
		}
	}

	if len(added) == 0 {
		return 0
	}

	var sizes [Parts]int
	for series, s := range m.sums {
		if s.part >= 0 {
			sizes[s.part] += len(s.line(series)) + rowGrowth
		}
	}

	// Sorted, so that the parts do not depend on the order of a map. A part into which one does not fit
	// counts as full for all that follow. Each row has room to grow (rowGrowth), so that a part stays below
	// what a ConfigMap takes.
	slices.SortFunc(added, Series.Compare)
	part := 0
	for _, series := range added {
		s := m.sums[series]
		size := len(s.line(series)) + rowGrowth
		for part < Parts && sizes[part]+size > maxRunningSize {
			part++
		}

		if part == Parts {
			left++
			continue
		}
		sizes[part] += size
		m.settle(s, part)
	}

	return left
}

// line returns the row of a sum in its running part, with the time in whole seconds, rounded up.
func (s *sum) line(series Series) string {
	r := newRow(series, s.total)
	r.GrewAt = s.grewAt.Add(time.Second - 1).Unix()
	r.Open = make(map[Period]seconds, len(s.open))
	for period, amount := range s.open {
		r.Open[period] = seconds(amount)
	}
	return r.line()
}

// Part is the text of a running part.
type Part struct {
	// Text begins with a header. Rows are the rest, which changes only if a sum does.
	Text, Rows string
	// CountedUntil is until when the sums are counted.
	CountedUntil time.Time
	// Totals are the totals of the part that have grown lately.
	Totals map[Series]Milli
	// DaysDropped is the last day that the header calls dropped.
	DaysDropped Period
}

// Texts returns all running parts. A sum without a part is in none.
func (m *Meter) Texts() [Parts]Part {
	var lines [Parts]strings.Builder
	var parts [Parts]Part
	for _, series := range m.sorted() {
		s := m.sums[series]
		if s.part < 0 {
			continue
		}

		lines[s.part].WriteString(s.line(series))
		if parts[s.part].Totals == nil {
			parts[s.part].Totals = map[Series]Milli{}
		}
		if !m.isIdle(s) { // the metric shows no idle ones
			parts[s.part].Totals[series] = s.total
		}
	}

	for i := range parts {
		p := &parts[i]
		h := m.headerOf(i)
		first, _ := json.Marshal(h) // no field can fail
		p.Rows = lines[i].String()
		p.CountedUntil = h.CountedUntil
		p.DaysDropped = h.DaysDropped
		p.Text = string(first) + "\n" + p.Rows
	}

	return parts
}

// headerOf returns the header of a running part. Before the uncounted time is added, the part is counted until the time
// that was loaded: a leader that ends before then leaves it to the next one.
func (m *Meter) headerOf(part int) Header {
	p := &m.parts[part]
	h := Header{
		CountedUntil: p.countedUntil.UTC(), TimeZone: m.location().String(), Since: m.since.UTC(),
		ClosedDay: p.closedDay, ClosedMonth: p.closedMonth, DaysDropped: m.daysDropped, LackedRoom: m.lackedRoom,
	}
	if m.hasUncounted {
		h.CountedUntil = m.at.Round(0).UTC()
	}
	return h
}
