package solver

import (
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestGreedyClearsNoNodeBeyondQuota: two pods are pending. One gets node "free", and with it the only card
// that is left in quota A. A victim on "full", a node of A, makes no room for the other one, because no quota
// is left there. So the elastic job, which can lose only one pod, must lose that on nodeOfB. Solve evicts
// this pod, and so does its greedy search, which finds the first plan.
func TestGreedyClearsNoNodeBeyondQuota(t *testing.T) {
	for name, jobs := range map[string]string{
		"one victim would clear full": `
			job elastic running=full,nodeOfB elastic=1 whole=false
			pod elastic 0 loss=1
			pod elastic 1 loss=2`,
		"two victims of half a card would clear full": `
			job elastic running=full,nodeOfB elastic=1 whole=false
			pod elastic 0 loss=1 cards=0.5
			pod elastic 1 loss=2
			job another running=full cards=0.5 elastic=1 whole=false loss=1`,
	} {
		s := newScene(`
			quota A left=1; quota B left=5
			node free cards=1 quota=A
			node full quota=A
			node nodeOfB quota=B
			pending pods=2 cards=1` + jobs)
		got := Solve(s.Problem, 0)
		check.Must(t, got.Plan != nil, "%s: %+v, want a plan", name, got)
		check.Equal(t, name+": victims", "elastic-1", s.formatVictims(got.Plan))

		m := newModel(s.Problem)
		m.addJobs(s.Problem)
		greedy := m.initialState()
		m.allowPruning() // sets the budget of the greedy search
		check.That(t, greedy.chooseGreedily(), "%s: the greedy search finds no victims", name)
		check.Equal(t, name+": whether the greedy search evicts pod 0 and pod 1 of elastic", []bool{false, true}, greedy.isVictim[:2])
	}
}

// TestClearNodeEvictsOnlyWhatIsNeeded: a pod of 3 cards is pending on a full node. clearNode adds victims
// until they make room there, and then drops those that the others make needless. If each suffices alone, it
// returns none: the search tries single victims anyway. It undoes its trials, so the state has no loss
// afterwards. A job here can lose only its one pod.
func TestClearNodeEvictsOnlyWhatIsNeeded(t *testing.T) {
	for name, tc := range map[string]struct {
		first, second string
		want          []int // 0 is the pod of the first job, 1 that of the second
	}{
		"the second frees 3 cards, so the cheap first one is superfluous": {"cards=1 loss=1", "cards=3 loss=10", []int{1}},
		"they free 1 and 2 cards: both":                                   {"cards=1 loss=1", "cards=2 loss=10", []int{0, 1}},
		"each frees 3 cards: no set":                                      {"cards=3 loss=1", "cards=3 loss=10", nil},
	} {
		p := newScene("node n\n pending pods=1 cards=3\n" +
			"job first running=n elastic=1 whole=false " + tc.first + "\n" +
			"job second running=n elastic=1 whole=false " + tc.second).Problem
		m := newModel(p)
		m.addJobs(p)
		search := &greedySearch{state: m.initialState()}
		got, loss := search.clearNode(0) // node n

		var wantLoss Loss
		for _, unit := range tc.want {
			wantLoss = wantLoss.plus(m.unitLoss(unit))
		}
		check.Equal(t, name+": victims", tc.want, got)
		check.Equal(t, name+": loss", wantLoss, loss)
		check.Equal(t, name+": loss that the state keeps", Loss{}, search.loss)
	}
}
