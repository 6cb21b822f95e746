package main

import "time"

const (
	podColumns   = "custom-columns=POD:.metadata.name,STATUS:.status.phase,NODE:.spec.nodeName"
	eventColumns = "custom-columns=OBJECT:.involvedObject.name,REASON:.reason,MESSAGE:.message"
)

// blockedLines prints a line per workload that waits, of several CardQuotas.
const blockedLines = `jsonpath={range .items[*].status.blocked[*]}{.workload.kind} {.workload.namespace}/{.workload.name} waits for {.count} {.card}: {.reason}{"\n"}{end}`

// ofCapacityCard selects the events that the plugin wrote.
const ofCapacityCard = "--field-selector=source=capacity-card"

// tour is the whole demonstration, in the order it is told.
func (g *guide) tour() error {
	for _, chapter := range []func(){
		g.fleet, g.quotas, g.fits, g.exceeds, g.noQuota, g.raise, g.lower,
		g.policy, g.night, g.morning, g.rush, g.evening,
	} {
		if chapter(); g.err != nil {
			return g.err
		}
	}
	return nil
}

func (g *guide) fleet() {
	g.Headline("A mixed fleet", "Volcano counts H200, H800, 4090 and 4090-D alike as nvidia.com/gpu. The labels tell them apart.")
	g.show("get", "nodes", "-L", "nvidia.com/gpu.product,huawei.com/npu.product")
}

func (g *guide) quotas() {
	g.Headline("Three tenants with quotas per card model", "The operator makes a Volcano Queue of each CardQuota.")
	g.apply("config", "samples")
	g.show("wait", "cardq", "--all", "--for=condition=Ready", "--timeout=30s")
	g.show("get", "cardq")
	g.show("get", "queue", "llm-training", "-o", `jsonpath={.metadata.annotations.volcano\.sh/card\.quota}{"\n"}`)
}

func (g *guide) fits() {
	g.Headline("Work that fits", "A training gang on H200, services on 4090 and on MIG slices, an NPU job.")
	g.apply("test", "demo", "workloads", "fits.yaml")
	for selector, count := range map[string]int{"volcano.sh/job-name=pretrain": 4, "app=ranker": 3, "app=embedder": 3, "volcano.sh/job-name=npu-eval": 1} {
		g.running(selector, count)
	}
	g.show("get", "pods", "-o", podColumns)
	g.until("8", "get", "cardq", "llm-training", "-o", `jsonpath={.status.cards[?(@.name=="NVIDIA-H200")].used}`)
	g.show("get", "cardq")
}

func (g *guide) exceeds() {
	g.Headline("Work that exceeds one model's quota, while such cards are free",
		"finetune wants 4 H200 beyond the 8 that llm-training has; reranker wants 6 of 2 4090-D.")
	g.apply("test", "demo", "workloads", "exceeds.yaml")
	g.running("app=reranker", 2)
	g.until("true", "get", "events", ofCapacityCard, "-o", "go-template={{ge (len .items) 5}}")
	g.show("get", "pods", "-l", "app=reranker", "-o", podColumns)
	g.show("get", "vcjob")
	g.say("\nWhy do they wait? Each says so; a vcjob has no pods yet, so its PodGroup does:\n")
	g.show("get", "events", ofCapacityCard, "-o", eventColumns)
	g.say("\nThe tenant finds it in one place as well:\n")
	for queue, workload := range map[string]string{"llm-training": "finetune", "search-inference": "reranker"} {
		g.until(workload, "get", "cardq", queue, "-o", "jsonpath={.status.blocked[*].workload.name}")
	}
	g.show("get", "cardq", "llm-training", "search-inference", "-o", blockedLines)
}

func (g *guide) noQuota() {
	g.Headline("A card the tenant has no quota for", "Eight H800 are idle. The search tenant may use none of them.")
	g.apply("test", "demo", "workloads", "no-quota.yaml")
	g.until("true", "get", "events", ofCapacityCard, "-o", "go-template={{ge (len .items) 6}}")
	g.show("get", "pods", "-l", "app=sneaky", "-o", podColumns)
	g.show("get", "pods", "-l", "app=sneaky", "-o", `jsonpath={.items[0].status.conditions[0].message}{"\n"}`)
}

func (g *guide) raise() {
	g.Headline("Raising a quota", "The tenant gets four more H200; the waiting gang starts by itself.")
	began := time.Now()
	g.show("patch", "cardq", "llm-training", "--type=json", "-p",
		`[{"op":"replace","path":"/spec/cards/0/quota","value":12}]`)
	g.running("volcano.sh/job-name=finetune", 2)
	g.say("\nRunning %.1f s after the command:\n", time.Since(began).Seconds())
	g.show("get", "pods", "-l", "volcano.sh/job-name=finetune", "-o", podColumns)
	g.until("12", "get", "cardq", "llm-training", "-o", `jsonpath={.status.cards[?(@.name=="NVIDIA-H200")].used}`)
	g.show("get", "cardq")
}

func (g *guide) lower() {
	g.Headline("Lowering a quota below its use", "Nothing is killed and nothing new starts; the status says by how much it is over.")
	g.show("patch", "cardq", "llm-training", "--type=json", "-p",
		`[{"op":"replace","path":"/spec/cards/0/quota","value":6}]`)
	g.show("wait", "cardq", "llm-training", "--for=condition=WithinQuota=False", "--timeout=30s")
	g.show("get", "cardq", "llm-training", "-o",
		`custom-columns=NAME:.metadata.name,CARD:.status.cards[0].name,QUOTA:.status.cards[0].quota,USED:.status.cards[0].used,OVER:.status.cards[0].overQuotaBy`)
}
