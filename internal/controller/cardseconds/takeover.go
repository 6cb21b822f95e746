package cardseconds

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"cardquota.dev/operator/internal/cardseconds"
)

// part is what is stored of a part.
type part struct {
	text string
	// version is the resource version of the ConfigMap, "" for a part that was never written.
	version string
	// writer is the identity of the replica that wrote it.
	writer string
	// isUncertain reports that a write failed: it may have been made all the same.
	isUncertain bool
}

// maxClaims is how often a part is read again that another replica writes at the same time.
const maxClaims = 5

// loadOnce loads the sums of earlier replicas once, and claims each part with a write of its own.
// A replica that stood still past its lease and goes on cannot write any more then: its sums lack
// what this replica stores, and count again what this replica counts.
func (k *Keeper) loadOnce(ctx context.Context) error {
	if k.isLoaded {
		return nil
	}
	var texts [cardseconds.Parts]string
	for i := range k.parts {
		if err := k.claimPart(ctx, i); err != nil {
			return err
		}
		texts[i] = k.parts[i].text
	}
	k.mu.Lock()
	err := k.meter.Load(texts)
	k.mu.Unlock()
	if err != nil { // an edit by hand; what can be read counts
		k.log.Error(err, "Some stored card-seconds cannot be read and are lost")
	}
	k.isLoaded = true
	return nil
}

// claimPart reads a part and writes it again with the identity of this replica.
func (k *Keeper) claimPart(ctx context.Context, i int) error {
	var err error
	for range maxClaims {
		if k.parts[i], err = k.store.read(ctx, i); err != nil {
			return err
		}
		k.parts[i].writer = k.identity
		if k.parts[i].version, err = k.store.write(ctx, i, k.parts[i]); !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}

// writePart writes a part if it changed. After a failed write it reads who wrote the part last.
func (k *Keeper) writePart(ctx context.Context, i int, text string) error {
	p := &k.parts[i]
	if p.text == text && !p.isUncertain {
		return nil
	}
	if p.isUncertain {
		stored, err := k.store.read(ctx, i)
		if err != nil {
			return err
		}
		if stored.version != "" && stored.writer != k.identity {
			k.giveUp()
			return fmt.Errorf("%s stores them now", stored.writer)
		}
		p.version, p.isUncertain = stored.version, false
	}
	version, err := k.store.write(ctx, i, part{text: text, version: p.version, writer: k.identity})
	if err != nil {
		p.isUncertain = true
		return err
	}
	p.text, p.version = text, version
	return nil
}

// giveUp drops all sums: another replica has them, and counts since it claimed them. If this replica
// still leads, it claims them again with its next write.
func (k *Keeper) giveUp() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.meter.DropSums(k.now())
	k.isLoaded, k.gap = false, gap{}
}

// gap is what a new leader needs to credit the time in which no replica counted.
type gap struct {
	// holdings are those of the first count of this leader.
	holdings              []cardseconds.Holding
	isCounted, isCredited bool
	// begun are credited sums that were never stored.
	begun map[cardseconds.Series]bool
}

// setHoldings keeps what pods hold by the first count.
func (g *gap) setHoldings(holdings func() []cardseconds.Holding) {
	if !g.isCounted {
		g.holdings, g.isCounted = holdings(), true
	}
}

// credit adds the gap to the loaded sums, once there are holdings.
func (g *gap) credit(meter *cardseconds.Meter) {
	if g.isCounted && !g.isCredited {
		g.begun, g.holdings, g.isCredited = meter.CreditGap(g.holdings), nil, true
	}
}
