package cardseconds

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"cardquota.dev/operator/internal/cardseconds"
)

// runningPart is what is known of a running part, a ConfigMap of sums that still grow, as it is stored.
type runningPart struct {
	object
	// rows are those of the last text that was written.
	rows string
	// isClaimed reports whether this replica has written it. isUncertain reports that a write failed, but may have been
	// made all the same.
	isClaimed, isUncertain bool
}

// maxClaims is how often a part is read again that another replica writes at the same time.
const maxClaims = 5

// loadOnce loads the sums of earlier replicas once, and claims each running part: it writes the part with its
// own identity. An earlier leader that stood still past its lease and goes on then gets a conflict when it
// writes. Its sums lack what this replica stores, and count again what this replica counts. A part that
// cannot be written is claimed later. Only its own sums are not stored meanwhile.
func (k *Keeper) loadOnce(ctx context.Context) error {
	if k.isLoaded {
		return nil
	}
	if err := k.archive.load(ctx, k); err != nil {
		return err
	}

	lacksStored := k.archive.isPartial // the operator may not read a slot
	for i := range k.parts {
		isRead, err := k.claimPart(ctx, i)
		if err != nil {
			return err
		}
		lacksStored = lacksStored || !isRead
	}

	k.mu.Lock()
	err := k.loadMeter()
	k.isLoaded = true
	k.lacksStored = lacksStored
	k.mu.Unlock()
	if err != nil { // an edit by hand; what can be read counts
		k.log.Error(err, "Some stored card-seconds cannot be read and are lost")
	}

	return nil
}

// loadMeter adds the sums of all parts, which claimPart has read, to the meter, and shows their totals in the
// metric. Its counters go on where those of the earlier leader ended. It returns an error for what it cannot
// read, and loads the rest.
func (k *Keeper) loadMeter() error {
	var failures []error
	// The meter knows closed periods before the parts: what it has counted of one meanwhile then goes to the
	// next one.
	for _, key := range k.archive.keys() {
		k.meter.SetClosed(key.Part, key.Period)
	}

	// A part may still have sums of a period that is in the archive, if the earlier leader ended between both
	// writes. The meter ignores those.
	k.counter = counter{}
	for i := range k.parts {
		has := func(period cardseconds.Period) bool {
			return k.archive.entries.Has(cardseconds.EntryKey{Period: period, Part: i})
		}

		failures = append(failures, k.meter.Load(i, k.parts[i].text, has))
		read, _ := cardseconds.ParseRunning(k.parts[i].text) // Load has returned the same error
		k.counter.load(i, read.Rows, k.now())
		k.storedUntil[i] = read.Header.CountedUntil
		k.daysDropped = max(k.daysDropped, read.Header.DaysDropped)
	}

	return errors.Join(failures...)
}

// claimPart reads a part into k.parts, and writes it again with the identity of this replica. isRead is false
// if the operator may not read the part, and then its sums are not loaded. It returns an error if the part
// cannot be read for another reason, or other replicas write it all the time. It returns none if the part
// cannot be written: writePart tries that again.
func (k *Keeper) claimPart(ctx context.Context, i int) (isRead bool, err error) {
	for range maxClaims {
		read, err := k.read(ctx, i)
		if err != nil && !apierrors.IsForbidden(err) {
			return false, err
		}

		isRead = err == nil
		k.parts[i] = runningPart{object: read}
		p := &k.parts[i]
		version, writeErr := k.write(ctx, i, p.version, change{text: &p.text, writer: &k.identity})
		switch {
		case writeErr == nil:
			p.version = version
			p.writer = k.identity
			p.isClaimed = true
			return isRead, nil
		case apierrors.IsConflict(writeErr):
			continue
		}

		// The write may have been made and only its answer lost. So writePart reads the part before it
		// writes.
		p.isUncertain = true
		k.log.Error(writeErr, "Some card-seconds cannot be stored", "part", i)
		return isRead, nil
	}
	return false, fmt.Errorf("other replicas write ConfigMap %s all the time", cardseconds.ConfigMapName(i))
}

// writePart writes a part if its sums changed, or if it has sums and was not written for atRest. After a
// write that failed it first reads who wrote the part last. If that is another leader, it drops all sums and
// returns an error.
func (k *Keeper) writePart(ctx context.Context, i int, part *cardseconds.Part) error {
	p := &k.parts[i]
	isDue := part.CountedUntil.Sub(k.storedUntil[i]) >= atRest && part.Rows != ""
	if p.rows == part.Rows && !p.isUncertain && !isDue {
		k.confirmPart(i, part, false) // nothing was written, because the same sums are stored already
		return nil
	}

	if p.isUncertain {
		stored, err := k.read(ctx, i)
		if err != nil {
			return err
		}
		// Another writer is a new leader, and a write would overwrite what it has counted. Only before this
		// replica has claimed the part, the version that it loaded is by the leader before it. A missing
		// ConfigMap has version "", and no writer.
		isTaken := stored.writer != k.identity && (p.isClaimed || stored.version != p.version)
		if stored.version != "" && isTaken {
			k.giveUp()
			return fmt.Errorf("%s stores them now", stored.writer)
		}

		p.version = stored.version
		p.isUncertain = false
	}

	version, err := k.write(ctx, i, p.version, change{text: &part.Text, writer: &k.identity})
	if err != nil {
		p.isUncertain = true
		return err
	}

	p.version = version
	p.rows = part.Rows
	p.isClaimed = true
	k.confirmPart(i, part, true)

	return nil
}

// confirmPart shows the sums of a part, which are stored, in the metric. isWritten reports whether they were written
// right now, together with the header of the part.
func (k *Keeper) confirmPart(i int, part *cardseconds.Part, isWritten bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.counter.confirm(i, part.Totals, k.now())
	if !isWritten {
		return
	}
	k.storedUntil[i] = part.CountedUntil
	k.daysDropped = max(k.daysDropped, part.DaysDropped)
}

// giveUp drops all sums: another replica has them, and counts since it claimed them. If this replica
// still leads, it claims them again with its next write.
func (k *Keeper) giveUp() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.meter.DropSums(k.now())
	k.isLoaded = false
	k.uncounted = uncounted{}
	k.monthlyUse = nil
	k.refusals = nil
}

// uncounted is what a new leader needs to bill the time in which no replica counted.
type uncounted struct {
	// usages are those of the first count of this leader, until they are added.
	usages             []cardseconds.PodUsage
	isCounted, isAdded bool
}

// setPodUsages keeps what pods use by the first count.
func (u *uncounted) setPodUsages(usages func() []cardseconds.PodUsage) {
	if !u.isCounted {
		u.usages = usages()
		u.isCounted = true
	}
}

// addTo adds the uncounted time to the loaded sums, once, after the first count.
func (u *uncounted) addTo(meter *cardseconds.Meter) {
	if u.isCounted && !u.isAdded {
		meter.AddUncounted(u.usages)
		u.usages = nil
		u.isAdded = true
	}
}
