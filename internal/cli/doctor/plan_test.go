package doctor

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// planTo plans CardQuotas in the file quotas.yaml.
func planTo(c *Cluster, quotas ...*v1alpha1.CardQuota) {
	c.Planned = append(c.Planned, quotas...)
	c.Files = map[string]string{}
	for _, planned := range c.Planned {
		c.Files[planned.Name] = "quotas.yaml"
	}
}

// inTree returns a CardQuota below another, "" for none, that deserves its quota.
func inTree(name, parent, serviceType string) *v1alpha1.CardQuota {
	return builder.CardQuota(name).Card("NVIDIA-H200", 8).Resources("64", "1Ti").Parent(parent).ServiceType(serviceType).With(func(q *v1alpha1.CardQuota) {
		q.Spec.Cards[0].Deserved = ptr.To[int64](8)
	}).Obj()
}

// selecting lets only namespaces of a team use a CardQuota.
func selecting(q *v1alpha1.CardQuota, team string) *v1alpha1.CardQuota {
	q.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}
	return q
}

func allowing(q *v1alpha1.CardQuota) *v1alpha1.CardQuota {
	q.Spec.OverAllocation = v1alpha1.OverAllocationAllow
	return q
}

// addGang adds pods that wait together in queue team, each for so many cards, and their PodGroup.
func addGang(c *Cluster, pods, cardsPerPod int, minMember, succeeded int32) {
	count(c, builder.Pod("lab", "train").Queue("team").PodGroup("train").Card("NVIDIA-H200").GPUs(cardsPerPod).Copies(pods)...)
	group := builder.PodGroup("lab", "train").Queue("team").MinMember(minMember).Obj()
	group.Status.Succeeded = succeeded
	c.PodGroups = []*v1beta1.PodGroup{group}
}

// plannedCases are further cases of TestEachRuleFindsWhatIsBroken: what files or gangs lead to.
var plannedCases = map[string]func(t *testing.T, c *Cluster){
	"PlannedRefused": func(_ *testing.T, c *Cluster) {
		planTo(c, inTree("above", "", ""), readyQuota("second"), readyQuota("unknown"), readyQuota("denied"))
		c.Planned[1].Spec.QueueName = "team"
		c.Planned[2].Spec.ServiceType = "interactive"
		c.Planned[3].Spec.OverAllocation = v1alpha1.OverAllocationDeny
	},
	"ParentMissing": func(_ *testing.T, c *Cluster) {
		c.Policy.Spec.QueueHierarchy = v1alpha1.QueueHierarchyTree
		planTo(c, inTree("child", "between", "training"), inTree("between", "gone", ""))
	},
	"QuotaExceeded-parent": func(_ *testing.T, c *Cluster) {
		c.Policy.Spec.QueueHierarchy = v1alpha1.QueueHierarchyTree
		c.Quotas = []*v1alpha1.CardQuota{inTree("above", "", ""), inTree("team", "above", "training"), inTree("other", "above", "training")}
		for _, existing := range c.Quotas {
			existing.Status = readyQuota("").Status
		}
		count(c, append(builder.Pod("lab", "p").Queue("team").GPUs(1).Running("h200-0").Copies(2), builder.Pod("lab", "q").Queue("other").GPUs(1).Running("h200-0").Obj())...)
		lowered := inTree("above", "", "")
		lowered.Spec.Cards[0].Quota = ptr.To[int64](2)
		lowered.Spec.Cards[0].Deserved = ptr.To[int64](2)
		planTo(c, lowered)
	},
	"OverAllocated-planned": func(_ *testing.T, c *Cluster) {
		planTo(c, builder.CardQuota("big").Card("NVIDIA-H200", 992).Resources("1", "1Gi").Obj())
	},
	"OverAllocated-allowed": func(_ *testing.T, c *Cluster) {
		allowing(c.Quotas[0])
		planTo(c, allowing(readyQuota("big")))
	},
	"NeverPlaced-namespace": func(_ *testing.T, c *Cluster) {
		c.Namespaces = []*corev1.Namespace{builder.Namespace("lab", "team", "search")}
		planTo(c, selecting(readyQuota("team"), "ads"))
	},
	"NeverPlaced-ancestor": func(_ *testing.T, c *Cluster) {
		c.Policy.Spec.QueueHierarchy = v1alpha1.QueueHierarchyTree
		c.Namespaces = []*corev1.Namespace{builder.Namespace("lab", "team", "search")}
		planTo(c, selecting(inTree("above", "", ""), "ads"), inTree("team", "above", "training"))
	},
	"NeverPlaced-parent": func(_ *testing.T, c *Cluster) {
		c.Policy.Spec.QueueHierarchy = v1alpha1.QueueHierarchyTree
		planTo(c, inTree("team", "", ""))
	},
	"NeverPlaced-gang": func(_ *testing.T, c *Cluster) { addGang(c, 4, 4, 3, 0) },
	"NeverPlaced-two-resources": func(_ *testing.T, c *Cluster) {
		count(c, builder.Pod("lab", "both").Queue("team").GPUs(1).Requests("amd.com/gpu", "1").Obj())
		c.Cards = card.NewInventory(map[string]card.Node{"h200-0": card.Recognise(builder.Node("h200-0").GPUs("NVIDIA-H200", 8).Obj(), nil)}, "amd.com/gpu")
	},
	"NeverPlaced-unreadable": func(_ *testing.T, c *Cluster) {
		c.Policy.Spec.UnmanagedQueues = v1alpha1.UnmanagedIgnore // refused in every queue
		count(c, builder.Pod("lab", "misspelt").Queue("default").Card("NVIDIA-H200,NVIDIA-H800").GPUs(1).Obj())
	},
	"NeverPlaced-unnamed": func(_ *testing.T, c *Cluster) {
		count(c, builder.Pod("lab", "any").Queue("team").GPUs(1).Obj())
		c.Cards = card.NewInventory(map[string]card.Node{"gpu-0": card.Recognise(builder.Node("gpu-0").Resource("nvidia.com/gpu", "8").Obj(), nil)})
	},
	"NeverPlaced-job-unreadable": func(_ *testing.T, c *Cluster) {
		c.PodGroups = []*v1beta1.PodGroup{builder.PodGroup("lab", "train").Queue("team").MinMember(4).Annotation(v1alpha1.AnnotationCardRequest, "NVIDIA-H200=4").Obj()}
	},
	"NeverPlaced-job": func(_ *testing.T, c *Cluster) {
		c.PodGroups = []*v1beta1.PodGroup{builder.PodGroup("lab", "train").Queue("team").MinMember(4).MinResource("nvidia.com/gpu", "16").Obj()}
	},
}

