package quota

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// most tries every way to hand out single cards and returns how many can be
// given at most: the oracle of Admit.
func most(requests []CardRequest, free map[card.Name]int64, elastic []ElasticUsage) int64 {
	i := slices.IndexFunc(requests, func(d CardRequest) bool { return d.Count > 0 })
	if i < 0 {
		return 0
	}

	rest := slices.Clone(requests)
	rest[i].Count--
	best := most(rest, free, elastic) // this card is not given
	for _, name := range rest[i].Names {
		if free[name] > 0 {
			free[name]--
			best = max(best, 1+most(rest, free, elastic))
			free[name]++
		}

		for j := range elastic {
			e := &elastic[j]
			if e.Elastic > 0 && e.Used[name] > 0 {
				e.Elastic--
				e.Used[name]--
				best = max(best, 1+most(rest, free, elastic))
				e.Elastic++
				e.Used[name]++
			}
		}
	}

	return best
}

func TestAdmitPermitsExactlyWhatBruteForceCanHandOut(t *testing.T) {
	names := []card.Name{"A", "B", "C"}
	seed.Check(t, func(t *rapid.T) {
		quota := card.Quota{}
		used := Charge{Queue: "q"}
		for _, n := range names {
			quota[n] = card.Count(rapid.IntRange(0, 3).Draw(t, "quota "+string(n)))
			used.Cards = append(used.Cards, card.Amount{Name: n, Count: card.Count(rapid.IntRange(0, 2).Draw(t, "used "+string(n)))})
		}

		a := newQueueLedger(quota)
		a.Charge("pods", &used)
		request := rapid.Custom(drawCardRequest)
		var waiting Reservations
		waitingRequests := rapid.SliceOfN(request, 0, 2).Draw(t, "waiting")
		waiting.Add(JobRequest{Cards: slices.Clone(waitingRequests)})

		var elastic []ElasticUsage
		for i := range rapid.IntRange(0, 3).Draw(t, "elastic jobs") {
			held := map[card.Name]card.Count{}
			for _, n := range names[:rapid.IntRange(1, 3).Draw(t, "cards held")] {
				held[n] = card.Count(rapid.IntRange(0, 2).Draw(t, fmt.Sprintf("held %d %s", i, n)))
			}
			e := ElasticUsage{Used: held, Elastic: card.Count(rapid.IntRange(0, 2).Draw(t, fmt.Sprintf("spare %d", i)))}
			elastic = append(elastic, e)
			waiting.AddElastic(ElasticUsage{Used: maps.Clone(held), Elastic: e.Elastic})
		}

		app := JobRequest{Cards: rapid.SliceOfN(request, 1, 2).Draw(t, "application")}
		factor := rapid.SampledFrom([]float64{1, 1.5, 2}).Draw(t, "factor")

		free := map[card.Name]int64{}
		before := slices.Clone(waitingRequests)
		for _, n := range names {
			left := scaleLimit(int64(quota[n]), factor) - int64(a.Used("q", n))
			free[n] = max(0, left)
			if left < 0 {
				before = append(before, CardRequest{Names: []card.Name{n}, Count: card.Count(-left)})
			}
		}

		with := slices.Clone(before)
		for _, d := range app.Cards { // a card without quota helps only where the request names no other
			granted := slices.DeleteFunc(slices.Clone(d.Names), func(name card.Name) bool { return quota[name] == 0 })
			if len(granted) > 0 {
				d.Names = granted
			}
			with = append(with, d)
		}

		want := most(with, free, elastic) == most(before, free, elastic)+countCards(app.Cards)
		got := a.CheckEnqueue("q", only(&waiting), app, factor)
		check.Must(t, (got == nil) == want, "Admit = %+v, brute force says fits=%v", got, want)
	})
}
