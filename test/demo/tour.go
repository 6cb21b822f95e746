package main

import (
	"context"
	"fmt"
	"time"
)

const (
	podColumns   = "custom-columns=POD:.metadata.name,STATUS:.status.phase,NODE:.spec.nodeName"
	eventColumns = "custom-columns=OBJECT:.involvedObject.name,REASON:.reason,MESSAGE:.message"
)

// blockedLines prints a line per workload that waits, of several CardQuotas.
const blockedLines = `jsonpath={range .items[*].status.blocked[*]}{.workload} waits for {.count} {.card}: {.reason}{"\n"}{end}`

// ofCapacityCard selects the events that the plugin wrote.
const ofCapacityCard = "--field-selector=source=capacity-card"

// tour is the whole demonstration, in the order it is told.
func (g *guide) tour(ctx context.Context) error {
	for _, chapter := range []func(context.Context) error{
		g.fleet, g.quotas, g.fits, g.exceeds, g.noQuota, g.raise, g.lower,
		g.policy, g.night, g.morning, g.rush, g.evening,
	} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (g *guide) fleet(ctx context.Context) error {
	g.headline("A mixed fleet", "Volcano counts H200, H800, 4090 and 4090-D alike as nvidia.com/gpu. The labels tell them apart.")
	return g.show(ctx, "get", "nodes", "-L", "nvidia.com/gpu.product,huawei.com/npu.product")
}

func (g *guide) quotas(ctx context.Context) error {
	g.headline("Three tenants with quotas per card model", "The operator makes a Volcano Queue of each CardQuota.")
	if err := g.apply(ctx, "config", "samples"); err != nil {
		return err
	}
	if err := g.show(ctx, "wait", "cardq", "--all", "--for=condition=Ready", "--timeout=30s"); err != nil {
		return err
	}
	if err := g.show(ctx, "get", "cardq"); err != nil {
		return err
	}
	return g.show(ctx, "get", "queue", "llm-training", "-o", `jsonpath={.metadata.annotations.volcano\.sh/card\.quota}{"\n"}`)
}

func (g *guide) fits(ctx context.Context) error {
	g.headline("Work that fits", "A training gang on H200, services on 4090 and on MIG slices, an NPU job.")
	if err := g.apply(ctx, "test", "demo", "workloads", "fits.yaml"); err != nil {
		return err
	}
	for selector, count := range map[string]int{"volcano.sh/job-name=pretrain": 4, "app=ranker": 3, "app=embedder": 3, "volcano.sh/job-name=npu-eval": 1} {
		if err := g.running(ctx, selector, count); err != nil {
			return err
		}
	}
	if err := g.show(ctx, "get", "pods", "-o", podColumns); err != nil {
		return err
	}
	if err := g.until(ctx, "8", "get", "cardq", "llm-training", "-o", `jsonpath={.status.cards[?(@.name=="NVIDIA-H200")].used}`); err != nil {
		return err
	}
	return g.show(ctx, "get", "cardq")
}

func (g *guide) exceeds(ctx context.Context) error {
	g.headline("Work that exceeds one model's quota, while such cards are free",
		"finetune wants 4 H200 beyond the 8 that llm-training has; reranker wants 6 of 2 4090-D.")
	if err := g.apply(ctx, "test", "demo", "workloads", "exceeds.yaml"); err != nil {
		return err
	}
	if err := g.running(ctx, "app=reranker", 2); err != nil {
		return err
	}
	if err := g.until(ctx, "true", "get", "events", ofCapacityCard, "-o", "go-template={{ge (len .items) 5}}"); err != nil {
		return err
	}
	if err := g.show(ctx, "get", "pods", "-l", "app=reranker", "-o", podColumns); err != nil {
		return err
	}
	if err := g.show(ctx, "get", "vcjob"); err != nil {
		return err
	}
	fmt.Println("\nWhy do they wait? Each says so; a vcjob has no pods yet, so its PodGroup does:")
	if err := g.show(ctx, "get", "events", ofCapacityCard, "-o", eventColumns); err != nil {
		return err
	}
	fmt.Println("\nThe tenant finds it in one place as well:")
	for queue, workload := range map[string]string{"llm-training": "vcjob/default/finetune", "search-inference": "deployment/default/reranker"} {
		if err := g.until(ctx, workload, "get", "cardq", queue, "-o", "jsonpath={.status.blocked[*].workload}"); err != nil {
			return err
		}
	}
	return g.show(ctx, "get", "cardq", "llm-training", "search-inference", "-o", blockedLines)
}

func (g *guide) noQuota(ctx context.Context) error {
	g.headline("A card the tenant has no quota for", "Eight H800 are idle. The search tenant may use none of them.")
	if err := g.apply(ctx, "test", "demo", "workloads", "no-quota.yaml"); err != nil {
		return err
	}
	if err := g.until(ctx, "true", "get", "events", ofCapacityCard, "-o", "go-template={{ge (len .items) 6}}"); err != nil {
		return err
	}
	if err := g.show(ctx, "get", "pods", "-l", "app=sneaky", "-o", podColumns); err != nil {
		return err
	}
	return g.show(ctx, "get", "pods", "-l", "app=sneaky", "-o", `jsonpath={.items[0].status.conditions[0].message}{"\n"}`)
}

func (g *guide) raise(ctx context.Context) error {
	g.headline("Raising a quota", "The tenant gets four more H200; the waiting gang starts by itself.")
	began := time.Now()
	if err := g.show(ctx, "patch", "cardq", "llm-training", "--type=json", "-p",
		`[{"op":"replace","path":"/spec/cards/0/quota","value":12}]`); err != nil {
		return err
	}
	if err := g.running(ctx, "volcano.sh/job-name=finetune", 2); err != nil {
		return err
	}
	fmt.Printf("\nRunning %.1f s after the command:\n", time.Since(began).Seconds())
	if err := g.show(ctx, "get", "pods", "-l", "volcano.sh/job-name=finetune", "-o", podColumns); err != nil {
		return err
	}
	if err := g.until(ctx, "12", "get", "cardq", "llm-training", "-o", `jsonpath={.status.cards[?(@.name=="NVIDIA-H200")].used}`); err != nil {
		return err
	}
	return g.show(ctx, "get", "cardq")
}

func (g *guide) lower(ctx context.Context) error {
	g.headline("Lowering a quota below its use", "Nothing is killed and nothing new starts; the status says by how much it is over.")
	if err := g.show(ctx, "patch", "cardq", "llm-training", "--type=json", "-p",
		`[{"op":"replace","path":"/spec/cards/0/quota","value":6}]`); err != nil {
		return err
	}
	if err := g.show(ctx, "wait", "cardq", "llm-training", "--for=condition=WithinQuota=False", "--timeout=30s"); err != nil {
		return err
	}
	return g.show(ctx, "get", "cardq", "llm-training", "-o",
		`custom-columns=NAME:.metadata.name,CARD:.status.cards[0].name,QUOTA:.status.cards[0].quota,USED:.status.cards[0].used,OVER:.status.cards[0].overQuotaBy`)
}