// hasFinding reports whether a rule finds something about an object.
func hasFinding(c *Cluster, rule, object string) bool {
	return slices.ContainsFunc(Diagnose(c).Items, func(f Finding) bool { return f.Rule == rule && f.Object == object })
}

// TestRefusedPlansHaveNoEffect: with -f doctor assumes that the user applies CardQuotas of a file. This one would grant
// 1000 of the 8 H200 and denies over-allocation, so the operator would refuse it. Then it grants nothing, and doctor
// does not report that the cards are over-allocated.
func TestRefusedPlansHaveNoEffect(t *testing.T) {
	cluster := newHealthyCluster(t)
	denied := builder.CardQuota("team").Card("NVIDIA-H200", 1000).Resources("64", "1Ti").Obj()
	denied.Spec.OverAllocation = v1alpha1.OverAllocationDeny
	planTo(cluster, denied)

	check.Equal(t, "PlannedRefused of the CardQuota", true, hasFinding(cluster, "PlannedRefused", "cardquota/team"))
	check.Equal(t, "OverAllocated of the card", false, hasFinding(cluster, "OverAllocated", "card/NVIDIA-H200"))
}

// TestPlansAreAppliedInTheirOrder: kubectl applies the CardQuotas of a file one after the other. Two of them may not have
// the same queue, so the second one is refused.
func TestPlansAreAppliedInTheirOrder(t *testing.T) {
	cluster := newHealthyCluster(t)
	planTo(cluster, readyQuota("first"), readyQuota("second"))
	cluster.Planned[0].Spec.QueueName = "shared"
	cluster.Planned[1].Spec.QueueName = "shared"

	check.Equal(t, "first is refused", false, hasFinding(cluster, "PlannedRefused", "cardquota/first"))
	check.Equal(t, "second is refused", true, hasFinding(cluster, "PlannedRefused", "cardquota/second"))
}

