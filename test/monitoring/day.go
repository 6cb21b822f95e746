package monitoring

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/test/cluster"
)

// Scene is a part of the day.
type Scene struct {
	Name string
	play func(ctx context.Context, e *Env) error
	// until are queries that have a series at the end.
	until []string
	// Alerts are pending or firing at the end.
	Alerts []string
}

// Play plays a scene, and waits until Prometheus shows it.
func (e *Env) Play(ctx context.Context, s Scene) error {
	if err := s.play(ctx, e); err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	if err := e.Prometheus.Await(ctx, s.until...); err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	return nil
}

// The queues.
const (
	pretrain = "pretrain" // training of tenant lab
	vision   = "vision"   // training of tenant lab
	ranker   = "ranker"   // inference of tenant shop
	speech   = "speech"   // inference of tenant shop
)

// The quotas of H200 add up to more than there are.
const (
	pretrainQuota = h200Nodes * cardsPerNode
	rankerQuota   = 32
	visionQuota   = 6
	speechQuota   = 4
)

// bypassCards are those of the pod that bypasses the scheduler, and has no queue.
const bypassCards = 2

// trainingGangs are gangs of one node's cards each.
const trainingGangs = h200Nodes

// Day is a day in scenes: training fills the cards at night, inference reclaims most of them until
// noon, and training returns in the evening.
var Day = []Scene{
	{
		Name: "before the scheduler", play: writePolicy,
		until:  []string{`up{job="cardquota-manager"} == 1`, `up{job="without-token"} == 0`},
		Alerts: []string{"CardquotaSchedulingStands", "CardquotaNotEnforced"},
	},
	{
		Name: "night", play: startTraining,
		until: []string{
			usedIs(pretrain, pretrainQuota), usedIs(vision, visionQuota), usedIs(speech, speechQuota),
			`sum(cardquota_pending_cards{queue="vision"}) == 2`, `cardquota_refusals_total{queue="vision"}`,
		},
		Alerts: []string{"CardquotaOverAllocated", "CardquotaCardBypass"},
	},
	{
		Name: "morning", play: scaleRanker(8),
		until: []string{usedIs(ranker, 8), usedIs(pretrain, 40), `cardquota_reclaimed_pods_total{queue="pretrain"}`},
	},
	{
		Name: "noon", play: scaleRanker(rankerQuota),
		until:  []string{usedIs(ranker, rankerQuota), usedIs(pretrain, 16)},
		Alerts: []string{"CardquotaTenantStarving", "CardquotaEvictionStorm"},
	},
	{
		Name: "faults", play: breakThings,
		until:  []string{`cardquota_anomalies{reason="NoModelLabel"} > 0`, `cardquota_anomalies{reason="UnmappedResource"} > 0`, `cardquota_cordoned_cards > 0`, `cardquota_over_quota_cards{queue="vision"} == 2`},
		Alerts: []string{"CardquotaCardsOutOfReach", "CardquotaCardsWithoutQuota", "CardquotaQueueOverQuota"},
	},
	{
		Name: "afternoon", play: scaleRanker(16),
		until: []string{usedIs(ranker, 16), usedIs(pretrain, 32)},
	},
	{
		Name: "evening", play: mendThings,
		until: []string{
			usedIs(ranker, 0), usedIs(pretrain, pretrainQuota), `cardquota_enforced == 1`, `sum(cardquota_pending_cards{queue="pretrain"}) == 0`,
			fmt.Sprintf(`sum(cardquota_scheduler_used_cards{queue="pretrain"}) == %d`, pretrainQuota), // of the scheduler
			// A new sum is served as zero for a while. The day ends when bills show all queues.
			`count(cardquota_card_seconds_total{queue!=""} > 0) == 4`,
		},
	},
}

// Handover is played after the day: the operator stops, and another replica leads that does not
// count.
var Handover = []Scene{
	{
		Name: "the operator stops, and a day was dropped", play: stopAndDropDay,
		Alerts: []string{"CardquotaOperatorAbsent"},
	},
	{
		Name: "a replica stands by", play: func(ctx context.Context, e *Env) error { return e.programs.StartManager(ctx) },
		until:  []string{`up{job="cardquota-manager"} == 1`},
		Alerts: []string{"CardquotaRecountStale"},
	},
	{
		Name: "the replica leads", play: letLead,
		until:  []string{"cardquota_card_seconds_total", `cardquota_card_seconds_without_room{kind="days"} == 1`, `cardquota_anomalies{reason="BillDaysDropped"} > 0`},
		Alerts: []string{"CardquotaBillsNotStored"},
	},
}

func usedIs(queue string, cards int) string {
	return fmt.Sprintf(`sum(cardquota_used_cards{queue=%q}) == %d`, queue, cards)
}

