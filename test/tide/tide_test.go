package tide

import (
	"fmt"
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/arena"
)

// TestATideTakesWholeGangsAndGivesThemBack plays what make tide shows, small. It
// says nothing of times: another test may run at the same time.
func TestATideTakesWholeGangsAndGivesThemBack(t *testing.T) {
	ctx := t.Context()
	w, err := Start(ctx, Setup{Nodes: 5, Period: 500 * time.Millisecond})
	check.NoError(t, err)
	t.Cleanup(func() { check.NoError(t, w.Stop()) })
	check.NoError(t, w.Policy(ctx))
	check.NoError(t, w.Fill(ctx))
	for _, tide := range []struct {
		name string
		play func() (*Scene, error)
		left arena.State // who holds the cards then
	}{
		{"one by one", func() (*Scene, error) { return w.OneByOne(ctx, 2) }, arena.State{Gangs: 5, Cards: 40}},
		{"flood", func() (*Scene, error) { return w.Flood(ctx, "chat", 1, 12) }, arena.State{Gangs: 3, Inference: 12, Cards: 36}},
		{"gang", func() (*Scene, error) { return w.Gang(ctx, 16) }, arena.State{Gangs: 3, Inference: 16, Cards: 40}},
	} {
		scene, err := tide.play()
		check.NoError(t, err)
		check.Equal(t, tide.name+": faults", nil, scene.Faults())
		check.Equal(t, tide.name+": afterwards", tide.left, w.Book.State())
		back, err := w.Ebb(ctx)
		check.NoError(t, err)
		if len(back.Stuck)+scene.Stuck > 0 {
			t.Errorf("%s: %v did not come back, and %d before", tide.name, back.Stuck, scene.Stuck)
		}
	}
}

func TestFaultsOfATide(t *testing.T) {
	good := Scene{Pods: 80, Done: 80, Loss: arena.Loss{Gangs: 11, Least: 10}}
	for name, tc := range map[string]struct {
		change func(*Scene)
		want   string
	}{
		"none":                       {func(*Scene) {}, "[]"},
		"more gangs than a tenth":    {func(s *Scene) { s.Loss.Gangs = 12 }, "[12 gangs broken, at most 11.0 may be]"},
		"a gang is left in part":     {func(s *Scene) { s.Loss.Partial = 1 }, "[1 gangs left running in part]"},
		"retries are counted":        {func(s *Scene) { s.Loss.Retries = 3 }, "[3 retries counted against jobs]"},
		"inference is not served":    {func(s *Scene) { s.Done = 79 }, "[79 of 80 pods served]"},
		"nobody had to go, one went": {func(s *Scene) { s.Loss = arena.Loss{Gangs: 1} }, "[1 gangs broken, at most 0.0 may be]"},
	} {
		s := good
		tc.change(&s)
		check.Equal(t, name, tc.want, fmt.Sprint(s.Faults()))
	}
	check.Equal(t, "late", "bound after 31.0 s, limit 30 s", Late("bound", 31*time.Second, FloodLimit))
	check.Equal(t, "in time", "", Late("bound", FloodLimit, FloodLimit))
}
