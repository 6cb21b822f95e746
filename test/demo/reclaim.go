package main

import "time"

const (
	jobColumns     = "custom-columns=JOB:.metadata.name,STATE:.status.state.phase,RUNNING:.status.running,RETRIES:.status.retryCount"
	holderColumns  = "custom-columns=POD:.metadata.name,STATUS:.status.phase,CARDS:.spec.containers[0].resources.limits.nvidia\\.com/gpu,NODE:.spec.nodeName"
	messageColumns = "custom-columns=OBJECT:.involvedObject.kind,NAME:.involvedObject.name,MESSAGE:.message"
	// reclaimSelector selects the pods that use 4090s in the second act.
	reclaimSelector = "app in (ranker, detector, segmenter)"
)

// gangSelector selects the pods of trainingGangs.
const gangSelector = "app in (detector, segmenter)"

// trainingGangs are the training jobs of the second act, with two pods of two cards each.
var trainingGangs = []string{"detector", "segmenter"}

// allowReclaim enables reclaim. The sample protects a training job for its first ten minutes,
// which is longer than the tour.
func (g *tour) allowReclaim() {
	g.Headline("Second act: who may reclaim from whom",
		"The ServiceTypePolicy came with the quotas: inference reclaims cards from training. The sample protects\na training job for its first ten minutes. The tour removes that from the policy.")
	g.showKubectl("patch", "stp", "default", "--type=json", "-p", `[{"op":"remove","path":"/spec/serviceTypes/1/minimumRuntimeSeconds"}]`)
	g.waitForPolicy()
	g.showKubectl("get", "stp")
}

func (g *tour) fillWithTraining() {
	g.Headline("Night: training fills the 4090s", "The ranker is scaled down, and two training gangs take all eight cards.")
	g.showKubectl("scale", "deployment", "ranker", "--replicas=0")
	g.applyFiles("test", "demo", "workloads", "night-quota.yaml")
	g.showKubectl("wait", "cardq", "vision-training", "--for=condition=Ready", "--timeout=30s")
	g.applyFiles("test", "demo", "workloads", "night.yaml")
	for _, gang := range trainingGangs {
		g.waitForRunning("app="+gang, 2)
	}
	g.showCardHolders()
}

func (g *tour) reclaimForInference() {
	g.Headline("Morning: inference reclaims cards", "Three rankers need three cards. The gang that loses least is evicted as a whole; the other one keeps running.")
	began := time.Now()
	g.showKubectl("scale", "deployment", "ranker", "--replicas=3")
	g.waitForRunning("app=ranker", 3)
	g.printf("\nRunning %.1f s after the command:\n", time.Since(began).Seconds())

	g.showCardHolders()
	g.checkOneGangRuns(gangSelector)
	g.printf("\nWhy was my job evicted? Its events state the reason, and those of the service show who reclaimed the cards:\n")

	for _, reason := range []string{"CardsReclaimed", "ReclaimsCards"} {
		g.waitForOutput("true", "get", "events", "--field-selector=reason="+reason, "-o", "go-template={{gt (len .items) 0}}")
		g.showKubectl("get", "events", "--field-selector=reason="+reason, "-o", messageColumns)
	}
}

func (g *tour) useLeftoverCard() {
	g.Headline("Rush hour: a fourth ranker", "The evicted gang left a free card. It is used before another job is evicted.")
	g.showKubectl("scale", "deployment", "ranker", "--replicas=4")
	g.waitForRunning("app=ranker", 4)
	g.showCardHolders()
	g.checkOneGangRuns(gangSelector)
}

func (g *tour) returnToTraining() {
	g.Headline("Evening: training comes back", "The rankers stop, and the gang restarts by itself. No retry was counted against it.")
	g.showKubectl("scale", "deployment", "ranker", "--replicas=0")
	for _, gang := range trainingGangs {
		g.waitForRunning("app="+gang, 2)
		g.waitForOutput("Running", "get", "vcjob", gang, "-o", "jsonpath={.status.state.phase} {.status.retryCount}")
	}
	g.showCardHolders()
}

// showCardHolders shows which pods use the 4090s.
func (g *tour) showCardHolders() {
	g.showKubectl("get", "pods", "-l", reclaimSelector, "--sort-by=.metadata.name", "-o", holderColumns)
	g.showKubectl("get", "vcjob", trainingGangs[0], trainingGangs[1], "-o", jobColumns)
}
