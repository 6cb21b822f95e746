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

// loadOnce loads the sums of earlier replicas once, and claims each running part with a write of its own.
// A replica that stood still past its lease and goes on cannot write any more then: its sums lack
// what this replica stores, and count again what this replica counts. A part that cannot be written is
// claimed later, and only its own sums are not stored meanwhile.
func (k *Keeper) loadOnce(ctx context.Context) error {
	if k.isLoaded {
		return nil
	}
	if err := k.archive.load(ctx, k); err != nil {
		return err
	}

	lacksStored := k.archive.isPartial
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

// loadMeter adds what was read to the meter, and shows it in the metric, where the counters go on. It returns an error
// for what it cannot read, and loads the rest.
func (k *Keeper) loadMeter() error {
	var failures []error
	for _, key := range k.archive.keys() {
		k.meter.SetClosed(key.Part, key.Period)
	}

	// Closed periods are known first: what the parts still have of them must not open them again.
	k.counter = counter{}
	for i := range k.parts {
		has := func(period cardseconds.Period) bool {
			return k.archive.entries.Has(cardseconds.EntryKey{Period: period, Part: i})
		}

		failures = append(failures, k.meter.Load(i, k.parts[i].text, has))
		read, _ := cardseconds.ParseRunning(k.parts[i].text) // the errors are those of Load
		k.counter.load(i, read.Rows, k.now())
		k.storedUntil[i] = read.Header.CountedUntil
		k.daysDropped = max(k.daysDropped, read.Header.DaysDropped)
	}

	return errors.Join(failures...)
}

// claimPart reads a part and writes it again with the identity of this replica. isRead is false if the operator may not
// read the part, and then its sums are not loaded. It returns an error if the part cannot be read for another reason,
// or other replicas write it all the time. It returns none if the part cannot be written: writePart tries that again.
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

		// A write can succeed and its answer be lost, so the part is read before the next one.
		p.isUncertain = true
		k.log.Error(writeErr, "Some card-seconds cannot be stored", "part", i)
		return isRead, nil
	}
	return false, fmt.Errorf("other replicas write ConfigMap %s all the time", cardseconds.ConfigMapName(i))
}

// writePart writes a part if its sums changed, or if it has sums and was not written for atRest. After a
// failed write it reads who wrote the part last.
func (k *Keeper) writePart(ctx context.Context, i int, part *cardseconds.Part) error {
	p := &k.parts[i]
	isDue := part.CountedUntil.Sub(k.storedUntil[i]) >= atRest && part.Rows != ""
	if p.rows == part.Rows && !p.isUncertain && !isDue {
		k.confirmPart(i, part, false)
		return nil
	}

	if p.isUncertain {
		stored, err := k.read(ctx, i)
		if err != nil {
			return err
		}
		// Another writer is another leader. To write on would overwrite what it has counted. But before this replica
		// has claimed the part, the writer of the version that it knows is an earlier leader. A ConfigMap that does not
		// exist, without a version, has no writer.
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
