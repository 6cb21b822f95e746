package cardseconds

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// EntryKey names an entry: what a running part had of a day or a month that is over.
type EntryKey struct {
	Period Period
	Part   int
}

// String returns the key in a ConfigMap.
func (k EntryKey) String() string { return fmt.Sprintf("%s.%d", k.Period, k.Part) }

// ParseEntryKey reads the key in a ConfigMap, false for a text that String does not write.
func ParseEntryKey(text string) (EntryKey, bool) {
	period, number, found := strings.Cut(text, ".")
	part, err := strconv.Atoi(number)
	key := EntryKey{Period(period), part}
	return key, found && err == nil && part >= 0 && part < Parts && key.Period.isValid() && key.String() == text
}

// ClosablePeriods returns the days and months of a part that are over, the earliest first. The stored part
// was counted until storedUntil, zero if none is stored. A period that was over then is stored with all that
// its entry will have, so nothing is lost if the operator ends between both writes. There are none before
// AddUncounted has added the time before this process: that time may belong to a day that is over.
func (m *Meter) ClosablePeriods(part int, storedUntil time.Time) []Period {
	if !m.hasUncounted || storedUntil.IsZero() {
		return nil
	}

	if storedUntil.After(m.at) { // the clock was ahead when the part was stored
		storedUntil = m.at
	}

	today := DayOf(storedUntil.In(m.location()))

	var closable []Period
	for _, s := range m.sums {
		if s.part != part {
			continue
		}
		for period := range s.open {
			// Cut to the length of the period, today is the current day or the current month.
			if period < today[:len(period)] && !slices.Contains(closable, period) {
				closable = append(closable, period)
			}
		}
	}

	slices.Sort(closable)
	return closable
}

// entryLimit bounds the bytes of an entry when it is unpacked: a ConfigMap of 1 MiB could unpack to a thousand times that.
const entryLimit = 16 << 20

// Entry returns the sums that a part has of a day or month, as compressed rows.
func (m *Meter) Entry(key EntryKey) []byte {
	var packed bytes.Buffer
	writer, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // the level is valid, and a buffer takes everything

	for _, series := range m.sorted() {
		s := m.sums[series]
		if amount := s.open[key.Period]; s.part == key.Part && amount > 0 {
			r := newRow(series, amount)
			_, _ = io.WriteString(writer, r.line())
		}
	}

	_ = writer.Close()
	return packed.Bytes()
}

// ParseEntry reads an entry, the compressed rows that Entry returns. It returns an error for lines that it
// cannot read, and reads the others.
func ParseEntry(packed []byte) (map[Series]Milli, error) {
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}

	// A longer text is cut within a line, which then cannot be read.
	text, err := io.ReadAll(io.LimitReader(reader, entryLimit))
	if err != nil {
		return nil, err
	}

	sums := map[Series]Milli{}
	var unreadable []error
	for line := range bytes.Lines(text) {
		var r row
		if err := json.Unmarshal(line, &r); err != nil {
			unreadable = append(unreadable, err)
			continue
		}
		sums[r.series()] = min(sums[r.series()]+Milli(r.Seconds), maxMilli)
	}

	return sums, errors.Join(unreadable...)
}

// Close takes a day or a month out of its part, after its entry was written.
func (m *Meter) Close(key EntryKey) {
	m.SetClosed(key.Part, key.Period)
	for _, s := range m.sums {
		if s.part == key.Part {
			delete(s.open, key.Period)
		}
	}
}

// LastDayDroppedForRoom returns the last day that was dropped, if days were ever dropped because there was no room, and that day
// is of this month or of the last one. Otherwise it returns "".
func (m *Meter) LastDayDroppedForRoom() Period {
	lastMonth := DayOf(m.at.In(m.location())).Month().Add(-1)
	if !m.lackedRoom || m.daysDropped.Month() < lastMonth {
		return ""
	}
	return m.daysDropped
}

// ExpireDays records, for the headers of all running parts, that the days up to and with the last one will be dropped.
func (m *Meter) ExpireDays(last Period) { m.daysDropped = max(m.daysDropped, last) }

// DropDaysForRoom records the same about days that are dropped early, because there is no room for them.
func (m *Meter) DropDaysForRoom(last Period) {
	m.ExpireDays(last)
	m.lackedRoom = true
}