// TestAPlannedParentMayFollowItsChild: in a tree a CardQuota without its parent is only closed, and opens when the
// parent comes. So a file may have the parent behind the child, and doctor finds nothing wrong.
func TestAPlannedParentMayFollowItsChild(t *testing.T) {
	cluster := newHealthyCluster(t)
	cluster.Policy.Spec.QueueHierarchy = v1alpha1.QueueHierarchyTree
	planTo(cluster, inTree("child", "above", "training"), inTree("above", "", ""))

	for _, finding := range Diagnose(cluster).Items {
		check.That(t, finding.Rule != "ParentMissing" && finding.Rule != "PlannedRefused", "finding %+v", finding)
	}
}

// TestPlansAreNotRefusedForWhatIsUnknown: if the user may not read the CardQuotas, the policy or the
// inventory, doctor does not know all by which the operator decides. So it calls no CardQuota of a file
// refused. CardQuota team denies over-allocation, which only the inventory shows. In the first two rows the
// file also has a CardQuota without service type, which only a parent in a tree may have, and a child of a
// parent that is not in the file.
func TestPlansAreNotRefusedForWhatIsUnknown(t *testing.T) {
	denied := builder.CardQuota("team").Card("NVIDIA-H200", 1).Resources("64", "1Ti").Obj()
	denied.Spec.OverAllocation = v1alpha1.OverAllocationDeny
	withoutParent := []*v1alpha1.CardQuota{denied, inTree("above", "", ""), inTree("child", "gone", "training")}

	for t, tc := range check.Cases(t, map[string]struct {
		planned []*v1alpha1.CardQuota
		forget  func(*Cluster)
	}{
		"the user may not read the CardQuotas": {withoutParent, func(cluster *Cluster) {
			cluster.Quotas = nil
			cluster.HasQuotas = false
		}},
		"the user may not read the policy": {withoutParent, func(cluster *Cluster) {
			cluster.Policy = nil
			cluster.HasPolicy = false
		}},
		"the user may not read the inventory": {[]*v1alpha1.CardQuota{denied}, func(cluster *Cluster) { cluster.Inventory = nil }},
	}) {
		cluster := newHealthyCluster(t)
		planTo(cluster, tc.planned...)
		tc.forget(cluster)

		for _, finding := range Diagnose(cluster).Items {
			check.That(t, finding.Rule != "PlannedRefused" && finding.Rule != "ParentMissing", "finding %+v", finding)
		}
	}
}

// TestUnchangedPlansAreNoPlans: the file has CardQuota team as the cluster has it, only without the fields for which the
// cluster has the defaults. That changes nothing, so the over-allocation that the operator has counted stays: 12 granted
// of 8, thus by 4.
func TestUnchangedPlansAreNoPlans(t *testing.T) {
	cluster := newHealthyCluster(t)
	unchanged := readyQuota("team")
	unchanged.Status = v1alpha1.CardQuotaStatus{}
	planTo(cluster, unchanged)

	cluster.Quotas[0].Spec.StopPolicy = v1alpha1.StopPolicyNone
	cluster.Quotas[0].Spec.OverAllocation = v1alpha1.OverAllocationWarn
	cluster.Quotas[0].Spec.DeletionPolicy = v1alpha1.DeletionPolicyDelete
	cluster.Inventory.Cards[0].Quota = 12
	cluster.Inventory.Cards[0].OverAllocatedBy = 4

	check.Equal(t, "number of findings", 1, len(Diagnose(cluster).Items))
	check.Equal(t, "OverAllocated of the card", true, hasFinding(cluster, "OverAllocated", "card/NVIDIA-H200"))
}

