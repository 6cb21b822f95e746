package cardseconds

import (
	"maps"
	"slices"
)

// Slots is how many ConfigMaps have entries. With the running parts there are 64.
const Slots = 64 - Parts

// keptDays is how many days are kept if there is room. A report has at most as many.
const keptDays = 400

// Archive is which entries each slot has, and their sizes. The zero value is empty.
type Archive struct {
	slots [Slots]map[EntryKey]int
}

// Add records that a slot has an entry.
func (a *Archive) Add(slot int, key EntryKey, size int) {
	if a.slots[slot] == nil {
		a.slots[slot] = map[EntryKey]int{}
	}
	a.slots[slot][key] = size
}

// ResetSlot forgets the entries of a slot.
func (a *Archive) ResetSlot(slot int) { a.slots[slot] = nil }

// Has reports whether any slot has an entry.
func (a *Archive) Has(key EntryKey) bool {
	for _, slot := range a.slots {
		if _, has := slot[key]; has {
			return true
		}
	}
	return false
}

// SlotsFor returns the slots that have room for an entry, the fullest first: so few ConfigMaps are written.
func (a *Archive) SlotsFor(size int) []int {
	var fits []int
	sizes := make([]int, Slots)
	for i := range a.slots {
		for _, entry := range a.slots[i] {
			sizes[i] += entry
		}
		if sizes[i]+size <= MaxPartSize {
			fits = append(fits, i)
		}
	}

	slices.SortStableFunc(fits, func(x, y int) int { return sizes[y] - sizes[x] })
	return fits
}

// OldestDay returns the first day that has an entry, "" if there is none.
func (a *Archive) OldestDay() (oldest Period) {
	for _, slot := range a.slots {
		for key := range slot {
			if key.Period.IsDay() && (oldest == "" || key.Period < oldest) {
				oldest = key.Period
			}
		}
	}
	return oldest
}

// DaysUntil returns the entries of all days up to and with the last one, by slot.
func (a *Archive) DaysUntil(last Period) map[int][]EntryKey {
	found := map[int][]EntryKey{}
	for i, slot := range a.slots {
		for key := range slot {
			if key.Period.IsDay() && key.Period <= last {
				found[i] = append(found[i], key)
			}
		}
	}
	return found
}

// Remove forgets an entry of a slot.
func (a *Archive) Remove(slot int, key EntryKey) { delete(a.slots[slot], key) }

// Keys returns the entries of a slot.
func (a *Archive) Keys(slot int) []EntryKey { return slices.Collect(maps.Keys(a.slots[slot])) }

// ExpiredDay returns the last day that is too old to be kept today.
func ExpiredDay(today Period) Period { return today.Add(-keptDays - 1) }
