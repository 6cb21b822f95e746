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

// pods are all pods that use something, for a recount.
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
	product := quota.Charge{
		Queue: oneOf(t, "queue", "q", "r"), MilliCPU: int64(drawInt(t, 0, 3, "cpu")), Memory: int64(drawInt(t, 0, 3, "memory")),
	}
	observed := rule.Charge{Queue: product.Queue, Cards: rule.Quota{}, MilliCPU: product.MilliCPU, Memory: product.Memory}
	for _, name := range ledgerCards {
		if count := int64(drawInt(t, 0, 3, name)); count > 0 {
			product.Cards = append(product.Cards, card.Amount{Name: card.Name(name), Count: card.Count(count)})
			observed.Cards[name] = count
		}
	}
	return product, observed
}

func drawLimits(t *rapid.T) (quota.Limits, rule.Limits) {
	limit := func(what string) int64 { return oneOf[int64](t, what, 0, 2, 4, 6, math.MaxInt64) }
	product := quota.Limits{AnyCard: drawInt(t, 1, 6, "any card") == 1, Cards: card.Quota{}, MilliCPU: limit("cpu limit"), Memory: limit("memory limit")}
	observed := rule.Limits{AnyCard: product.AnyCard, Cards: rule.Quota{}, MilliCPU: product.MilliCPU, Memory: product.Memory}
	for _, name := range ledgerCards {
		count := int64(drawInt(t, 0, 6, "quota of "+name))
		product.Cards[card.Name(name)] = card.Count(count)
		observed.Cards[name] = count
	}
	return product, observed
}

// TestTheLedgerEqualsARecount: the product's ledger keeps running sums of what each queue uses. The observer, a tool
// of the tests, counts all pods again. Random steps charge a pod, let it terminate, release it, or change limits.
// After each step both must have the same sums, and allow the same random requests.
func TestTheLedgerEqualsARecount(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		ledger := quota.New(0)
		scene := pods{map[string]rule.Charge{}, map[string]rule.Charge{}}
		limits := map[string]rule.Limits{}
		productLimits := map[string]quota.Limits{}
		for range perDraw {
			pod := fmt.Sprint("p", drawInt(t, 0, 3, "pod"))
			product, observed := drawCharge(t)
			switch drawInt(t, 0, 5, "what happens") {
			case 0, 1:
				ledger.Charge(pod, &product)
				scene.used[pod] = observed
				delete(scene.terminating, pod)
			case 2:
				ledger.ChargeTerminating(pod, &product, time.Minute) // any grace period
				scene.terminating[pod] = observed
				delete(scene.used, pod)
			case 3, 4:
				ledger.Release(pod)
				delete(scene.used, pod)
				delete(scene.terminating, pod)
			case 5:
				queue := oneOf(t, "queue", "q", "r")
				productLimits[queue], limits[queue] = drawLimits(t)
				ledger.SetTree(quota.Flat.WithFlat(productLimits))
			}

			for _, queue := range []string{"q", "r", "none"} { // "none" has no limits and no pods
				compareSumsAndRequests(t, ledger, queue, limits[queue], scene.useOf(queue))
			}
		}
	})
}

func compareSumsAndRequests(t *rapid.T, ledger *quota.Ledger, queue string, limits rule.Limits, use rule.Usage) {
	var usage quota.QueueUsage
	for _, of := range ledger.Snapshot() {
		if of.Queue == queue {
			usage = of
		}
	}

	equal(t, "cpu of "+queue, usage.MilliCPU, use.MilliCPU)
	equal(t, "memory of "+queue, usage.Memory, use.Memory)

	request := quota.Request{Count: card.Count(drawInt(t, 0, 3, "count")), MilliCPU: int64(drawInt(t, 0, 2, "cpu")), Memory: int64(drawInt(t, 0, 2, "memory"))}
	observedRequest := rule.Request{Count: int64(request.Count), MilliCPU: request.MilliCPU, Memory: request.Memory}
	for _, name := range ledgerCards {
		terminating, _ := ledger.Terminating(queue, card.Name(name))
		equal(t, "used "+name, int64(ledger.Used(queue, card.Name(name))), use.Cards[name])
		equal(t, "terminating "+name, int64(terminating), use.Terminating[name])
		missingCards := limits.InsufficientCard(use, name, observedRequest.Count)
		equal(t, "fits for "+name, ledger.Fits(queue, request.On(card.Name(name)).OnlyCards(), quota.Within{}), missingCards == "")

		missingCPUMemory := limits.InsufficientCPUMemory(use, observedRequest.MilliCPU, observedRequest.Memory)
		equal(t, "fits on a node with "+name, ledger.Fits(queue, request.On(card.Name(name)), quota.Within{}), missingCards == "" && missingCPUMemory == "")
		request.Names = append(request.Names, card.Name(name))
		observedRequest.Cards = append(observedRequest.Cards, name)
		equal(t, "fits on any card", ledger.Fits(queue, request, quota.Within{}), limits.Insufficient(use, observedRequest) == "")
	}
}
