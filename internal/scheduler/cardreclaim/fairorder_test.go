package cardreclaim

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// newJob returns a job of queue q.
func newJob(namespace, name string) *api.JobInfo {
	return &api.JobInfo{UID: api.JobID(namespace + "/" + name), Queue: "q", Namespace: namespace, Name: name}
}

// compareUID is the order of jobs that fairOrder does not decide.
func compareUID(a, b *api.JobInfo) bool { return a.UID < b.UID }

// serve plays a session with a budget, and returns the jobs that it served. work is what a job needs.
func (f *fairOrder) serve(jobs []*api.JobInfo, budget int, work func(*api.JobInfo) int) []string {
	var served []string
	waiting := f.startSession(jobs)
	for len(waiting) > 0 && budget > 0 {
		next := f.pickNext(waiting, compareUID)
		job := waiting[next][0]
		waiting[next] = waiting[next][1:]
		if len(waiting[next]) == 0 {
			delete(waiting, next)
		}

		spent := min(budget, work(job))
		budget -= spent
		f.recordSearched(job, spent)
		served = append(served, string(job.UID))
	}

	f.endSession(budget > 0)
	return served
}

// TestEveryJobIsServedInTheEnd: namespace evil brings a new job into every session. Each of these needs the
// whole budget of 100. The jobs of the honest namespaces need at most that. A session that cannot serve all
// jobs serves those namespaces first that have had the least work, so evil gets no larger part than an honest
// one. Two sessions for each honest job and two for each honest namespace suffice to serve every honest job.
func TestEveryJobIsServedInTheEnd(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		const budget = 100
		var honest []*api.JobInfo
		tenants := rapid.IntRange(1, 4).Draw(t, "tenants")
		for i := range tenants {
			for k := range rapid.IntRange(1, 5).Draw(t, "jobs") {
				honest = append(honest, newJob(fmt.Sprintf("honest%d", i), fmt.Sprint(k)))
			}
		}

		workOfHonest := rapid.IntRange(1, budget).Draw(t, "needs")
		work := func(job *api.JobInfo) int {
			if job.Namespace == "evil" {
				return budget
			}
			return workOfHonest
		}

		// Before that, a session in which a job of evil has used up the budget. So the next session serves jobs in turn.
		order := &fairOrder{}
		evil := []*api.JobInfo{}
		before := newJob("evil", "before")
		order.startSession(append(honest[:len(honest):len(honest)], before))
		order.recordSearched(before, budget)
		order.endSession(false) // it did not come to all jobs

		served := map[string]bool{}
		for session := range 2*len(honest) + 2*tenants {
			evil = append(evil, newJob("evil", fmt.Sprint("e", session)))
			for _, name := range order.serve(append(evil[:len(evil):len(evil)], honest...), budget, work) {
				served[name] = true
			}
		}

		for _, job := range honest {
			check.Must(t, served[string(job.UID)], "%s was never served, only %v", job.UID, served)
		}
	})
}

// TestNamespacesTakeTurnsWhileTheBudgetIsScarce: a session has a budget of 10, and each job needs 10. So each
// session serves one job: of the namespace that was served least, and there the job that was served longest ago.
// Between namespaces that were served equally the first job by name decides. A session that serves all jobs ends
// the turns.
func TestNamespacesTakeTurnsWhileTheBudgetIsScarce(t *testing.T) {
	a1 := newJob("a", "1")
	a2 := newJob("a", "2")
	b1 := newJob("b", "1")
	c1 := newJob("c", "1")
	needsTen := func(*api.JobInfo) int { return 10 }
	order := &fairOrder{}
	check.That(t, !order.isScarce, "namespaces take turns before any session")

	// The first session does not suffice for all three jobs: it serves a/1.
	order.startSession([]*api.JobInfo{a1, a2, b1})
	order.recordSearched(a1, 10)
	order.endSession(false) // it did not come to all jobs
	check.That(t, order.isScarce, "namespaces take no turns after a session that did not suffice")
	for i, want := range []string{"b/1", "a/2", "b/1", "a/1"} {
		check.Equal(t, fmt.Sprintf("jobs served by session %d", i+2), []string{want}, order.serve([]*api.JobInfo{a1, a2, b1}, 10, needsTen))
	}

	// Namespace c is new, and begins as if it was served as often as b, the namespace that was served least.
	for i, want := range []string{"b/1", "c/1"} {
		check.Equal(t, fmt.Sprintf("jobs served by session %d", i+6), []string{want}, order.serve([]*api.JobInfo{a1, b1, c1}, 10, needsTen))
	}

	// A budget of 11 is more than the only job needs, so the session serves all jobs.
	order.serve([]*api.JobInfo{a1}, 11, needsTen)
	check.That(t, !order.isScarce && order.lastSearched == nil, "namespaces take turns after a session that sufficed")
}
