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

// cardNames returns the names prefix0, prefix1 and so on.
func cardNames(prefix string, n int) []card.Name {
	var names []card.Name
	for i := range n {
		names = append(names, card.Name(fmt.Sprintf("%s%d", prefix, i)))
	}
	return names
}

// newJobOfChoices returns a job of n requests, each for other alternatives among names.
func newJobOfChoices(names []card.Name, n int, count card.Count) JobRequest {
	random := rand.New(rand.NewPCG(1, 2))
	var job JobRequestBuilder
	for len(job.Cards) < n {
		choice := slices.DeleteFunc(slices.Clone(names), func(card.Name) bool { return random.IntN(2) == 0 })
		if len(choice) > 1 && job.index.find(job.Cards, choice) < 0 {
			job.Add(Request{Names: choice, Count: count})
		}
	}
	return JobRequest{Cards: job.Cards}
}

// newLedgerWithQuota returns the ledger of queue q with the same quota of each card.
func newLedgerWithQuota(names []card.Name, each card.Count) *Ledger {
	quota := card.Quota{}
	for _, name := range names {
		quota[name] = each
	}
	return newQueueLedger(quota)
}

// addEach adds each request of a job as that of a job of its own.
func (r *Reservations) addEach(job JobRequest) {
	for _, request := range job.Cards {
		r.Add(JobRequest{Cards: []CardRequest{request}})
	}
}

// workBound bounds how large the flow network of a matching is, and how many steps it takes.
type workBound struct{ vertices, edges, steps int }

// checkWork compares the work of a matching with a bound.
func checkWork(t *testing.T, m *matching, most workBound) {
	check.That(t, len(m.edgesFrom) <= most.vertices, "%d vertices, want at most %d", len(m.edgesFrom), most.vertices)
	check.That(t, len(m.edges) <= most.edges, "%d edges, want at most %d", len(m.edges), most.edges)
	check.That(t, m.steps <= most.steps, "%d steps, want at most %d", m.steps, most.steps)
}

// TestCardsWithoutQuotaCostNoWork: users may write any card name, also invented ones. The check of enqueue, which
// lets a job create its pods, must not become slow from them. Queue q has a quota of REAL-0 and REAL-1. 20 jobs with
// thousands of invented names have reservations; only their parts for the two real cards are kept.
func TestCardsWithoutQuotaCostNoWork(t *testing.T) {
	realNames := cardNames("REAL-", 2)
	l := newLedgerWithQuota(realNames, 100)
	var reservations Reservations
	for i := range 20 {
		var job JobRequest
		for j := range 256 {
			oneRealName := append(cardNames(fmt.Sprintf("X-%d-%d-", i, j), 15), realNames[j%2])
			inventedNames := cardNames(fmt.Sprintf("Y-%d-%d-", i, j), 16)
			job.Cards = append(job.Cards, CardRequest{Names: oneRealName, Count: 1}, CardRequest{Names: inventedNames, Count: 1000})
		}
		reservations.Add(l.DropUngranted("q", job))
	}

	check.Equal(t, "reservations: 20 jobs × 128 requests for each real card", []CardRequest{
		{Names: realNames[:1], Count: 20 * 128},
		{Names: realNames[1:], Count: 20 * 128},
	}, reservations.Cards)

	m, insufficient := matchInQueue(l, &reservations, JobRequest{Cards: []CardRequest{{Names: realNames[:1], Count: 1}}})
	check.That(t, insufficient != nil, "one more card fits beside reservations of 2560, the quota is 100")
	checkWork(t, m, workBound{vertices: 2 + 1, edges: 4, steps: 20}) // the vertices are two cards and the sink
}

