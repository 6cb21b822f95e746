package cardseconds

import (
	"errors"
	"fmt"
	"time"
)

// Stored is what is stored of all sums, for reports.
type Stored struct {
	running [Parts]Running
	entries map[EntryKey][]byte
}

// AddRunning adds the text of a running part. It returns an error for lines that it cannot read.
func (s *Stored) AddRunning(part int, text string) error {
	read, err := ParseRunning(text)
	if err != nil {
		err = fmt.Errorf("part %d: %w", part, err)
	}
	s.running[part] = read
	return err
}

// AddEntry adds an entry.
func (s *Stored) AddEntry(key EntryKey, packed []byte) {
	if s.entries == nil {
		s.entries = map[EntryKey][]byte{}
	}
	s.entries[key] = packed
}

// Sums returns the card-seconds of a day or a month, added up over the running parts. Of a part that has an entry for
// it, the entry counts: if the operator ended between both writes, the part has the same sums still.
func (s *Stored) Sums(period Period) (map[Series]Milli, error) {
	sums := map[Series]Milli{}
	var unreadable []error
	for part := range s.running {
		key := EntryKey{period, part}
		if packed, isClosed := s.entries[key]; isClosed {
			entry, err := ParseEntry(packed)
			if err != nil {
				unreadable = append(unreadable, fmt.Errorf("entry %s: %w", key, err))
			}
			addSums(sums, entry)
			continue
		}

		for i := range s.running[part].Rows {
			r := &s.running[part].Rows[i]
			if amount := r.Open[period]; amount > 0 {
				sums[r.Series] += amount
			}
		}
	}

	return sums, errors.Join(unreadable...)
}

// addSums adds each sum to the one of its series, up to maxMilli.
func addSums(into, from map[Series]Milli) {
	for series, amount := range from {
		into[series] = min(into[series]+amount, maxMilli)
	}
}

// Coverage says for which time sums are stored.
type Coverage struct {
	// Since is when the first operator began to count, zero if none did.
	Since time.Time
	// CountedUntil is until when all running parts are counted, at least.
	CountedUntil time.Time
	// DaysDropped is the last day that is stored no more, "" for none. Months stay.
	DaysDropped Period
	// LackedRoom reports whether days were dropped before their time.
	LackedRoom bool
	// TimeZone is where days are cut now.
	TimeZone string
}

// Coverage returns for which time sums are stored. A part without sums has nothing to count, so its time matters only
// if all parts are without.
func (s *Stored) Coverage() Coverage {
	var c Coverage
	var newest time.Time
	for i := range s.running {
		h := &s.running[i].Header
		if h.CountedUntil.After(newest) {
			newest = h.CountedUntil
			c.TimeZone = h.TimeZone
		}

		if !h.Since.IsZero() && (c.Since.IsZero() || h.Since.Before(c.Since)) {
			c.Since = h.Since
		}

		c.DaysDropped = max(c.DaysDropped, h.DaysDropped)
		c.LackedRoom = c.LackedRoom || h.LackedRoom

		// A report is complete only as far as the part that was written first, so the earliest
		// time counts.
		if len(s.running[i].Rows) > 0 && (c.CountedUntil.IsZero() || h.CountedUntil.Before(c.CountedUntil)) {
			c.CountedUntil = h.CountedUntil
		}
	}

	if c.CountedUntil.IsZero() {
		c.CountedUntil = newest
	}

	return c
}

// Tenants returns the tenants of all running sums.
func (s *Stored) Tenants() map[string]bool {
	tenants := map[string]bool{}
	for i := range s.running {
		for j := range s.running[i].Rows {
			tenants[s.running[i].Rows[j].Tenant] = true
		}
	}
	return tenants
}
