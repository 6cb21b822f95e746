package capacitycard

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/check"
)

// mostOfCheck is what a vote on a refused job may cost at most, as a part of one check of the quota.
const mostOfCheck = 0.5

// votesScene has a queue with quota of 20 cards, reservations for 64 pairs of them, and so many waiting
// jobs without pods that are all refused.
func votesScene(b *testing.B, jobs int) *scene {
	const (
		kinds   = 20
		choices = 64
	)

	name := func(k int) card.Name { return card.Name(fmt.Sprintf("M%02d", k%kinds)) }
	var text strings.Builder
	text.WriteString("node a model=A; queue q quota={")
	for k := range kinds {
		fmt.Fprintf(&text, `"%s":20,`, name(k))
	}

	quotas := strings.TrimSuffix(text.String(), ",") + "} cpu=64"
	text.Reset()
	for i := range jobs {
		fmt.Fprintf(&text, "; job j%d queue=q min=1 phase=Pending minCards=0 request={\"M03|M05\":40}", i)
	}

	s := newScene(b, quotas+text.String()).openSession()
	for c := range choices {
		pair := []card.Name{name(c), name(c + 1 + c/kinds)}
		s.p.sums.Reserve("q", quota.JobRequest{Cards: []quota.CardRequest{{Names: pair, Count: 3}}})
	}

	return s
}

// BenchmarkVotes measures the plugin's vote whether a job may be enqueued, for 10,000 jobs for which their queue has no
// quota. Volcano asks about each of them in every session. It fails if a vote costs more than half of one check of the
// quota (mostOfCheck).
func BenchmarkVotes(b *testing.B) {
	const (
		jobs   = 10_000
		checks = 200
	)

	s := votesScene(b, jobs)
	request, refusal := s.p.enqueue.MissingMinimum(s.Job("j0"))
	check.Must(b, refusal == nil, "the request is refused: %v", refusal)
	runtime.GC()
	began := time.Now()
	for range checks {
		check.Must(b, s.p.Ledger.CheckEnqueue("q", s.p.sums.Of, request, s.p.Args.OverCommitFactor) != nil, "the request is not refused")
	}

	oneCheck := time.Since(began) / checks

	for _, waiting := range s.Ssn.Jobs { // later sessions find what they have parsed
		s.p.enqueue.PodGroupRequestFor(waiting)
	}

	runtime.GC()
	began = time.Now()
	for _, waiting := range s.Ssn.Jobs {
		_, refusal := s.p.enqueue.Check(waiting)
		check.Must(b, refusal != nil, "a job is not refused")
	}

	took := time.Since(began)
	ratio := took.Seconds() / jobs / oneCheck.Seconds()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(took.Seconds()*1000, "votes-ms")
	b.ReportMetric(ratio, "check-ratio")
	check.That(b, ratio <= mostOfCheck, "a vote on a refused job costs %.2f of a check of the quota, at most %.2f is allowed", ratio, mostOfCheck)
}