// TestRefusalNamesInventedCardsAsWritten: a job that requests only cards without a quota is refused, and the refusal
// has the names that the user wrote. Such names with a count of 0 request nothing, so they are not refused, even
// while reservations of 200 cards exceed the quota of 100.
func TestRefusalNamesInventedCardsAsWritten(t *testing.T) {
	l := newLedgerWithQuota(cardNames("REAL-", 2), 100)
	invented := CardRequest{Names: cardNames("INVENTED-", 16), Count: 3}

	_, insufficient := matchInQueue(l, &Reservations{}, JobRequest{Cards: []CardRequest{invented}})
	check.Equal(t, "refusal", &InsufficientQuota{Queue: "q", Names: invented.Names, Requested: 3, Total: 3}, insufficient)

	noCards := JobRequest{MilliCPU: 1, Cards: []CardRequest{{Names: invented.Names, Count: 0}}}
	var reservations Reservations
	reservations.Add(JobRequest{Cards: []CardRequest{{Names: []card.Name{"REAL-0"}, Count: 200}}})
	check.Equal(t, "refusal of a job without cards", nil, l.CheckEnqueue("q", reserveForAll(&reservations), noCards, 1))
}

// TestManyChoicesAreBoundedWork: 16 card names allow 65,519 different lists of alternatives, and users choose them.
// Reservations keep at most maxChoices (64) of them apart. Beyond that a request reserves its count of each of its
// alternatives, which is more than it needs. So there are only 16 reservations, one for each card. The check of a job
// with 2000 choices is bounded too.
func TestManyChoicesAreBoundedWork(t *testing.T) {
	names := cardNames("M", 16)
	l := newLedgerWithQuota(names, 10_000)

	var reservations Reservations
	reservations.addEach(newJobOfChoices(names, maxChoices, 1))
	check.That(t, !reservations.split, "requests with as many choices as are allowed reserve each of their alternatives")
	check.Equal(t, "reservations for as many choices as are allowed", maxChoices, len(reservations.Cards))

	m, insufficient := matchInQueue(l, &reservations, newJobOfChoices(names, 2000, 1))
	check.Equal(t, "refusal of a job with 2000 choices", nil, insufficient)
	checkWork(t, m, workBound{vertices: 1 + 16 + maxChoices + maxJobChoices, edges: 2 * 16 * (1 + maxChoices + maxJobChoices), steps: 1_000_000})

	reservations.Add(newJobOfChoices(names, 2000, 1))
	check.That(t, reservations.split, "requests with 2000 choices do not reserve each of their alternatives")
	check.Equal(t, "reservations for 2000 choices among 16 cards", 16, len(reservations.Cards))

	for range 3 { // as in a queue without limits, where users may request any card
		reservations.Add(newJobOfChoices(cardNames("any", 1000), 20, 1))
	}
	check.That(t, len(reservations.Cards) <= maxCardRequests, "%d reservations for 1016 cards, want at most %d", len(reservations.Cards), maxCardRequests)
}

// TestElasticJobsArePooled: jobs may wait for cards of elastic pods, which run beyond the minimum of their job and
// are evicted first. Thousands of jobs that use the same cards count as one pool, so the check stays fast. All cards
// are in use. 4000 jobs have about 8000 cards in elastic pods, so a job of 5000 cards fits in their place.
func TestElasticJobsArePooled(t *testing.T) {
	names := cardNames("M", 3)
	l := newLedgerWithQuota(names, 20_000)
	for _, name := range names {
		l.Charge("pod with all "+string(name), newCharge("q", name, 20_000))
	}

	var reservations Reservations
	for i := range 2000 {
		reservations.AddElastic(ElasticUsage{Used: map[card.Name]card.Count{names[0]: 2, names[1]: card.Count(i % 7)}, Elastic: card.Count(i % 5)})
		reservations.AddElastic(ElasticUsage{Used: map[card.Name]card.Count{names[0]: 1, names[1]: 1, names[2]: 1}, Elastic: 2})
	}
	reservations.Add(JobRequest{Cards: []CardRequest{{Names: names, Count: 8}}})

	m, insufficient := matchInQueue(l, &reservations, JobRequest{Cards: []CardRequest{{Names: names, Count: 5000}}})
	check.Equal(t, "refusal", nil, insufficient)
	checkWork(t, m, workBound{vertices: 10, edges: 100, steps: 200}) // instead of 4000 vertices for 4000 jobs
}

