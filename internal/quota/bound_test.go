package quota

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// named makes names A0, A1 and so on.
func named(prefix string, n int) []card.Name {
	var names []card.Name
	for i := range n {
		names = append(names, card.Name(fmt.Sprintf("%s%d", prefix, i)))
	}
	return names
}

// choosing makes an application of n requests, each for another choice among names.
func choosing(names []card.Name, n int, count card.Count) JobRequest {
	random := rand.New(rand.NewPCG(1, 2))
	var all JobRequestBuilder
	for len(all.Cards) < n {
		choice := slices.DeleteFunc(slices.Clone(names), func(card.Name) bool { return random.IntN(2) == 0 })
		if len(choice) > 1 && all.index.find(all.Cards, choice) < 0 {
			all.Add(Request{Names: choice, Count: count})
		}
	}
	return JobRequest{Cards: all.Cards}
}

// limited is an account of one queue with so many of each card.
func limited(names []card.Name, each card.Count) *Ledger {
	quota := card.Quota{}
	for _, name := range names {
		quota[name] = each
	}
	return newQueueLedger(quota)
}

// TestInventedCardsAreNoWork: what users write about cards that a queue has no quota
// for adds nothing to what an admission looks at, however much of it waits.
func TestInventedCardsAreNoWork(t *testing.T) {
	real := named("REAL-", 2)
	a := limited(real, 100)
	var waiting Reservations
	for i := range 20 {
		var app JobRequest
		for j := range 256 {
			app.Cards = append(app.Cards, CardRequest{Names: append(named(fmt.Sprintf("X-%d-%d-", i, j), 15), real[j%2]), Count: 1})
			app.Cards = append(app.Cards, CardRequest{Names: named(fmt.Sprintf("Y-%d-%d-", i, j), 16), Count: 1000})
		}
		waiting.Add(a.DropUngranted("q", app))
	}

	check.Must(t, len(waiting.Cards) == 2 && waiting.Cards[0].Count == 2560,
		"%d requests wait, want the 2 for cards that can be given", len(waiting.Cards))

	m, short := matchInQueue(a, &waiting, JobRequest{Cards: []CardRequest{{Names: real[:1], Count: 1}}})
	check.That(t, short != nil && len(m.edgesFrom) == 3 && len(m.edges) == 4 && m.steps <= 20,
		"%d vertices, %d edges, %d steps, refused: %v, want the cards and the sink alone", len(m.edgesFrom), len(m.edges), m.steps, short)

	// One who applies for them is refused for the names as they were written.
	invented := CardRequest{Names: named("Z", 16), Count: 3}
	_, short = matchInQueue(a, &Reservations{}, JobRequest{Cards: []CardRequest{invented}})
	check.Must(t, short != nil, "not refused for %+v", invented)
	check.That(t, slices.Equal(short.Names, invented.Names) && sameLimit(short, &InsufficientQuota{Requested: 3, Total: 3}), "refused with %+v", short)

	s := a.CheckEnqueue("q", only(&waiting), JobRequest{MilliCPU: 1, Cards: []CardRequest{{Names: invented.Names}}}, 1)
	check.That(t, s == nil, "who asks for no cards is refused for cards: %+v", s)
}

// TestManyChoicesAreBoundedWork: as many choices among real cards as users can write.
func TestManyChoicesAreBoundedWork(t *testing.T) {
	names := named("M", 16)
	a := limited(names, 10_000)

	var waiting Reservations
	for _, d := range choosing(names, maxChoices, 1).Cards {
		waiting.Add(JobRequest{Cards: []CardRequest{d}})
	}

	check.Must(t, !waiting.split && len(waiting.Cards) == maxChoices, "%d choices are %d requests", maxChoices, len(waiting.Cards))
	m, short := matchInQueue(a, &waiting, choosing(names, 2000, 1))
	check.That(t, short == nil && len(m.edgesFrom) <= 1+16+maxChoices+maxJobChoices && len(m.edges) <= 2*16*(1+maxChoices+maxJobChoices) && m.steps <= 1_000_000,
		"%d vertices, %d edges, %d steps, refused: %v", len(m.edgesFrom), len(m.edges), m.steps, short)

	waiting.Add(choosing(names, 2000, 1))
	check.That(t, waiting.split && len(waiting.Cards) == 16, "2000 choices among 16 cards are %d requests", len(waiting.Cards))

	for range 3 { // a queue without limits
		waiting.Add(JobRequest{Cards: choosing(named("any", 1000), 20, 1).Cards})
	}

	check.That(t, len(waiting.Cards) <= maxCardRequests, "%d requests wait, at most %d", len(waiting.Cards), maxCardRequests)
}