// TestOverAllocationIsAWarningUnlessEachCardQuotaAllowsIt: CardQuota team of the cluster and big of the file have 8 H200
// each, and there are 8. That is only an information if each CardQuota that grants the card allows over-allocation.
func TestOverAllocationIsAWarningUnlessEachCardQuotaAllowsIt(t *testing.T) {
	grantsNone := readyQuota("none")
	grantsNone.Spec.Cards[0].Quota = ptr.To[int64](0)

	for t, tc := range check.Cases(t, map[string]struct {
		inCluster *v1alpha1.CardQuota
		planned   []*v1alpha1.CardQuota
		want      Severity
	}{
		"big allows it, team does not": {readyQuota("team"), []*v1alpha1.CardQuota{allowing(readyQuota("big"))}, Warning},
		"both allow it":                {allowing(readyQuota("team")), []*v1alpha1.CardQuota{allowing(readyQuota("big"))}, Info},
		"both allow it, and one that grants no card does not": {
			allowing(readyQuota("team")), []*v1alpha1.CardQuota{allowing(readyQuota("big")), grantsNone}, Info,
		},
	}) {
		cluster := newHealthyCluster(t)
		cluster.Quotas[0] = tc.inCluster
		planTo(cluster, tc.planned...)
		findings := Diagnose(cluster).Items
		check.Must(t, len(findings) == 1, "findings %+v", findings)
		check.Equal(t, "rule", "OverAllocated", findings[0].Rule)
		check.Equal(t, "severity", tc.want, findings[0].Severity)
	}
}

// TestAGangThatCannotFitItsQuotaIsReported: queue team has a quota of 8 H200. A gang runs only if minMember of its pods
// do, so doctor reports one whose smallest minMember pods need more than 8. Pods that have succeeded count for the
// minimum and need no cards any more.
func TestAGangThatCannotFitItsQuotaIsReported(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		pods, cardsPerPod    int
		minMember, succeeded int32
		wantNeverPlaced      bool
	}{
		"2 of 4 pods of 4 cards need 8":                              {pods: 4, cardsPerPod: 4, minMember: 2},
		"3 of 4 pods of 4 cards need 12":                             {pods: 4, cardsPerPod: 4, minMember: 3, wantNeverPlaced: true},
		"3 of 4 pods of 4 cards, and one has succeeded, need 8":      {pods: 4, cardsPerPod: 4, minMember: 3, succeeded: 1},
		"a pod of 16 cards cannot run alone: still only one finding": {pods: 2, cardsPerPod: 16, minMember: 2, wantNeverPlaced: true},
	}) {
		cluster := newHealthyCluster(t)
		addGang(cluster, tc.pods, tc.cardsPerPod, tc.minMember, tc.succeeded)

		check.Equal(t, "NeverPlaced", tc.wantNeverPlaced, hasFinding(cluster, "NeverPlaced", "queue/team"))
		check.That(t, len(Diagnose(cluster).Items) <= 1, "findings %+v", Diagnose(cluster).Items)
	}
}

// TestAFinishedJobIsNotReported: the PodGroup of a completed job still requests 16 cards of a quota of 8. It never
// starts again, so doctor does not report that it can never be placed.
func TestAFinishedJobIsNotReported(t *testing.T) {
	cluster := newHealthyCluster(t)
	done := builder.PodGroup("lab", "done").Queue("team").MinMember(4).MinResource("nvidia.com/gpu", "16").Phase(v1beta1.PodGroupCompleted)
	cluster.PodGroups = []*v1beta1.PodGroup{done.Obj()}
	check.Equal(t, "findings", []Finding{}, Diagnose(cluster).Items)
}

// TestAQueueThatMayTakePodsIsNotReported: a pod of namespace lab runs in queue team, and a file changes the CardQuota of
// the queue. Doctor finds nothing where the file lets the pod run or its owner holds the queue on purpose. It also finds
// nothing where it cannot know whether namespace lab is selected.
func TestAQueueThatMayTakePodsIsNotReported(t *testing.T) {
	isHeld := readyQuota("team")
	isHeld.Spec.StopPolicy = v1alpha1.StopPolicyHold

	for t, tc := range check.Cases(t, map[string]struct {
		planned    *v1alpha1.CardQuota
		namespaces []*corev1.Namespace
	}{
		"the owner holds the queue":                           {isHeld, nil},
		"namespaces of ads are selected, and lab is not read": {selecting(readyQuota("team"), "ads"), nil},
		"namespaces of ads are selected, and lab is one":      {selecting(readyQuota("team"), "ads"), []*corev1.Namespace{builder.Namespace("lab", "team", "ads")}},
	}) {
		cluster := newHealthyCluster(t)
		planTo(cluster, tc.planned)
		cluster.Namespaces = tc.namespaces

		check.Equal(t, "findings", []Finding{}, Diagnose(cluster).Items)
	}
}

