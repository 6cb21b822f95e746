package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"cardquota.dev/operator/test/arena"
	"cardquota.dev/operator/test/tide"
)

// size is what is measured.
type size struct {
	Nodes, Singles, Requests, Flood, Gang, Runs int
	Packed                                      bool
	Period                                      time.Duration
	profiles                                    string
}

// The scenes, in their order.
const (
	oneByOne = "one pod at a time"
	flood    = "one Deployment"
	floods   = "many Deployments"
	large    = "one gang"
)

var scenes = []string{oneByOne, flood, floods, large}

// measured is one run of one action.
type measured struct {
	// Load is the load average over one minute at the start of each scene.
	Load []string
	// Fill is how long training took to take all cards, Ebb to take them again
	// after each scene.
	Fill   time.Duration
	Ebb    []*tide.Return
	Scenes map[string]*tide.Scene
}

// compare runs both actions in turns.
func compare(ctx context.Context, s size, out io.Writer) (*report, error) {
	if s.Nodes < 1 || s.Runs < 1 || s.Requests < 1 || s.Flood < arena.GangSize || s.Flood%arena.GangSize != 0 || s.Gang < 1 ||
		max(s.Flood, s.Gang, s.Requests) > s.Nodes*arena.GangSize {
		return nil, fmt.Errorf("impossible size %+v: at least one of each, and no more pods than %d cards", s, s.Nodes*arena.GangSize)
	}
	r := &report{Size: s, Runs: map[string][]*measured{}}
	r.begin(out)
	return r, arena.Turns(s.Runs, []string{tide.Reclaim, tide.CardReclaim}, func(action string) error {
		m, err := measure(ctx, s, action, out)
		r.Runs[action] = append(r.Runs[action], m)
		return err
	}, out)
}

// measure plays all scenes under one action on a fresh cluster.
func measure(ctx context.Context, s size, action string, out io.Writer) (m *measured, err error) {
	w, err := tide.Start(ctx, tide.Setup{Nodes: s.Nodes, Singles: s.Singles, Action: action, Packed: s.Packed, Period: s.Period})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Stop()) }()
	m = &measured{Scenes: map[string]*tide.Scene{}}
	began := time.Now()
	if err := w.Fill(ctx); err != nil {
		return nil, err
	}
	m.Fill = time.Since(began)
	arena.Printf(out, "  training took %d cards in %s\n", s.Nodes*arena.GangSize, arena.Seconds(m.Fill))
	play := map[string]func() (*tide.Scene, error){
		oneByOne: func() (*tide.Scene, error) { return w.OneByOne(ctx, s.Requests) },
		flood:    func() (*tide.Scene, error) { return w.Flood(ctx, "one", 1, s.Flood) },
		floods:   func() (*tide.Scene, error) { return w.Flood(ctx, "many", s.Flood/arena.GangSize, arena.GangSize) },
		large:    func() (*tide.Scene, error) { return w.Gang(ctx, s.Gang) },
	}
	for _, name := range scenes {
		if name != oneByOne { // where a gang must find its cards free again
			if err := w.Crowd(ctx); err != nil {
				return nil, err
			}
		}
		average := arena.LoadAverage()
		m.Load = append(m.Load, average)
		profiled := make(chan error, 1)
		go func() { profiled <- w.Profile(ctx, s.profiles, action+"-"+name) }()
		scene, err := play[name]()
		if err := errors.Join(err, <-profiled); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		m.Scenes[name] = scene
		arena.Printf(out, "  %s, at a load of %s: %s\n", name, average, said(scene))
		ebb, err := w.Ebb(ctx)
		if err != nil {
			return nil, fmt.Errorf("after %s: %w", name, err)
		}
		m.Ebb = append(m.Ebb, ebb)
		arena.Printf(out, "    training was back after %s; %d gangs were not\n", arena.Seconds(ebb.After), len(ebb.Stuck))
	}
	return m, nil
}
