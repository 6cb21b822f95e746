package cardseconds

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/cardinventory"
	"cardquota.dev/operator/internal/cardseconds"
)

// refusedTime is for how long no write of a ConfigMap must have succeeded before it counts as one that cannot be
// written.
var refusedTime = build.Wait(2 * time.Minute)

// refusals are the ConfigMaps whose last write failed, or which cannot be read, by number: running parts first, and
// from cardseconds.Parts on the slots of the archive.
type refusals map[int]refusal

// refusal is why an object cannot be written or read, and since when.
type refusal struct {
	since  time.Time
	reason metav1.StatusReason
}

// record records how a write of ConfigMap i ended, or that a read of it failed: err is nil only after a
// write.
func (r *refusals) record(i int, err error, now time.Time) {
	switch {
	case err == nil:
		delete(*r, i)
		return
	case apierrors.IsConflict(err): // it is read and written again, and only that says more
		return
	}

	if *r == nil {
		*r = refusals{}
	}

	// Only a refusal that lasts, longer than that of a restarting webhook, is a problem. So the time of the
	// first failure stays.
	since := now
	if earlier, isKnown := (*r)[i]; isKnown {
		since = earlier.since
	}
	(*r)[i] = refusal{since: since, reason: apierrors.ReasonForError(err)}
}

// forgetSlots forgets the slots that refused an entry, once all entries are stored. Another slot took the entry, and
// perhaps nothing writes the refusing one again, which alone would clear it.
func (r *refusals) forgetSlots() {
	for i := range *r {
		if i >= cardseconds.Parts {
			delete(*r, i)
		}
	}
}

// read implements objectStore. It records which objects cannot be read: without them a replica loads no sums.
// An object that the operator may not read is no such one: the other objects are used without it.
func (k *Keeper) read(ctx context.Context, i int) (object, error) {
	read, err := k.store.read(ctx, i)
	if err != nil && !apierrors.IsForbidden(err) && ctx.Err() == nil {
		k.mu.Lock()
		k.refusals.record(i, err, k.now())
		k.mu.Unlock()
	}
	return read, err
}

// write implements objectStore. It records which objects cannot be written.
func (k *Keeper) write(ctx context.Context, i int, version string, c change) (string, error) {
	written, err := k.store.write(ctx, i, version, c)
	if ctx.Err() == nil {
		k.mu.Lock()
		k.refusals.record(i, err, k.now())
		k.mu.Unlock()
	}
	return written, err
}

// StorageProblems returns what keeps card-seconds from being stored. A ConfigMap counts once it was refused
// for refusedTime. That of a running part without sums does not count, because nothing is to be written
// there. Before the sums are loaded each ConfigMap counts, because until then nothing is stored at all, and
// what has no room is unknown.
func (k *Keeper) StorageProblems() cardinventory.Bills {
	k.mu.Lock()
	defer k.mu.Unlock()

	problems := cardinventory.Bills{Refused: map[string]metav1.StatusReason{}}
	now := k.now()
	for i, refused := range k.refusals {
		isArchive := i >= cardseconds.Parts
		isNeeded := !k.isLoaded || isArchive || k.hasRows[i]
		if isNeeded && now.Sub(refused.since) >= refusedTime {
			problems.Refused[k.namespace+"/"+cardseconds.ConfigMapName(i)] = refused.reason
		}
	}

	if !k.isLoaded {
		return problems
	}

	problems.SumsWithoutRoom = k.unstored.sums
	problems.MonthsWithoutRoom = k.unstored.months
	problems.DaysDropped = string(k.unstored.daysDropped)
	return problems
}
