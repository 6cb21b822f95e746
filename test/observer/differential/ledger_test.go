package differential

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/seed"
	"cardquota.dev/operator/test/observer/rule"
)

// pods are all pods that hold something, for a recount.
type pods struct {
	used, terminating map[string]rule.Charge
}

func (p pods) useOf(queue string) rule.Usage {
	use := rule.Usage{Cards: rule.Quota{}, Terminating: rule.Quota{}}
	for _, charge := range p.used {
		if charge.Queue == queue {
			use.Add(charge)
		}
	}

	for _, charge := range p.terminating {
		if charge.Queue == queue {
			use.AddTerminating(charge)
		}
	}

	return use
}

var ledgerCards = []string{"H200", "4090"}

func drawCharge(t *rapid.T) (quota.Charge, rule.Charge) {
	theirs := quota.Charge{
		Queue: oneOf(t, "queue", "q", "r"), MilliCPU: int64(drawInt(t, 0, 3, "cpu")), Memory: int64(drawInt(t, 0, 3, "memory")),
	}
	ours := rule.Charge{Queue: theirs.Queue, Cards: rule.Quota{}, MilliCPU: theirs.MilliCPU, Memory: theirs.Memory}
	for _, name := range ledgerCards {
		if count := int64(drawInt(t, 0, 3, name)); count > 0 {
			theirs.Cards = append(theirs.Cards, card.Amount{Name: card.Name(name), Count: card.Count(count)})
			ours.Cards[name] = count
		}
	}
	return theirs, ours
}

func drawLimits(t *rapid.T) (quota.Limits, rule.Limits) {
	limit := func(what string) int64 { return oneOf[int64](t, what, 0, 2, 4, 6, math.MaxInt64) }
	theirs := quota.Limits{AnyCard: drawInt(t, 1, 6, "any card") == 1, Cards: card.Quota{}, MilliCPU: limit("cpu limit"), Memory: limit("memory limit")}
	ours := rule.Limits{AnyCard: theirs.AnyCard, Cards: rule.Quota{}, MilliCPU: theirs.MilliCPU, Memory: theirs.Memory}
	for _, name := range ledgerCards {
		count := int64(drawInt(t, 0, 6, "quota of "+name))
		theirs.Cards[card.Name(name)] = card.Count(count)
		ours.Cards[name] = count
	}
	return theirs, ours
}

// TestTheLedgerAgreesWithARecount tests that the product's running sums equal a recount after
// any changes of pods in any order, and that its checks allow what the rule allows.
func TestTheLedgerAgreesWithARecount(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		ledger := quota.New(0)
		scene := pods{map[string]rule.Charge{}, map[string]rule.Charge{}}
		limits := map[string]rule.Limits{}
		for range perDraw {
			pod := fmt.Sprint("p", drawInt(t, 0, 3, "pod"))
			theirs, ours := drawCharge(t)
			switch drawInt(t, 0, 5, "what happens") {
			case 0, 1:
				ledger.Charge(pod, &theirs)
				scene.used[pod] = ours
				delete(scene.terminating, pod)
			case 2:
				ledger.ChargeTerminating(pod, &theirs, time.Minute)
				scene.terminating[pod] = ours
				delete(scene.used, pod)
			case 3, 4:
				ledger.Release(pod)
				delete(scene.used, pod)
				delete(scene.terminating, pod)
			case 5:
				queue := oneOf(t, "queue", "q", "r")
				l, r := drawLimits(t)
				ledger.SetLimits(queue, l)
				limits[queue] = r
			}

			for _, queue := range []string{"q", "r", "nobody"} {
				compareLedger(t, ledger, queue, limits[queue], scene.useOf(queue))
			}
		}
	})
}

func compareLedger(t *rapid.T, ledger *quota.Ledger, queue string, limits rule.Limits, use rule.Usage) {
	milliCPU, memory := ledger.UsedCPUMemory(queue)
	equal(t, "cpu of "+queue, milliCPU, use.MilliCPU)
	equal(t, "memory of "+queue, memory, use.Memory)

	ask := quota.Request{Count: card.Count(drawInt(t, 0, 3, "count")), MilliCPU: int64(drawInt(t, 0, 2, "cpu")), Memory: int64(drawInt(t, 0, 2, "memory"))}
	wish := rule.Request{Count: int64(ask.Count), MilliCPU: ask.MilliCPU, Memory: ask.Memory}
	for _, name := range ledgerCards {
		ending, _ := ledger.Terminating(queue, card.Name(name))
		equal(t, "used "+name, int64(ledger.Used(queue, card.Name(name))), use.Cards[name])
		equal(t, "ending "+name, int64(ending), use.Terminating[name])
		shortOn := limits.InsufficientCard(use, name, wish.Count)
		equal(t, "has room for "+name, ledger.FitsCard(queue, card.Name(name), ask.Count, false), shortOn == "")

		shortOf := limits.InsufficientCPUMemory(use, wish.MilliCPU, wish.Memory)
		equal(t, "has room on a node with "+name, ledger.FitsAfterRelease(queue, ask, card.Name(name), quota.Released{}) == nil, shortOn == "" && shortOf == "")
		ask.Names = append(ask.Names, card.Name(name))
		wish.Cards = append(wish.Cards, name)
		equal(t, "has room", ledger.FitsAnyCard(queue, ask) == nil, limits.Insufficient(use, wish) == "")
	}
}
