package cardseconds

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"cardquota.dev/operator/internal/cardseconds"
)

// errNoRoom reports that no ConfigMap has room for an entry.
var errNoRoom = errors.New("no ConfigMap has room")

// archive writes entries of days and months that are over into the slots, its ConfigMaps. Only the goroutine that
// stores sums uses it.
type archive struct {
	entries cardseconds.Archive
	slots   [cardseconds.Slots]slot
	// months are the sums of the last closed months. Reading them needs the lock of the Keeper.
	months months
	// isPartial reports that a slot could not be read, for lack of rights.
	isPartial bool
}

// slot is what is known of a ConfigMap of the archive.
type slot struct {
	version string
	// isStale reports that it must be read before it is written.
	isStale bool
}

// slotNumber returns the number of the ConfigMap of a slot: the running parts come first.
func slotNumber(i int) int { return cardseconds.Parts + i }

// load reads which entries there are. A slot that the operator may not read has none for now.
func (a *archive) load(ctx context.Context, store objectStore) error {
	*a = archive{}
	for i := range a.slots {
		if err := a.readSlot(ctx, store, i, &a.months); err != nil {
			return err
		}
	}
	return nil
}

// readSlot replaces what is known of a slot by what its ConfigMap has, and adds the months among its entries
// to into. into is nil for a slot that is read again, whose months are in memory already. A slot that the
// operator may not read is no error: it becomes stale.
func (a *archive) readSlot(ctx context.Context, store objectStore, i int, into *months) error {
	// A Role of an earlier version may name fewer ConfigMaps. One that the operator may not read must not
	// stop the others.
	read, err := store.read(ctx, slotNumber(i))
	if apierrors.IsForbidden(err) {
		a.slots[i].isStale = true
		a.isPartial = true
		return nil
	}
	if err != nil {
		return err
	}

	a.slots[i] = slot{version: read.version}
	a.entries.ResetSlot(i)
	for text, packed := range read.entries {
		key, isEntry := cardseconds.ParseEntryKey(text)
		if !isEntry { // an edit by hand
			continue
		}

		a.entries.Add(i, key, len(packed))
		if !key.Period.IsDay() && into != nil {
			into.addEntry(key, packed)
		}
	}

	return nil
}

// keys returns the keys of the entries of all slots.
func (a *archive) keys() []cardseconds.EntryKey {
	var keys []cardseconds.EntryKey
	for i := range a.slots {
		keys = append(keys, a.entries.Keys(i)...)
	}
	return keys
}

// maxTries is in how many slots an entry is tried at a time. All slots fail while the API server refuses ConfigMaps,
// and the sums are stored again in half a minute.
const maxTries = 3

// write stores an entry in a slot with room, if no slot has it. If one cannot be written, the next one is
// tried, up to maxTries. The error is errNoRoom if no slot has room.
func (a *archive) write(ctx context.Context, store objectStore, key cardseconds.EntryKey, packed []byte) error {
	if a.entries.Has(key) {
		return nil
	}

	var failures []error
	for _, i := range a.entries.SlotsFor(len(packed)) {
		if len(failures) == maxTries {
			break
		}

		// After a failed write the stored version is unknown, and the entry may be there already.
		if a.slots[i].isStale {
			if err := a.readSlot(ctx, store, i, nil); err != nil {
				failures = append(failures, err)
				continue
			}
			if a.entries.Has(key) { // the answer of an earlier write was lost
				return nil
			}
		}

		version, err := store.write(ctx, slotNumber(i), a.slots[i].version, change{entries: map[string][]byte{key.String(): packed}})
		if err != nil {
			a.slots[i].isStale = true
			failures = append(failures, err)
			continue
		}

		a.slots[i].version = version
		a.entries.Add(i, key, len(packed))
		return nil
	}

	if len(failures) == 0 { // no slot was tried
		return fmt.Errorf("%w for entry %s", errNoRoom, key)
	}

	return errors.Join(failures...)
}

// dropDays removes the entries of all days up to and with last, "" for none. last must be a day that the
// header of a stored part calls dropped: a report would otherwise show a removed day as one without use.
func (a *archive) dropDays(ctx context.Context, store objectStore, last cardseconds.Period) error {
	var failures []error
	for i, keys := range a.entries.DaysUntil(last) {
		removed := map[string][]byte{}
		for _, key := range keys {
			removed[key.String()] = nil // nil removes an entry
		}

		version, err := store.write(ctx, slotNumber(i), a.slots[i].version, change{entries: removed})
		if err != nil {
			// The write may have been made all the same. Only a read says which days are left, and has the
			// version for the next try.
			failures = append(failures, err, a.readSlot(ctx, store, i, nil))
			continue
		}

		a.slots[i].version = version
		for _, key := range keys {
			a.entries.Remove(i, key)
		}
	}

	return errors.Join(failures...)
}

// months are the sums of the last closed months: by month, then by entry, as each running part has one.
type months map[cardseconds.Period]map[cardseconds.EntryKey]map[cardseconds.Series]cardseconds.Milli

// keptMonths is how many closed months are kept in memory: the last one, which tenants see, and this one.
// This month is closed at its end, when tenants may still see it as this month.
const keptMonths = 2

// addEntry keeps the entry of a month, packed as it is stored, and drops all months but the newest
// keptMonths. It ignores an entry of an older month, and one that cannot be read.
func (m *months) addEntry(key cardseconds.EntryKey, packed []byte) {
	if *m == nil {
		*m = months{}
	}

	newest := key.Period
	for period := range *m {
		newest = max(newest, period)
	}

	oldest := newest.Add(1 - keptMonths)
	if key.Period < oldest {
		return
	}

	sums, err := cardseconds.ParseEntry(packed)
	if err != nil { // kubectl cardquota report names an entry that cannot be read
		return
	}

	if (*m)[key.Period] == nil {
		(*m)[key.Period] = map[cardseconds.EntryKey]map[cardseconds.Series]cardseconds.Milli{}
	}
	(*m)[key.Period][key] = sums
	for period := range *m {
		if period < oldest {
			delete(*m, period)
		}
	}
}
