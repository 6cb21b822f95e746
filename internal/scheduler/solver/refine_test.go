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