func drawRequests(t *rapid.T) []quota.CardRequest {
	names := []card.Name{"A", "B", "C"}
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) quota.CardRequest {
		some := rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 3, rapid.ID[card.Name]).Draw(t, "names")
		return quota.CardRequest{Names: some, Count: card.Count(rapid.Int64Range(0, 4).Draw(t, "count"))}
	}), 0, 5).Draw(t, "requests")
}

// canRun reports whether a gang fits into limits, by trying every way to omit elastic pods and to give each of the
// others one of its alternative cards.
func canRun(requests []quota.CardRequest, elastic int, limits card.Quota) bool {
	if len(requests) == 0 {
		return true
	}
	if elastic > 0 && canRun(requests[1:], elastic-1, limits) {
		return true
	}

	for _, name := range requests[0].Names {
		if left := limits[name] - requests[0].Count; left >= 0 {
			rest := card.Quota{"A": limits["A"], "B": limits["B"], "C": limits["C"]}
			rest[name] = left
			if canRun(requests[1:], elastic, rest) {
				return true
			}
		}
	}

	return false
}

// TestGangsThatCanRunAreNotReported: a finding must be true, but doctor has no time to try all ways to run a gang. The
// oracle canRun tries all.
// (1) A gang that doctor reports has no way to run.
// (2) A gang that has no way to run is reported, if each pod names one card and must run. Others may be missed, such as
// pods that may use A or B.
// Pods request up to 4 of cards A, B or C, and the limits are up to 8. Elastic is how many pods the gang has beyond its
// minimum: it can run without them.
func TestGangsThatCanRunAreNotReported(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		requests := drawRequests(t)
		limits := card.Quota{}
		for _, name := range []card.Name{"A", "B", "C"} {
			limits[name] = card.Count(rapid.Int64Range(0, 8).Draw(t, string(name)))
		}

		elastic := rapid.IntRange(0, 2).Draw(t, "elastic")
		isReported := gangBeyond(requests, elastic, limits) != ""
		runs := canRun(requests, elastic, limits)

		isSimple := elastic == 0 && !slices.ContainsFunc(requests, func(r quota.CardRequest) bool { return len(r.Names) > 1 })
		check.Must(t, !isReported || !runs, "(1) reported, and it can run: %+v, elastic %d, limits %v", requests, elastic, limits)
		check.Must(t, isReported || runs || !isSimple, "(2) not reported, and it cannot run: %+v, elastic %d, limits %v", requests, elastic, limits)
	})
}

// TestComputeUsesAreThoseOfEachQueue: doctor sums up CPU and memory of all queues at once, because there may be
// thousands. The oracle sums up each queue by itself. By default only pods without cards count, which no quota of
// cards limits; with computeQuota Enforce all pods do.
func TestComputeUsesAreThoseOfEachQueue(t *testing.T) {
	queues := []string{"a", "b", "c"}

	seed.Check(t, func(t *rapid.T) {
		c := &Cluster{Charges: map[types.UID]quota.Charge{}, Policy: builder.ServiceTypePolicy().Obj()}
		c.Policy.Spec.ComputeQuota = rapid.SampledFrom([]v1alpha1.ComputeQuota{"", v1alpha1.ComputeQuotaEnforce}).Draw(t, "computeQuota")
		for i := range rapid.IntRange(0, 12).Draw(t, "pods") {
			charge := quota.Charge{
				Queue:    rapid.SampledFrom(queues).Draw(t, "queue"),
				MilliCPU: rapid.Int64Range(0, 9).Draw(t, "cpu"),
				Memory:   rapid.Int64Range(0, 9).Draw(t, "memory"),
			}
			if rapid.Bool().Draw(t, "cards") {
				charge.Cards = []card.Amount{{Name: "A", Count: 1}}
			}
			c.Charges[types.UID(fmt.Sprint(i))] = charge
		}

		got := c.computeUses()
		for _, queue := range queues {
			var want computeUse
			for _, charge := range c.Charges {
				if charge.Queue == queue && (charge.Cards == nil || c.spec().ComputeQuota == v1alpha1.ComputeQuotaEnforce) {
					want.milliCPU += charge.MilliCPU
					want.memory += charge.Memory
				}
			}

			check.Must(t, got[queue] == want, "queue %s: %+v, want %+v", queue, got[queue], want)
		}
	})
}
