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

// mostGiven tries every way to give single cards to requests, free ones and those of elastic jobs, and returns how
// many can be given at most.
func mostGiven(requests []CardRequest, free map[card.Name]int64, elastic []ElasticUsage) int64 {
	i := slices.IndexFunc(requests, func(request CardRequest) bool { return request.Count > 0 })
	if i < 0 {
		return 0
	}

	rest := slices.Clone(requests)
	rest[i].Count--
	best := mostGiven(rest, free, elastic) // this card is not given
	for _, name := range rest[i].Names {
		if free[name] > 0 {
			free[name]--
			best = max(best, 1+mostGiven(rest, free, elastic))
			free[name]++
		}

		for j := range elastic {
			e := &elastic[j]
			if e.Elastic > 0 && e.Used[name] > 0 {
				e.Elastic--
				e.Used[name]--
				best = max(best, 1+mostGiven(rest, free, elastic))
				e.Elastic++
				e.Used[name]++
			}
		}
	}

	return best
}

// TestEnqueueAcceptsExactlyWhatBruteForceCanGive: enqueue is Volcano's step that lets a job create its pods. It accepts
// a job if all of its cards can be given beside what other enqueued jobs wait for. Free cards count, and those of
// elastic pods, which are evicted first. A brute force that tries every distribution must come to the same answer.
// Quotas, usage, reservations, elastic jobs, the job and the over-commit factor are random.
func TestEnqueueAcceptsExactlyWhatBruteForceCanGive(t *testing.T) {
	names := []card.Name{"A", "B", "C"}

	seed.Check(t, func(t *rapid.T) {
		quota := card.Quota{}
		usage := Charge{Queue: "q"}
		for _, n := range names {
			quota[n] = card.Count(rapid.IntRange(0, 3).Draw(t, "quota "+string(n)))
			usage.Cards = append(usage.Cards, card.Amount{Name: n, Count: card.Count(rapid.IntRange(0, 2).Draw(t, "used "+string(n)))})
		}

		l := newQueueLedger(quota)
		l.Charge("pods", &usage)
		requests := rapid.Custom(drawCardRequest)
		var reservations Reservations
		reserved := rapid.SliceOfN(requests, 0, 2).Draw(t, "reserved")
		reservations.Add(JobRequest{Cards: slices.Clone(reserved)})

		var elastic []ElasticUsage
		for i := range rapid.IntRange(0, 3).Draw(t, "elastic jobs") {
			used := map[card.Name]card.Count{}
			for _, n := range names[:rapid.IntRange(1, 3).Draw(t, "card names")] {
				used[n] = card.Count(rapid.IntRange(0, 2).Draw(t, fmt.Sprintf("used %d %s", i, n)))
			}
			e := ElasticUsage{Used: used, Elastic: card.Count(rapid.IntRange(0, 2).Draw(t, fmt.Sprintf("elastic %d", i)))}
			elastic = append(elastic, e)
			reservations.AddElastic(ElasticUsage{Used: maps.Clone(used), Elastic: e.Elastic})
		}

		job := JobRequest{Cards: rapid.SliceOfN(requests, 1, 2).Draw(t, "job")}
		factor := rapid.SampledFrom([]float64{1, 1.5, 2}).Draw(t, "over-commit factor")

		free := map[card.Name]int64{}
		before := slices.Clone(reserved)
		for _, n := range names {
			left := scaleLimit(int64(quota[n]), factor) - int64(l.Used("q", n))
			free[n] = max(0, left)
			if left < 0 { // usage above the quota takes cards as a request does
				before = append(before, CardRequest{Names: []card.Name{n}, Count: card.Count(-left)})
			}
		}

		with := slices.Clone(before)
		for _, request := range job.Cards { // a card without quota helps only where the request names no other
			granted := slices.DeleteFunc(slices.Clone(request.Names), func(name card.Name) bool { return quota[name] == 0 })
			if len(granted) > 0 {
				request.Names = granted
			}
			with = append(with, request)
		}

		wantFit := mostGiven(with, free, elastic) == mostGiven(before, free, elastic)+countCards(job.Cards)
		got := l.CheckEnqueue("q", reserveForAll(&reservations), job, factor)
		check.Must(t, (got == nil) == wantFit, "refused for %+v, brute force says fits: %v", got, wantFit)
	})
}
