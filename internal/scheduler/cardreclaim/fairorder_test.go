package cardreclaim

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

func jobOf(queue, namespace, name string) *api.JobInfo {
	return &api.JobInfo{UID: api.JobID(namespace + "/" + name), Queue: api.QueueID(queue), Namespace: namespace, Name: name}
}

// compareUID is the order of jobs that fairOrder does not decide.
func compareUID(a, b *api.JobInfo) bool { return a.UID < b.UID }

// playSessions plays sessions with a budget, and lists the jobs that each served. work is
// what a job needs.
func (f *fairOrder) playSessions(jobs []*api.JobInfo, most int, work func(*api.JobInfo) int) []string {
	var served []string
	waiting := f.startSession(jobs)
	for of, any := f.pickNext(waiting, compareUID); any && most > 0; of, any = f.pickNext(waiting, compareUID) {
		job := waiting[of][0]
		waiting[of] = waiting[of][1:]
		if len(waiting[of]) == 0 {
			delete(waiting, of)
		}

		spent := min(most, work(job))
		most -= spent
		f.recordServed(job, spent)
		served = append(served, string(job.UID))
	}

	f.endSession(most > 0)
	return served
}

// TestEveryJobIsServed: a namespace may bring a new job into every session that uses up the
// budget. It delays neither other namespaces nor its own older jobs for ever.
func TestEveryJobIsServed(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		const most = 100
		var honest []*api.JobInfo
		tenants := rapid.IntRange(1, 4).Draw(t, "tenants")
		for i := range tenants {
			for k := range rapid.IntRange(1, 5).Draw(t, "jobs") {
				honest = append(honest, jobOf("q", fmt.Sprintf("honest%d", i), fmt.Sprint(k)))
			}
		}

		needs := rapid.IntRange(1, most).Draw(t, "needs")
		work := func(job *api.JobInfo) int {
			if job.Namespace == "evil" {
				return most
			}
			return needs
		}

		state := &fairOrder{}
		evil := []*api.JobInfo{}
		before := jobOf("q", "evil", "before")
		state.startSession(append(honest[:len(honest):len(honest)], before))
		state.recordServed(before, most)
		state.endSession(false)

		served := map[string]bool{}
		for session := range 2*len(honest) + 2*tenants {
			evil = append(evil, jobOf("q", "evil", fmt.Sprint("e", session)))
			for _, name := range state.playSessions(append(evil[:len(evil):len(evil)], honest...), most, work) {
				served[name] = true
			}
		}

		for _, job := range honest {
			check.Must(t, served[string(job.UID)], "%s was never served, only %v", job.UID, served)
		}
	})
}

func TestFairOrder(t *testing.T) {
	a1 := jobOf("q", "a", "1")
	a2 := jobOf("q", "a", "2")
	b1 := jobOf("q", "b", "1")
	ten := func(*api.JobInfo) int { return 10 }
	state := &fairOrder{}
	check.That(t, !state.isScarce, "turns before any session")

	state.startSession([]*api.JobInfo{a1, a2, b1})
	state.recordServed(a1, 10)
	state.endSession(false)
	check.That(t, state.isScarce, "no turns after a session that did not suffice")
	for i, want := range []string{"[b/1]", "[a/2]", "[b/1]", "[a/1]"} {
		check.Equal(t, fmt.Sprintf("session %d serves", i), want, fmt.Sprint(state.playSessions([]*api.JobInfo{a1, a2, b1}, 10, ten)))
	}

	c1 := jobOf("q", "c", "1")
	for i, want := range []string{"[b/1]", "[c/1]"} {
		check.Equal(t, fmt.Sprintf("with a new tenant session %d serves", i), want, fmt.Sprint(state.playSessions([]*api.JobInfo{a1, b1, c1}, 10, ten)))
	}

	state.playSessions([]*api.JobInfo{a1}, 11, ten)
	check.That(t, !state.isScarce && state.lastServed == nil, "turns go on after a session that sufficed")
}
