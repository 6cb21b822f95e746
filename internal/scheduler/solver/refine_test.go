package solver

import (
	"reflect"
	"slices"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// podsOf returns a job that may lose so many pods, but is not evicted as a whole.
func podsOf(elastic int, pods ...Pod) Job { return Job{Elastic: elastic, Pods: pods} }

// twoCards is a pod that holds two cards.
func twoCards(node int, loss int64) Pod { return Pod{Node: node, Usage: Amounts{2}, Loss: loss} }

// TestSearchLeavesOutWhatCannotSuffice: the search for any choice ends each branch that cannot
// suffice any more, although many units that do not help are undecided.
func TestSearchLeavesOutWhatCannotSuffice(t *testing.T) {
	jobs := []Job{podsOf(1, twoCards(0, 1), twoCards(1, 2)), podsOf(1, twoCards(0, 50))}
	for i := range 20 {
		jobs = append(jobs, podsOf(1, podOn(2+i, 10)))
	}

	p := fullProblem(22, 2, 2, jobs...)
	p.PodSets[0].Request = append(p.PodSets[0].Request, 1)
	for i := range p.Nodes {
		p.Nodes[i].Free = append(p.Nodes[i].Free, 1) // one of the pending pods on each node
	}

	got := Solve(p, maxRefineWork)
	check.Must(t, got.Plan != nil, "%+v, want a plan", got)
	want := append(singlePods(0, 1), singlePods(1, 0)...)
	check.That(t, reflect.DeepEqual(got.Plan.Victims, want), "%+v, want %+v", got.Plan.Victims, want)
}

// TestSearchProvesThatElasticPodsDoNotSuffice: a job can lose 3 pods, and any node needs 8.
func TestSearchProvesThatElasticPodsDoNotSuffice(t *testing.T) {
	for name, nodes := range map[string]int{"all pods on one node": 1, "spread over the nodes": 7} {
		job := Job{Elastic: 3}
		for i := range 60 {
			job.Pods = append(job.Pods, podOn(i%nodes, int64(1+i)))
		}
		got := Solve(fullProblem(nodes, 1, 8, job), maxRefineWork)
		check.That(t, got.Plan == nil && !got.OutOfBudget, "%s: %+v, want no plan for certain", name, got)
	}
}

// TestSearchProvesThatElasticPodsReleaseTooLittle: a job can lose 3 pods, and the quota lacks 8.
func TestSearchProvesThatElasticPodsReleaseTooLittle(t *testing.T) {
	job := Job{Elastic: 3}
	for i := range 60 {
		job.Pods = append(job.Pods, podOn(1, int64(1+i)))
	}
	got := Solve(quotaProblem(1, 8, []int64{8, 0}, released(1, 1, job)), maxRefineWork)
	check.That(t, got.Plan == nil && !got.OutOfBudget, "%+v, want no plan for certain", got)
}

// TestSearchTriesMoreSetsInTrees: the lower bound excludes few sets of victims that release quotas and
// count against limits, so the least loss is found only after more than maxSearchTries sets.
func TestSearchTriesMoreSetsInTrees(t *testing.T) {
	type pod struct{ cards, loss int64 }
	jobOf := func(level, elastic int, limits []int, pods ...pod) Job {
		job := Job{Whole: true, Elastic: elastic, Level: level}
		for _, x := range pods {
			one := counted(x.cards, released(level, x.cards, Job{Pods: []Pod{{Node: 1, Loss: x.loss}}}), limits...)
			job.Pods = append(job.Pods, one.Pods...)
		}
		return job
	}

	limit := []int{0}
	p := fullProblem(6, 1, 12,
		jobOf(1, 2, limit, pod{1, 2}, pod{1, 2}, pod{2, 4}), jobOf(1, 1, limit, pod{1, 2}, pod{1, 2}),
		jobOf(1, 3, limit, pod{2, 1}, pod{4, 21}, pod{4, 21}, pod{1, 5}, pod{1, 5}),
		jobOf(1, 0, nil, pod{2, 3}), jobOf(1, 0, nil, pod{1, 1}), jobOf(1, 0, nil, pod{2, 12}), jobOf(2, 0, nil, pod{1, 5}))
	p.Quotas = []Quota{{Levels: []int64{1000, 0}}}
	p.TakeLimits = []TakeLimit{{Most: 8}}
	for i := range p.Nodes {
		p.Nodes[i].Free = Amounts{16}
	}

	optimum, possible := leastLoss(p)
	check.Must(t, possible, "there is a plan")

	got := Solve(p, maxRefineWork)
	check.Must(t, got.Plan != nil, "%+v, want a plan", got)
	check.Equal(t, "loss", optimum, got.Plan.Loss)
}

// TestNeighborhoodBeginsWithSharedNodes: a unit of a job on the victim's node comes before
// promising units, and so does a unit on another node of that job.
func TestNeighborhoodBeginsWithSharedNodes(t *testing.T) {
	jobs := []Job{podsOf(1, podOn(0, 100)), podsOf(2, podOn(0, 900), podOn(1, 900)), podsOf(1, podOn(1, 900))}
	for i := range 60 {
		jobs = append(jobs, podsOf(1, podOn(2+i, 1)))
	}
	m := newModel(fullProblem(62, 1, 1, jobs...))
	m.addJobs(fullProblem(62, 1, 1, jobs...))
	s := m.initialState()
	s.addVictim(0, none)
	got := s.neighborhoodOf(0, s.newBranchAndBound(s.openUnits()).options)
	check.That(t, len(got) == maxNeighborhood, "%d units, want %d", len(got), maxNeighborhood)
	check.That(t, slices.Equal(got[:4], []int{0, 1, 2, 3}), "begins with %v, want the jobs on its nodes", got[:4])
}
