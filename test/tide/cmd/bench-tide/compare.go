package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"cardquota.dev/operator/test/bench/harness"
	"cardquota.dev/operator/test/tide"
)

// size is the size of the benchmark.
type size struct {
	Nodes, Singles, Requests, Flood, Gang, Runs int
	Packed                                      bool
	Period                                      time.Duration
	profiles                                    string
}

// The scenes in their order.
const (
	oneByOne        = "one pod at a time"
	oneDeployment   = "one Deployment"
	manyDeployments = "many Deployments"
	oneGang         = "one gang"
)

var scenes = []string{oneByOne, oneDeployment, manyDeployments, oneGang}

// runResult is the result of one run of one action.
type runResult struct {
	// Load is the load average over one minute at the start of each scene.
	Load []string
	// Fill is how long training took to fill all cards, Ebb how long it took to fill them again
	// after each scene.
	Fill   time.Duration
	Ebb    []*tide.Return
	Scenes map[string]*tide.Result
}

// compareActions runs both actions alternately.
func compareActions(ctx context.Context, s size, out io.Writer) (*report, error) {
	lacksSome := s.Nodes < 1 || s.Runs < 1 || s.Requests < 1 || s.Gang < 1
	floodsWholeGangs := s.Flood >= harness.GangSize && s.Flood%harness.GangSize == 0
	if lacksSome || !floodsWholeGangs || max(s.Flood, s.Gang, s.Requests) > s.Nodes*harness.GangSize {
		return nil, fmt.Errorf("impossible size %+v: at least one of each, and no more pods than %d cards", s, s.Nodes*harness.GangSize)
	}

	r := &report{Size: s, Runs: map[string][]*runResult{}}
	r.printHeader(out)
	return r, harness.RunAlternating(s.Runs, []string{tide.Reclaim, tide.CardReclaim}, func(action string) error {
		m, err := measureAction(ctx, s, action, out)
		r.Runs[action] = append(r.Runs[action], m)
		return err
	}, out)
}

// measureAction runs all scenes with one action on a fresh cluster.
func measureAction(ctx context.Context, s size, action string, out io.Writer) (m *runResult, err error) {
	w, err := tide.Start(ctx, tide.Setup{Nodes: s.Nodes, Singles: s.Singles, Action: action, Packed: s.Packed, Period: s.Period})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Stop()) }()

	m = &runResult{Scenes: map[string]*tide.Result{}}
	began := time.Now()
	if err := w.FillWithTraining(ctx); err != nil {
		return nil, err
	}

	m.Fill = time.Since(began)
	harness.Printf(out, "  training took %d cards in %s\n", s.Nodes*harness.GangSize, harness.FormatSeconds(m.Fill))

	play := map[string]func() (*tide.Result, error){
		oneByOne:      func() (*tide.Result, error) { return w.ServePodsOneByOne(ctx, s.Requests) },
		oneDeployment: func() (*tide.Result, error) { return w.ServeDeployments(ctx, "one", 1, s.Flood) },
		manyDeployments: func() (*tide.Result, error) {
			return w.ServeDeployments(ctx, "many", s.Flood/harness.GangSize, harness.GangSize)
		},
		oneGang: func() (*tide.Result, error) { return w.ServeGang(ctx, s.Gang) },
	}

	for _, name := range scenes {
		if name != oneByOne { // where a gang must find its cards free again
			if err := w.AddWaitingSingles(ctx); err != nil {
				return nil, err
			}
		}

		average := harness.LoadAverage()
		m.Load = append(m.Load, average)
		profiled := make(chan error, 1)
		go func() { profiled <- w.WriteCPUProfile(ctx, s.profiles, action+"-"+name) }()

		scene, err := play[name]()
		if err := errors.Join(err, <-profiled); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}

		m.Scenes[name] = scene
		harness.Printf(out, "  %s, at a load of %s: %s\n", name, average, describeScene(scene))

		ebb, err := w.ReturnToTraining(ctx)
		if err != nil {
			return nil, fmt.Errorf("after %s: %w", name, err)
		}

		m.Ebb = append(m.Ebb, ebb)
		harness.Printf(out, "    training was back after %s; %d gangs were not\n", harness.FormatSeconds(ebb.After), len(ebb.Stuck))
	}

	return m, nil
}
