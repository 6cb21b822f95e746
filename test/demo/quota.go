package main

import "time"

const (
	podColumns   = "custom-columns=POD:.metadata.name,STATUS:.status.phase,NODE:.spec.nodeName"
	eventColumns = "custom-columns=OBJECT:.involvedObject.name,REASON:.reason,MESSAGE:.message"
)

// blockedLines prints a line per waiting workload of several CardQuotas.
const blockedLines = `jsonpath={range .items[*].status.blocked[*]}{.workload.kind} {.workload.namespace}/{.workload.name} waits for {.count} {.card}: {.reason}{"\n"}{end}`

// pluginEvents selects the events of the plugin.
const pluginEvents = "--field-selector=source=capacity-card"

// run runs all chapters in order.
func (g *tour) run() error {
	for _, chapter := range []func(){
		g.showFleet, g.applyQuotas, g.startWorkThatFits, g.exceedQuota, g.useCardWithoutQuota, g.raiseQuota, g.lowerQuota,
		g.allowReclaim, g.fillWithTraining, g.reclaimForInference, g.useLeftoverCard, g.returnToTraining,
		g.buildTree, g.lendAtNight, g.reclaimInTheMorning,
		g.showUsage, g.explainWaiting, g.showInventory, g.simulateService, g.keepPromise, g.showCardHours,
	} {
		chapter()
		if g.err != nil {
			return g.err
		}
	}

	return nil
}

func (g *tour) showFleet() {
	g.Headline("A mixed fleet", "Volcano counts H200, H800, 4090 and 4090-D alike as nvidia.com/gpu. The labels tell them apart.")
	g.showKubectl("get", "nodes", "-L", "nvidia.com/gpu.product,huawei.com/npu.product")
}

func (g *tour) applyQuotas() {
	g.Headline("Three tenants with quotas per card model", "The operator creates a Volcano Queue for each CardQuota. The quotas are those of config/samples, for namespace default.")
	g.applyFiles("test", "demo", "quotas")
	g.showKubectl("wait", "cardq", "--all", "--for=condition=Ready", "--timeout=30s")
	g.showKubectl("get", "cardq")
	g.showKubectl("cardquota", "top")
	g.showKubectl("get", "queue", "llm-training", "-o", `jsonpath={.metadata.annotations.volcano\.sh/card\.quota}{"\n"}`)
}

func (g *tour) startWorkThatFits() {
	g.Headline("Work that fits", "A training gang on H200, services on 4090 and on MIG slices, an NPU job.")
	g.applyFiles("test", "demo", "workloads", "fits.yaml")
	for selector, count := range map[string]int{"volcano.sh/job-name=pretrain": 4, "app=ranker": 3, "app=embedder": 3, "volcano.sh/job-name=npu-eval": 1} {
		g.waitForRunning(selector, count)
	}
	g.showKubectl("get", "pods", "-o", podColumns)
	g.waitForOutput("8", "get", "cardq", "llm-training", "-o", `jsonpath={.status.cards[?(@.name=="NVIDIA-H200")].used}`)
	g.showKubectl("cardquota", "top")
}

func (g *tour) exceedQuota() {
	g.Headline("Work that exceeds one model's quota, while such cards are free",
		"finetune requests 4 H200 beyond the quota of 8; reranker requests 6 4090-D, and the quota is 2.")

	g.applyFiles("test", "demo", "workloads", "exceeds.yaml")
	g.waitForRunning("app=reranker", 2)
	g.waitForOutput("true", "get", "events", pluginEvents, "-o", "go-template={{ge (len .items) 5}}")
	g.showKubectl("get", "pods", "-l", "app=reranker", "-o", podColumns)
	g.showKubectl("get", "vcjob")

	g.printf("\nWhy do they wait? Each has an event; a vcjob has no pods yet, so its PodGroup has one:\n")
	g.showKubectl("get", "events", pluginEvents, "-o", eventColumns)
	g.printf("\nThe tenant finds all reasons in one place:\n")

	for queue, workload := range map[string]string{"llm-training": "finetune", "search-inference": "reranker"} {
		g.waitForOutput(workload, "get", "cardq", queue, "-o", "jsonpath={.status.blocked[*].workload.name}")
	}
	g.showKubectl("get", "cardq", "llm-training", "search-inference", "-o", blockedLines)
}

func (g *tour) useCardWithoutQuota() {
	g.Headline("A card the tenant has no quota for", "Eight H800 are idle. The search tenant may use none of them.")
	g.applyFiles("test", "demo", "workloads", "no-quota.yaml")
	g.waitForOutput("true", "get", "events", pluginEvents, "-o", "go-template={{ge (len .items) 6}}")
	g.showKubectl("get", "pods", "-l", "app=sneaky", "-o", podColumns)
	g.showKubectl("get", "pods", "-l", "app=sneaky", "-o", `jsonpath={.items[0].status.conditions[0].message}{"\n"}`)
}

func (g *tour) raiseQuota() {
	g.Headline("Raising a quota", "The tenant gets four more H200; the waiting gang starts by itself.")
	began := time.Now()
	g.showKubectl("patch", "cardq", "llm-training", "--type=json", "-p",
		`[{"op":"replace","path":"/spec/cards/0/quota","value":12}]`)
	g.waitForRunning("volcano.sh/job-name=finetune", 2)
	g.printf("\nRunning %.1f s after the command:\n", time.Since(began).Seconds())
	g.showKubectl("get", "pods", "-l", "volcano.sh/job-name=finetune", "-o", podColumns)
	g.waitForOutput("12", "get", "cardq", "llm-training", "-o", `jsonpath={.status.cards[?(@.name=="NVIDIA-H200")].used}`)
	g.showKubectl("cardquota", "top")
}

func (g *tour) lowerQuota() {
	g.Headline("Lowering a quota below its use", "Nothing is killed and nothing new starts; the status shows by how much the quota is exceeded.")
	g.showKubectl("patch", "cardq", "llm-training", "--type=json", "-p",
		`[{"op":"replace","path":"/spec/cards/0/quota","value":6}]`)
	g.showKubectl("wait", "cardq", "llm-training", "--for=condition=WithinQuota=False", "--timeout=30s")
	g.showKubectl("get", "cardq", "llm-training", "-o",
		`custom-columns=NAME:.metadata.name,CARD:.status.cards[0].name,QUOTA:.status.cards[0].quota,USED:.status.cards[0].used,OVER:.status.cards[0].overQuotaBy`)
}
