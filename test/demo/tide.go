package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	jobColumns  = "custom-columns=JOB:.metadata.name,STATE:.status.state.phase,RUNNING:.status.running,RETRIES:.status.retryCount"
	tideColumns = "custom-columns=POD:.metadata.name,STATUS:.status.phase,CARDS:.spec.containers[0].resources.limits.nvidia\\.com/gpu,NODE:.spec.nodeName"
	toldColumns = "custom-columns=OBJECT:.involvedObject.kind,NAME:.involvedObject.name,MESSAGE:.message"
	// ofTheTide selects who holds 4090 in the second act.
	ofTheTide = "app in (ranker, detector, segmenter)"
)

// gangs are the training jobs of the night, of two pods with two cards each.
var gangs = []string{"detector", "segmenter"}

// policy turns the tide on. The sample leaves a training job alone for its first
// ten minutes, which is longer than the tour.
func (g *guide) policy(ctx context.Context) error {
	g.headline("Second act, the tide: who takes from whom",
		"The ServiceTypePolicy came with the quotas: inference takes cards back from training. The tour has no\nten minutes to wait until a training job may be taken, so that goes from the policy.")
	if err := g.show(ctx, "patch", "stp", "default", "--type=json", "-p", `[{"op":"remove","path":"/spec/serviceTypes/1/minimumRuntime"}]`); err != nil {
		return err
	}
	if err := g.until(ctx, "true true", "get", "stp", "default", "-o",
		`go-template={{eq .metadata.generation .status.observedGeneration}} {{range .status.conditions}}{{if eq .type "Ready"}}{{eq .status "True"}}{{end}}{{end}}`); err != nil {
		return err
	}
	return g.show(ctx, "get", "stp")
}

func (g *guide) night(ctx context.Context) error {
	g.headline("Night: training fills the 4090s", "The ranker is scaled down, and two training gangs take all eight cards.")
	if err := g.show(ctx, "scale", "deployment", "ranker", "--replicas=0"); err != nil {
		return err
	}
	if err := g.apply(ctx, "test", "demo", "workloads", "night-quota.yaml"); err != nil {
		return err
	}
	if err := g.show(ctx, "wait", "cardq", "vision-training", "--for=condition=Ready", "--timeout=30s"); err != nil {
		return err
	}
	if err := g.apply(ctx, "test", "demo", "workloads", "night.yaml"); err != nil {
		return err
	}
	for _, gang := range gangs {
		if err := g.running(ctx, "app="+gang, 2); err != nil {
			return err
		}
	}
	return g.tide(ctx)
}

func (g *guide) morning(ctx context.Context) error {
	g.headline("Morning: inference takes cards back", "Three rankers need three cards. One gang goes as a whole, the one that loses least; the other goes on.")
	began := time.Now()
	if err := g.show(ctx, "scale", "deployment", "ranker", "--replicas=3"); err != nil {
		return err
	}
	if err := g.running(ctx, "app=ranker", 3); err != nil {
		return err
	}
	fmt.Printf("\nRunning %.1f s after the command:\n", time.Since(began).Seconds())
	if err := g.tide(ctx); err != nil {
		return err
	}
	if err := g.oneGang(ctx); err != nil {
		return err
	}
	fmt.Println("\nWhy was my job evicted? Its events tell, and those of the service tell the other side:")
	for _, reason := range []string{"CardsReclaimed", "ReclaimsCards"} {
		if err := g.until(ctx, "true", "get", "events", "--field-selector=reason="+reason, "-o", "go-template={{gt (len .items) 0}}"); err != nil {
			return err
		}
		if err := g.show(ctx, "get", "events", "--field-selector=reason="+reason, "-o", toldColumns); err != nil {
			return err
		}
	}
	return nil
}

func (g *guide) rush(ctx context.Context) error {
	g.headline("Rush hour: a fourth ranker", "The gang that went left a card over. It is used up before another job is touched.")
	if err := g.show(ctx, "scale", "deployment", "ranker", "--replicas=4"); err != nil {
		return err
	}
	if err := g.running(ctx, "app=ranker", 4); err != nil {
		return err
	}
	if err := g.tide(ctx); err != nil {
		return err
	}
	return g.oneGang(ctx)
}

func (g *guide) evening(ctx context.Context) error {
	g.headline("Evening: training comes back", "The rankers leave, the gang starts again by itself, and no retry was counted against it.")
	if err := g.show(ctx, "scale", "deployment", "ranker", "--replicas=0"); err != nil {
		return err
	}
	for _, gang := range gangs {
		if err := g.running(ctx, "app="+gang, 2); err != nil {
			return err
		}
		if err := g.until(ctx, "Running", "get", "vcjob", gang, "-o", "jsonpath={.status.state.phase} {.status.retryCount}"); err != nil {
			return err
		}
	}
	return g.tide(ctx)
}

// tide shows who holds the 4090s.
func (g *guide) tide(ctx context.Context) error {
	if err := g.show(ctx, "get", "pods", "-l", ofTheTide, "--sort-by=.metadata.name", "-o", tideColumns); err != nil {
		return err
	}
	return g.show(ctx, "get", "vcjob", gangs[0], gangs[1], "-o", jobColumns)
}

// oneGang checks that one gang runs whole and the other not at all.
func (g *guide) oneGang(ctx context.Context) error {
	out, err := g.cluster.Kubectl(ctx, "get", "pods", "-l", "app in (detector, segmenter)", "--field-selector=status.phase=Running", "-o", "jsonpath={.items[*].metadata.labels.app}")
	if err != nil {
		return err
	}
	if running := strings.Fields(out); len(running) != 2 || running[0] != running[1] {
		return errors.New("one gang should run, and the other not at all, but these pods run: " + out)
	}
	return nil
}