// TestElasticJobsArePooled: a vote looks at the cards that jobs could give back, and not
// at each of thousands of jobs that hold the same cards.
func TestElasticJobsArePooled(t *testing.T) {
	names := named("M", 3)
	a := limited(names, 20_000)
	for _, n := range names { // only what elastic jobs give is left
		a.Charge("p"+string(n), &Charge{Queue: "q", Cards: []card.Amount{{Name: n, Count: 20_000}}})
	}

	var waiting Reservations
	for i := range 2000 {
		waiting.AddElastic(ElasticUsage{Used: map[card.Name]card.Count{names[0]: 2, names[1]: card.Count(i % 7)}, Elastic: card.Count(i % 5)})
		waiting.AddElastic(ElasticUsage{Used: map[card.Name]card.Count{names[0]: 1, names[1]: 1, names[2]: 1}, Elastic: 2})
	}

	waiting.Add(JobRequest{Cards: []CardRequest{{Names: names, Count: 8}}})
	m, short := matchInQueue(a, &waiting, JobRequest{Cards: []CardRequest{{Names: names, Count: 5000}}})
	check.That(t, short == nil && len(m.edgesFrom) <= 10 && m.steps <= 200, "%d vertices, %d steps, refused: %v", len(m.edgesFrom), m.steps, short)
}

// BenchmarkVote is the admission of one of many jobs beside others that are elastic, or
// wait for many choices of cards.
func BenchmarkVote(b *testing.B) {
	names := named("M", 16)

	for name, fill := range map[string]func(*Reservations){
		"nothing waits": func(*Reservations) {},
		"2000 elastic jobs with two cards": func(w *Reservations) {
			for range 2000 {
				w.AddElastic(ElasticUsage{Used: map[card.Name]card.Count{names[0]: 2, names[1]: 2}, Elastic: 3})
			}
		},
		"64 choices wait": func(w *Reservations) {
			for _, d := range choosing(names, maxChoices, 1).Cards {
				w.Add(JobRequest{Cards: []CardRequest{d}})
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			a := limited(names, 20_000)
			app := JobRequest{Cards: []CardRequest{{Names: names[:2], Count: 8}}}
			var waiting Reservations
			fill(&waiting)
			for range b.N {
				if s := a.CheckEnqueue("q", only(&waiting), app, 1); s != nil {
					b.Fatal(s)
				}
			}
		})
	}
}

// TestTooManyChoicesReserveNeverTooLittle: what fits beside split requests also fits beside the
// original ones.
func TestTooManyChoicesReserveNeverTooLittle(t *testing.T) {
	names := []card.Name{"A", "B", "C"}
	seed.Check(t, func(t *rapid.T) {
		free := map[card.Name]int64{}
		quota := card.Quota{}
		for _, n := range names {
			quota[n] = card.Count(rapid.IntRange(0, 4).Draw(t, "quota"))
			free[n] = int64(quota[n])
		}

		a := newQueueLedger(quota)
		request := rapid.Custom(drawCardRequest)
		waits := rapid.SliceOfN(request, 0, 3).Draw(t, "waiting")
		app := JobRequest{Cards: rapid.SliceOfN(request, 1, 3).Draw(t, "application")}
		waiting := Reservations{split: rapid.Bool().Draw(t, "too many wait")}
		waiting.Add(a.DropUngranted("q", JobRequest{Cards: waits}))

		m := newMatching(nil, func(name card.Name) int64 { return free[name] })
		if rapid.Bool().Draw(t, "too many in the flow") {
			m.choices = map[string]int{}
			for i := range maxChoices + maxJobChoices {
				m.choices[fmt.Sprint("another ", i)] = sink
			}
		}

		for _, d := range waiting.Cards {
			m.addRequest(d)
		}

		admitted := !slices.ContainsFunc(app.Cards, func(d CardRequest) bool { return m.addRequest(d) < d.Count })
		fits := most(slices.Concat(waits, app.Cards), free, nil) == most(waits, free, nil)+countCards(app.Cards)
		check.Must(t, !admitted || fits, "%v is admitted beside %v in %v, brute force says it does not fit", app.Cards, waits, quota)
	})
}

