package tide

import (
	"testing"
	"time"
)

// TestATideTakesWholeGangsAndGivesThemBack plays what make tide shows, small. It
// says nothing of times: another test may run at the same time.
func TestATideTakesWholeGangsAndGivesThemBack(t *testing.T) {
	ctx := t.Context()
	w, err := Start(ctx, Setup{Nodes: 5, Period: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := w.Policy(ctx); err != nil {
		t.Fatal(err)
	}
	if err := w.Fill(ctx); err != nil {
		t.Fatal(err)
	}
	for _, tide := range []struct {
		name string
		play func() (*Scene, error)
		left State // who holds the cards then
	}{
		{"one by one", func() (*Scene, error) { return w.OneByOne(ctx, 2) }, State{Gangs: 5, Cards: 40}},
		{"flood", func() (*Scene, error) { return w.Flood(ctx, "chat", 1, 12) }, State{Gangs: 3, Inference: 12, Cards: 36}},
		{"gang", func() (*Scene, error) { return w.Gang(ctx, 16) }, State{Gangs: 3, Inference: 16, Cards: 40}},
	} {
		scene, err := tide.play()
		if err != nil {
			t.Fatalf("%s: %v", tide.name, err)
		}
		if faults := scene.Faults(); len(faults) > 0 {
			t.Errorf("%s: %v", tide.name, faults)
		}
		if got := w.Book.State(); got != tide.left {
			t.Errorf("%s: afterwards %+v, want %+v", tide.name, got, tide.left)
		}
		back, err := w.Ebb(ctx)
		if err != nil {
			t.Fatalf("%s: %v", tide.name, err)
		}
		if len(back.Stuck)+scene.Stuck > 0 {
			t.Errorf("%s: %v did not come back, and %d before", tide.name, back.Stuck, scene.Stuck)
		}
	}
}
