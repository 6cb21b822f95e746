package tide

import (
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/bench/harness"
)

// TestReclaimEvictsWholeGangsThatReturn: make tide shows how inference takes cards back from training, on 500 nodes.
// Here it runs small: 5 nodes of 8 cards, with a training gang of 8 pods on each. Inference evicts whole gangs, and no
// more than it needs. When inference has ended, each gang runs again without a counted retry. Times are not checked,
// because other tests may run at the same time.
func TestReclaimEvictsWholeGangsThatReturn(t *testing.T) {
	ctx := t.Context()
	env := check.Value(Start(ctx, Setup{Nodes: 5, Period: 500 * time.Millisecond}))(t)
	t.Cleanup(func() { check.NoError(t, env.Stop()) })

	check.NoError(t, env.CreatePolicy(ctx))
	check.NoError(t, env.FillWithTraining(ctx))
	for _, scene := range []struct {
		name      string
		play      func() (*Result, error)
		wantUsage harness.Usage // the pods that use the 40 cards then
	}{
		{"two pods, which start and end one after the other: all 5 gangs run again",
			func() (*Result, error) { return env.ServePodsOneByOne(ctx, 2) }, harness.Usage{Gangs: 5, Cards: 40}},
		{"a Deployment of 12 pods takes 2 gangs of 8: 24 + 12 cards are in use",
			func() (*Result, error) { return env.ServeDeployments(ctx, "chat", 1, 12) }, harness.Usage{Gangs: 3, Inference: 12, Cards: 36}},
		{"a gang of 16 pods takes 2 gangs of 8: 24 + 16 cards are in use",
			func() (*Result, error) { return env.ServeGang(ctx, 16) }, harness.Usage{Gangs: 3, Inference: 16, Cards: 40}},
	} {
		result := check.Value(scene.play())(t)
		check.Equal(t, scene.name+": violations", nil, result.Violations())
		check.Equal(t, scene.name+": usage", scene.wantUsage, env.Pods.Usage())

		returned := check.Value(env.ReturnToTraining(ctx))(t)
		check.Equal(t, scene.name+": gangs that did not run again between single pods of inference", 0, result.Stuck)
		check.Equal(t, scene.name+": gangs that did not run again after inference had ended", 0, len(returned.Stuck))
	}
}

// TestAResultNamesEachViolation: make tide promises that all pods of inference are served, and that at most a tenth
// more gangs are evicted than needed. Gangs are evicted whole and without a counted retry. Each row changes a result
// without violations: 80 of 80 pods are served, and 11 gangs are evicted, of which 10 were needed.
func TestAResultNamesEachViolation(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		change func(*Result)
		want   []string
	}{
		"no violation":                         {func(*Result) {}, nil},
		"12 gangs are evicted, 10 were needed": {func(r *Result) { r.Loss.Gangs = 12 }, []string{"12 gangs broken, at most 11.0 may be"}},
		"a gang is evicted in part":            {func(r *Result) { r.Loss.Partial = 1 }, []string{"1 gangs left running in part"}},
		"3 retries are counted":                {func(r *Result) { r.Loss.Retries = 3 }, []string{"3 retries counted against jobs"}},
		"a pod of inference is not served":     {func(r *Result) { r.Done = 79 }, []string{"79 of 80 pods served"}},
		"one gang is evicted, none was needed": {func(r *Result) { r.Loss = harness.Loss{Gangs: 1} }, []string{"1 gangs broken, at most 0.0 may be"}},
	}) {
		result := Result{Pods: 80, Done: 80, Loss: harness.Loss{Gangs: 11, Least: 10}}
		tc.change(&result)

		check.Equal(t, "violations", tc.want, result.Violations())
	}
}

// TestALateMessageNamesTimeAndLimit: pods must be bound within MaxBoundAfter, 30 seconds. There is no message at the
// limit.
func TestALateMessageNamesTimeAndLimit(t *testing.T) {
	check.Equal(t, "a second late", "bound after 31.0 s, limit 30 s", LateMessage("bound", 31*time.Second, MaxBoundAfter))
	check.Equal(t, "in time", "", LateMessage("bound", MaxBoundAfter, MaxBoundAfter))
}