// writePolicy creates the ServiceTypePolicy. Before it, a pod gets cards without the scheduler:
// later the API server would refuse it.
func writePolicy(ctx context.Context, e *Env) error {
	bypass := builder.Pod(namespace, "by-hand").Scheduler("by-hand").Card(rtx4090).GPUs(bypassCards).Node("rtx4090-1").Obj()
	if err := e.create(ctx, bypass); err != nil {
		return err
	}
	e.bypass.began = time.Now()
	policy := builder.ServiceTypePolicy().Obj()
	policy.Spec.BillingTimeZone = e.zone.String()
	return e.create(ctx, policy)
}

// startTraining starts the scheduler, training on all H200, more pods than the quota of one queue,
// and a service that has cards of its own.
func startTraining(ctx context.Context, e *Env) error {
	quota := func(queue, tenant, serviceType, card string, cards int64) client.Object {
		return builder.CardQuota(queue).Tenant(tenant).ServiceType(serviceType).Card(card, cards).
			With(func(q *v1alpha1.CardQuota) { q.Spec.Project = queue }).Obj()
	}

	quotas := []client.Object{
		quota(pretrain, "lab", "training", h200, pretrainQuota), quota(vision, "lab", "training", rtx4090, visionQuota),
		quota(ranker, "shop", "inference", h200, rankerQuota), quota(speech, "shop", "inference", rtx4090, speechQuota),
	}
	if err := e.create(ctx, quotas...); err != nil {
		return err
	}
	if err := e.awaitOpen(ctx, pretrain, vision, ranker, speech); err != nil { // Volcano refuses jobs before
		return err
	}

	objects := []client.Object{
		builder.Deployment(namespace, vision, visionQuota+2, cardPod(vision, rtx4090)),
		builder.Deployment(namespace, speech, speechQuota, cardPod(speech, rtx4090)),
		builder.Deployment(namespace, ranker, 0, cardPod(ranker, h200)),
	}
	for i := range trainingGangs {
		objects = append(objects, builder.Gang(namespace, fmt.Sprintf("pretrain-%d", i), cardsPerNode, cardPod(pretrain, h200)).Queue(pretrain).Obj())
	}

	if err := e.create(ctx, objects...); err != nil {
		return err
	}

	return e.programs.StartScheduler(ctx)
}

func cardPod(queue, card string) *builder.PodBuilder {
	return builder.Pod("", "").Queue(queue).Card(card).GPUs(1)
}

// scaleRanker returns a scene's play that changes the size of the inference service.
func scaleRanker(replicas int) func(ctx context.Context, e *Env) error {
	return func(ctx context.Context, e *Env) error {
		return e.patch(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: ranker}}, `{"spec":{"replicas":%d}}`, replicas)
	}
}

// breakThings adds a node without the label of its model and one with a resource that no label names,
// cordons a node, and lowers a quota below what is in use.
func breakThings(ctx context.Context, e *Env) error {
	nodes := fleet()
	nodes[0].Name = "unlabelled"
	nodes[0].Count = 1
	delete(nodes[0].Labels, "nvidia.com/gpu.product")

	unmapped := cluster.NodeProfile{Name: "unmapped", Allocatable: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), "gpu.intel.com/xe": resource.MustParse("4"),
	}}
	if err := e.cluster.CreateNodes(ctx, []cluster.NodeProfile{nodes[0], unmapped}); err != nil {
		return err
	}
	if err := e.cordon(ctx, true); err != nil {
		return err
	}

	return e.setVisionQuota(ctx, visionQuota-2)
}

// mendThings ends what breakThings did but for the two nodes that it added, ends the pod that bypassed
// the scheduler, and ends inference on H200.
func mendThings(ctx context.Context, e *Env) error {
	if err := e.cordon(ctx, false); err != nil {
		return err
	}
	if err := e.setVisionQuota(ctx, visionQuota); err != nil {
		return err
	}

	bypass := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "by-hand"}}
	if err := e.Delete(ctx, bypass, client.GracePeriodSeconds(0)); err != nil {
		return fmt.Errorf("delete pod: %w", err)
	}

	e.bypass.ended = time.Now()
	return scaleRanker(0)(ctx, e)
}

func (e *Env) cordon(ctx context.Context, unschedulable bool) error {
	return e.patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "rtx4090-1"}}, `{"spec":{"unschedulable":%v}}`, unschedulable)
}

func (e *Env) setVisionQuota(ctx context.Context, cards int) error {
	return e.patch(ctx, &v1alpha1.CardQuota{ObjectMeta: metav1.ObjectMeta{Name: vision}}, `{"spec":{"cards":[{"name":%q,"quota":%d}]}}`, rtx4090, cards)
}

func (e *Env) patch(ctx context.Context, object client.Object, format string, args ...any) error {
	if err := e.Patch(ctx, object, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...))); err != nil {
		return fmt.Errorf("patch %T %s: %w", object, object.GetName(), err)
	}
	return nil
}
