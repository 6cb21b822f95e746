package tide

import (
	"fmt"
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/bench/harness"
)

// TestReclaimEvictsWholeGangsThatReturn plays what make tide shows, small. It
// says nothing of times: another test may run at the same time.
func TestReclaimEvictsWholeGangsThatReturn(t *testing.T) {
	ctx := t.Context()
	w := check.Value(Start(ctx, Setup{Nodes: 5, Period: 500 * time.Millisecond}))(t)
	t.Cleanup(func() { check.NoError(t, w.Stop()) })

	check.NoError(t, w.CreatePolicy(ctx))
	check.NoError(t, w.FillWithTraining(ctx))
	for _, tide := range []struct {
		name string
		play func() (*Result, error)
		left harness.Usage // which pods hold the cards then
	}{
		{"one by one", func() (*Result, error) { return w.ServePodsOneByOne(ctx, 2) }, harness.Usage{Gangs: 5, Cards: 40}},
		{"flood", func() (*Result, error) { return w.ServeDeployments(ctx, "chat", 1, 12) }, harness.Usage{Gangs: 3, Inference: 12, Cards: 36}},
		{"gang", func() (*Result, error) { return w.ServeGang(ctx, 16) }, harness.Usage{Gangs: 3, Inference: 16, Cards: 40}},
	} {
		scene := check.Value(tide.play())(t)
		check.Equal(t, tide.name+": faults", nil, scene.Violations())
		check.Equal(t, tide.name+": afterwards", tide.left, w.Pods.Usage())

		back := check.Value(w.ReturnToTraining(ctx))(t)
		check.That(t, len(back.Stuck)+scene.Stuck == 0, "%s: %v did not come back, and %d before", tide.name, back.Stuck, scene.Stuck)
	}
}

func TestViolations(t *testing.T) {
	good := Result{Pods: 80, Done: 80, Loss: harness.Loss{Gangs: 11, Least: 10}}
	for name, tc := range map[string]struct {
		change func(*Result)
		want   string
	}{
		"none":                                 {func(*Result) {}, "[]"},
		"more gangs than a tenth":              {func(s *Result) { s.Loss.Gangs = 12 }, "[12 gangs broken, at most 11.0 may be]"},
		"a gang is left in part":               {func(s *Result) { s.Loss.Partial = 1 }, "[1 gangs left running in part]"},
		"retries are counted":                  {func(s *Result) { s.Loss.Retries = 3 }, "[3 retries counted against jobs]"},
		"inference is not served":              {func(s *Result) { s.Done = 79 }, "[79 of 80 pods served]"},
		"no eviction was needed, one happened": {func(s *Result) { s.Loss = harness.Loss{Gangs: 1} }, "[1 gangs broken, at most 0.0 may be]"},
	} {
		s := good
		tc.change(&s)
		check.Equal(t, name, tc.want, fmt.Sprint(s.Violations()))
	}

	check.Equal(t, "late", "bound after 31.0 s, limit 30 s", LateMessage("bound", 31*time.Second, MaxBoundAfter))
	check.Equal(t, "in time", "", LateMessage("bound", MaxBoundAfter, MaxBoundAfter))
}