// BenchmarkCheckEnqueue checks one of many jobs beside others that are elastic, or that have reservations for many
// choices of cards.
func BenchmarkCheckEnqueue(b *testing.B) {
	names := cardNames("M", 16)

	for name, fill := range map[string]func(*Reservations){
		"no reservations": func(*Reservations) {},
		"2000 elastic jobs with two cards": func(r *Reservations) {
			for range 2000 {
				r.AddElastic(ElasticUsage{Used: map[card.Name]card.Count{names[0]: 2, names[1]: 2}, Elastic: 3})
			}
		},
		"reservations for 64 choices": func(r *Reservations) { r.addEach(newJobOfChoices(names, maxChoices, 1)) },
	} {
		b.Run(name, func(b *testing.B) {
			l := newLedgerWithQuota(names, 20_000)
			job := JobRequest{Cards: []CardRequest{{Names: names[:2], Count: 8}}}
			var reservations Reservations
			fill(&reservations)

			for range b.N {
				check.Must(b, l.CheckEnqueue("q", reserveForAll(&reservations), job, 1) == nil, "the job does not fit")
			}
		})
	}
}

// TestTooManyChoicesReserveNeverTooLittle: a choice is the alternatives of a request. The reservations of a
// queue keep a bounded number of choices apart, and so does the matching, which checks whether a job fits
// beside them. Beyond either bound a request reserves each of its alternatives. That may refuse a job that
// would fit, but must never accept one that does not, as brute force finds. Quotas, reservations and the job
// are random.
func TestTooManyChoicesReserveNeverTooLittle(t *testing.T) {
	names := []card.Name{"A", "B", "C"}

	seed.Check(t, func(t *rapid.T) {
		free := map[card.Name]int64{}
		quota := card.Quota{}
		for _, n := range names {
			quota[n] = card.Count(rapid.IntRange(0, 4).Draw(t, "quota"))
			free[n] = int64(quota[n])
		}

		requests := rapid.Custom(drawCardRequest)
		reserved := rapid.SliceOfN(requests, 0, 3).Draw(t, "reserved")
		job := JobRequest{Cards: rapid.SliceOfN(requests, 1, 3).Draw(t, "job")}
		reservations := Reservations{split: rapid.Bool().Draw(t, "too many choices reserved")}
		reservations.Add(newQueueLedger(quota).DropUngranted("q", JobRequest{Cards: reserved}))

		m := newMatching(nil, func(name card.Name) int64 { return free[name] })
		if rapid.Bool().Draw(t, "too many choices in the matching") {
			m.choices = map[string]int{}
			for i := range maxChoices + maxJobChoices {
				m.choices[fmt.Sprint("another ", i)] = sink // so the matching keeps no choice of the job apart
			}
		}

		for _, request := range reservations.Cards {
			m.addRequest(request)
		}

		isAccepted := !slices.ContainsFunc(job.Cards, func(request CardRequest) bool { return m.addRequest(request) < request.Count })
		fits := mostGiven(slices.Concat(reserved, job.Cards), free, nil) == mostGiven(reserved, free, nil)+countCards(job.Cards)
		check.Must(t, !isAccepted || fits, "%v is accepted beside %v in %v, brute force says it does not fit", job.Cards, reserved, quota)
	})
}

// TestReservationsDoNotDependOnTheOrder: the scheduler adds the jobs of a queue in the random order of a map.
// Neither their order nor the order of a job's alternatives changes the sum. A choice is the alternatives of
// a request, and requests of one choice are one sum. This is true for few choices, for as many as are kept
// apart (maxChoices), and for more. Then each request reserves all of its alternatives instead.
func TestReservationsDoNotDependOnTheOrder(t *testing.T) {
	sortedTexts := func(r *Reservations) []string {
		var texts []string
		for _, request := range r.Cards {
			texts = append(texts, fmt.Sprint(joinNames(request.Names), request.Count))
		}
		return slices.Sorted(slices.Values(texts))
	}

	random := seed.Rand(t)
	for _, choices := range []int{4, maxChoices, maxChoices + 1, 300} {
		requests := newJobOfChoices(cardNames("M", 16), choices, 3).Cards
		requests = append(requests, requests[:2]...) // two choices twice, so that their counts are added
		var original, shuffled Reservations
		original.Add(JobRequest{Cards: requests})

		random.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
		for _, request := range requests {
			backwards := slices.Clone(request.Names)
			slices.Reverse(backwards)
			shuffled.Add(JobRequest{Cards: []CardRequest{{Names: backwards, Count: request.Count}}})
		}

		check.Equal(t, fmt.Sprintf("reservations for %d choices, shuffled", choices), sortedTexts(&original), sortedTexts(&shuffled))
		check.That(t, choices > maxChoices || len(original.Cards) == choices, "%d choices are %d reservations", choices, len(original.Cards))
	}
}