// TestWhatWaitsDoesNotDependOnTheOrder: jobs come in the order of a map.
func TestWhatWaitsDoesNotDependOnTheOrder(t *testing.T) {
	text := func(w *Reservations) string {
		var lines []string
		for _, d := range w.Cards {
			lines = append(lines, fmt.Sprint(joinNames(d.Names), d.Count))
		}
		slices.Sort(lines)
		return fmt.Sprint(lines)
	}

	random := seed.Rand(t)
	for _, choices := range []int{4, maxChoices, maxChoices + 1, 300} {
		requests := choosing(named("M", 16), choices, 3).Cards
		requests = append(requests, requests[:2]...)

		var first, second Reservations
		first.Add(JobRequest{Cards: requests})
		random.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
		for _, d := range requests {
			backwards := slices.Clone(d.Names)
			slices.Reverse(backwards) // another order of preference
			second.Add(JobRequest{Cards: []CardRequest{{Names: backwards, Count: d.Count}}})
		}

		check.Equal(t, fmt.Sprintf("%d choices: in another order", choices), text(&second), text(&first))
		check.That(t, choices > maxChoices || len(first.Cards) == choices, "%d choices are %d requests", choices, len(first.Cards))
	}
}

func TestAnApplicationCoversWhatIsPartOfIt(t *testing.T) {
	of := func(milliCPU int64, requests ...CardRequest) JobRequest {
		return JobRequest{Cards: requests, MilliCPU: milliCPU}
	}
	a := CardRequest{Names: []card.Name{"A"}, Count: 4}
	b := CardRequest{Names: []card.Name{"B", "C"}, Count: 1}

	more := CardRequest{Names: a.Names, Count: 5}
	for name, tc := range map[string]struct {
		whole, part JobRequest
		want        bool
	}{
		"the same":           {of(5, a, b), of(5, a, b), true},
		"in another order":   {of(5, a, b), of(4, b, a), true},
		"a part":             {of(5, a, b), of(0, b), true},
		"nothing":            {of(0), of(0), true},
		"more cards":         {of(5, a, b), of(5, more), false},
		"another card":       {of(5, a), of(5, b), false},
		"another order":      {of(5, b), of(5, CardRequest{Names: []card.Name{"C", "B"}, Count: 1}), true},
		"one more choice":    {of(5, a), of(5, CardRequest{Names: []card.Name{"B", "A"}, Count: 4}), true},
		"one choice less":    {of(5, b), of(5, CardRequest{Names: []card.Name{"B"}, Count: 1}), false},
		"of two at once":     {of(5, a, b), of(5, CardRequest{Names: []card.Name{"A", "B", "C"}, Count: 5}), true},
		"of two, and one":    {of(5, a, b), of(5, CardRequest{Names: []card.Name{"A", "B", "C"}, Count: 5}, b), false},
		"of none":            {of(5, CardRequest{Count: 5}), of(5, a), false},
		"more CPU":           {of(5, a), of(6, a), false},
		"many and the same":  {choosing(named("M", 8), 100, 2), choosing(named("M", 8), 100, 1), true},
		"many and one other": {choosing(named("M", 8), 99, 2), choosing(named("M", 8), 100, 2), false},
	} {
		check.Equal(t, fmt.Sprintf("%s: covers", name), tc.want, tc.whole.Excess(tc.part).IsEmpty())
	}

	check.Equal(t, "what is beyond in CPU alone", of(1), of(5, a, b).Excess(of(6, a)))
}

// only returns the same reservations for every queue.
func only(r *Reservations) func(string) *Reservations {
	return func(string) *Reservations { return r }
}

// matchInQueue matches a request in queue q with its quota.
func matchInQueue(a *Ledger, inqueue *Reservations, request JobRequest) (*matching, *InsufficientQuota) {
	q := a.readQueue("q")
	return q.matchCards(q.limits.quota, inqueue, request)
}
