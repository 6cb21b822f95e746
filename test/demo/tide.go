package main

import (
	"errors"
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
func (g *guide) policy() {
	g.Headline("Second act, the tide: who takes from whom",
		"The ServiceTypePolicy came with the quotas: inference takes cards back from training. The tour has no\nten minutes to wait until a training job may be taken, so that goes from the policy.")
	g.show("patch", "stp", "default", "--type=json", "-p", `[{"op":"remove","path":"/spec/serviceTypes/1/minimumRuntimeSeconds"}]`)
	g.until("true true", "get", "stp", "default", "-o",
		`go-template={{eq .metadata.generation .status.observedGeneration}} {{range .status.conditions}}{{if eq .type "Ready"}}{{eq .status "True"}}{{end}}{{end}}`)
	g.show("get", "stp")
}

func (g *guide) night() {
	g.Headline("Night: training fills the 4090s", "The ranker is scaled down, and two training gangs take all eight cards.")
	g.show("scale", "deployment", "ranker", "--replicas=0")
	g.apply("test", "demo", "workloads", "night-quota.yaml")
	g.show("wait", "cardq", "vision-training", "--for=condition=Ready", "--timeout=30s")
	g.apply("test", "demo", "workloads", "night.yaml")
	for _, gang := range gangs {
		g.running("app="+gang, 2)
	}
	g.tide()
}

func (g *guide) morning() {
	g.Headline("Morning: inference takes cards back", "Three rankers need three cards. One gang goes as a whole, the one that loses least; the other goes on.")
	began := time.Now()
	g.show("scale", "deployment", "ranker", "--replicas=3")
	g.running("app=ranker", 3)
	g.say("\nRunning %.1f s after the command:\n", time.Since(began).Seconds())
	g.tide()
	g.oneGang()
	g.say("\nWhy was my job evicted? Its events tell, and those of the service tell the other side:\n")
	for _, reason := range []string{"CardsReclaimed", "ReclaimsCards"} {
		g.until("true", "get", "events", "--field-selector=reason="+reason, "-o", "go-template={{gt (len .items) 0}}")
		g.show("get", "events", "--field-selector=reason="+reason, "-o", toldColumns)
	}
}

func (g *guide) rush() {
	g.Headline("Rush hour: a fourth ranker", "The gang that went left a card over. It is used up before another job is touched.")
	g.show("scale", "deployment", "ranker", "--replicas=4")
	g.running("app=ranker", 4)
	g.tide()
	g.oneGang()
}

func (g *guide) evening() {
	g.Headline("Evening: training comes back", "The rankers leave, the gang starts again by itself, and no retry was counted against it.")
	g.show("scale", "deployment", "ranker", "--replicas=0")
	for _, gang := range gangs {
		g.running("app="+gang, 2)
		g.until("Running", "get", "vcjob", gang, "-o", "jsonpath={.status.state.phase} {.status.retryCount}")
	}
	g.tide()
}

// tide shows who holds the 4090s.
func (g *guide) tide() {
	g.show("get", "pods", "-l", ofTheTide, "--sort-by=.metadata.name", "-o", tideColumns)
	g.show("get", "vcjob", gangs[0], gangs[1], "-o", jobColumns)
}

// oneGang checks that one gang runs whole and the other not at all.
func (g *guide) oneGang() {
	g.do(func() error {
		out, err := g.Cluster.Kubectl(g.ctx, "get", "pods", "-l", "app in (detector, segmenter)",
			"--field-selector=status.phase=Running", "-o", "jsonpath={.items[*].metadata.labels.app}")
		if running := strings.Fields(out); err == nil && (len(running) != 2 || running[0] != running[1]) {
			err = errors.New("one gang should run, and the other not at all, but these pods run: " + out)
		}
		return err
	})
}