// TestExcessIsWhatAnotherRequestDoesNotCover: Excess returns the part of one request that another does not
// cover, nothing if it covers all. A request for A is covered by one for A. One for A or B is covered by one
// for A, because A satisfies it. One for A is not covered by one for A or B, which may get B. The row "5 A by
// 4 A" asks whether job "whole", which requests 4 A, covers job "part" with 5 A. The first number of a job is
// its CPU. A choice is the alternatives of a request.
func TestExcessIsWhatAnotherRequestDoesNotCover(t *testing.T) {
	newJob := func(milliCPU int64, requests ...CardRequest) JobRequest {
		return JobRequest{Cards: requests, MilliCPU: milliCPU}
	}
	newRequest := func(count card.Count, names ...card.Name) CardRequest { return CardRequest{Names: names, Count: count} }
	fourA := newRequest(4, "A")
	oneBOrC := newRequest(1, "B", "C")

	for name, tc := range map[string]struct {
		part, whole JobRequest
		isCovered   bool
	}{
		"the same": {newJob(5, fourA, oneBOrC), newJob(5, fourA, oneBOrC), true},
		"the same in another order, and less CPU":          {newJob(4, oneBOrC, fourA), newJob(5, fourA, oneBOrC), true},
		"one of two requests":                              {newJob(0, oneBOrC), newJob(5, fourA, oneBOrC), true},
		"nothing by nothing":                               {newJob(0), newJob(0), true},
		"5 A by 4 A":                                       {newJob(5, newRequest(5, "A")), newJob(5, fourA, oneBOrC), false},
		"B or C by A":                                      {newJob(5, oneBOrC), newJob(5, fourA), false},
		"C or B by B or C":                                 {newJob(5, newRequest(1, "C", "B")), newJob(5, oneBOrC), true},
		"A or B by A":                                      {newJob(5, newRequest(4, "B", "A")), newJob(5, fourA), true},
		"B by B or C":                                      {newJob(5, newRequest(1, "B")), newJob(5, oneBOrC), false},
		"5 of any card by 4 A and 1 other card":            {newJob(5, newRequest(5, "A", "B", "C")), newJob(5, fourA, oneBOrC), true},
		"5 of any card and 1 more by 5 cards":              {newJob(5, newRequest(5, "A", "B", "C"), oneBOrC), newJob(5, fourA, oneBOrC), false},
		"4 A by 5 cards without a name, which get nothing": {newJob(5, fourA), newJob(5, newRequest(5)), false},
		"more CPU":                                         {newJob(6, fourA), newJob(5, fourA), false},
		"100 choices by the same with more cards":          {newJobOfChoices(cardNames("M", 8), 100, 1), newJobOfChoices(cardNames("M", 8), 100, 2), true},
		"100 choices by 99 of them":                        {newJobOfChoices(cardNames("M", 8), 100, 2), newJobOfChoices(cardNames("M", 8), 99, 2), false},
	} {
		check.Equal(t, name+": covered", tc.isCovered, tc.whole.Excess(tc.part).IsEmpty())
	}

	check.Equal(t, "excess of a job that requests only more CPU", newJob(1), newJob(5, fourA, oneBOrC).Excess(newJob(6, fourA)))
}

// reserveForAll returns the same reservations for every queue.
func reserveForAll(r *Reservations) func(string) *Reservations {
	return func(string) *Reservations { return r }
}

// matchInQueue matches a request in queue q with its quota.
func matchInQueue(l *Ledger, inqueue *Reservations, request JobRequest) (*matching, *InsufficientQuota) {
	q := l.readQueue("q")
	level := enqueueLevel{queue: "q", used: &q.used, limit: q.limits.Quota, inqueue: inqueue, overCommit: 1}
	return level.matchCards(request)
}
