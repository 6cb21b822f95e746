package solver

import (
	"reflect"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestGreedyClearsNoNodeBeyondQuota: the free node a0 uses the only card that is left in quota
// A. A victim on a1 would make no room, and its job could not lose the pod on b1 any more.
func TestGreedyClearsNoNodeBeyondQuota(t *testing.T) {
	const (
		a0 = 0
		a1 = 1
		b1 = 2
	)

	for name, jobs := range map[string][]Job{
		"a unit suffices alone": {podsOf(1, podOn(a1, 1), podOn(b1, 2))},
		"two units suffice":     {podsOf(1, Pod{Node: a1, Usage: Amounts{0.5}, Loss: 1}, podOn(b1, 2)), podsOf(1, Pod{Node: a1, Usage: Amounts{0.5}, Loss: 1})},
	} {
		p := fullProblem(3, 2, 1, jobs...)
		p.Quotas = flatQuotas(1, 5)
		p.Nodes[a0].Free = Amounts{1}
		p.Nodes[b1].Quota = 1
		got := Solve(p, 0)
		check.Must(t, got.Plan != nil, "%s: %+v, want a plan", name, got)

		check.Equal(t, name+": victims", singlePods(0, 1), got.Plan.Victims)
		m := newModel(p)
		m.addJobs(p)
		s := m.initialState()
		m.allowPruning()
		check.That(t, s.chooseGreedily() && !s.isVictim[0] && s.isVictim[1], "%s: the greedy choice is %v, want pod 1 of job 0", name, s.chosenUnits())
	}
}

// TestClearNodeTakesOnlyWhatIsNeeded: a set for a node has no superfluous units, and there is
// none where each unit suffices alone.
func TestClearNodeTakesOnlyWhatIsNeeded(t *testing.T) {
	for name, c := range map[string]struct {
		jobs []Job
		want []int
	}{
		"the cheap unit is superfluous": {[]Job{podsOf(1, podOn(0, 1)), podsOf(1, Pod{Usage: Amounts{3}, Loss: 10})}, []int{1}},
		"both units are needed":         {[]Job{podsOf(1, podOn(0, 1)), podsOf(1, twoCards(0, 10))}, []int{0, 1}},
		"each unit suffices alone":      {[]Job{podsOf(1, Pod{Usage: Amounts{3}, Loss: 1}), podsOf(1, Pod{Usage: Amounts{3}, Loss: 10})}, nil},
	} {
		p := fullProblem(1, 1, 3, c.jobs...)
		m := newModel(p)
		m.addJobs(p)
		h := &greedySearch{state: m.initialState()}
		got, loss := h.clearNode(0)
		check.That(t, reflect.DeepEqual(got, c.want), "%s: %v, want %v", name, got, c.want)

		var want Loss
		for _, u := range c.want {
			want = want.plus(m.unitLoss(u))
		}
		check.That(t, loss == want && h.loss == Loss{}, "%s: loss %+v, want %+v; the state keeps %+v", name, loss, want, h.loss)
	}
}
