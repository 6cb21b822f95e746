package diagnosis

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

// gangOf returns pods that wait together, each for so many cards, and their PodGroup.
func gangOf(c *Cluster, name string, pods, cards int, minimum int32) {
	count(c, builder.Pod("lab", name).Queue("team").PodGroup(name).Card("NVIDIA-H200").GPUs(cards).Copies(pods)...)
	c.PodGroups = []*v1beta1.PodGroup{builder.PodGroup("lab", name).Queue("team").MinMember(minimum).Obj()}
}

// plannedCases are further cases of TestFindings: what files or gangs lead to.
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
	"NeverPlaced-gang": func(_ *testing.T, c *Cluster) { gangOf(c, "train", 4, 4, 3) },
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

// What the operator refuses changes nothing, and no other finding assumes that it does.
func TestRefusedPlansHaveNoEffect(t *testing.T) {
	c := healthy(t)
	denied := builder.CardQuota("team").Card("NVIDIA-H200", 1000).Resources("64", "1Ti").Obj()
	denied.Spec.OverAllocation = v1alpha1.OverAllocationDeny
	planTo(c, denied)
	check.That(t, hasFinding(c, "PlannedRefused", "cardquota/team"), "it is refused")
	check.That(t, !hasFinding(c, "OverAllocated", "card/NVIDIA-H200"), "and grants nothing")
}

// kubectl applies one CardQuota after the other, so a file counts for those behind it.
func TestPlansAreAppliedInTheirOrder(t *testing.T) {
	c := healthy(t)
	planTo(c, readyQuota("first"), readyQuota("second"))
	c.Planned[0].Spec.QueueName = "shared"
	c.Planned[1].Spec.QueueName = "shared"
	check.That(t, !hasFinding(c, "PlannedRefused", "cardquota/first") && hasFinding(c, "PlannedRefused", "cardquota/second"), "the second of a queue is refused")
	c = healthy(t)
	c.Policy.Spec.QueueHierarchy = v1alpha1.QueueHierarchyTree
	planTo(c, inTree("child", "above", "training"), inTree("above", "", ""))
	report := Diagnose(c)
	check.That(t, !slices.ContainsFunc(report.Items, func(f Finding) bool { return f.Rule == "ParentMissing" || f.Rule == "PlannedRefused" }), "the parent may follow: %+v", report.Items)
}

// What the user may not read refuses nothing, and says nothing about a parent.
func TestPlansAreNotRefusedForWhatIsUnknown(t *testing.T) {
	for name, change := range map[string]func(*Cluster){
		"CardQuotas": func(c *Cluster) {
			c.Quotas = nil
			c.HasQuotas = false
		},
		"policy": func(c *Cluster) {
			c.Policy = nil
			c.HasPolicy = false
		},
		"inventory": func(c *Cluster) { c.Inventory = nil },
	} {
		c := healthy(t)
		denied := builder.CardQuota("team").Card("NVIDIA-H200", 1).Resources("64", "1Ti").Obj()
		denied.Spec.OverAllocation = v1alpha1.OverAllocationDeny
		planTo(c, denied)
		if name != "inventory" {
			planTo(c, inTree("above", "", ""), inTree("child", "gone", "training"))
		}

		change(c)
		for _, finding := range Diagnose(c).Items {
			check.That(t, finding.Rule != "PlannedRefused" && finding.Rule != "ParentMissing", "without %s: %+v", name, finding)
		}
	}
}

// A file that says what the cluster has already changes nothing.
func TestUnchangedPlansAreNoPlans(t *testing.T) {
	c := healthy(t)
	unchanged := readyQuota("team")
	unchanged.Status = v1alpha1.CardQuotaStatus{}
	planTo(c, unchanged)
	c.Quotas[0].Spec.StopPolicy = v1alpha1.StopPolicyNone
	c.Quotas[0].Spec.OverAllocation = v1alpha1.OverAllocationWarn
	c.Quotas[0].Spec.DeletionPolicy = v1alpha1.DeletionPolicyDelete
	c.Inventory.Cards[0].Quota = 12
	c.Inventory.Cards[0].OverAllocatedBy = 4
	check.That(t, len(Diagnose(c).Items) == 1 && hasFinding(c, "OverAllocated", "card/NVIDIA-H200"), "the count of the operator stays: %+v", Diagnose(c).Items)
}

// Over-allocation is an info only if every CardQuota that grants the card accepts it.
func TestOverAllocationThatOneDoesNotAccept(t *testing.T) {
	c := healthy(t)
	planTo(c, allowing(readyQuota("big")))
	for _, want := range []Severity{Warning, Info} {
		found := Diagnose(c).Items
		check.That(t, len(found) == 1 && found[0].Rule == "OverAllocated" && found[0].Severity == want, "want %s: %+v", want, found)
		allowing(c.Quotas[0])
	}
	none := readyQuota("none")
	none.Spec.Cards[0].Quota = ptr.To[int64](0)
	planTo(c, none)
	check.Equal(t, "severity beside a CardQuota that grants none", Info, Diagnose(c).Items[0].Severity)
}

// The smallest pods of a gang that must run decide, and finished ones count for its minimum.
func TestGangsOfWhichEnoughFit(t *testing.T) {
	for name, tc := range map[string]struct {
		minimum, succeeded int32
		never              bool
	}{"two of four": {2, 0, false}, "three of four": {3, 0, true}, "three, one of which has finished": {3, 1, false}} {
		c := healthy(t)
		gangOf(c, "train", 4, 4, tc.minimum)
		c.PodGroups[0].Status.Succeeded = tc.succeeded
		check.Equal(t, name, tc.never, hasFinding(c, "NeverPlaced", "queue/team"))
	}

	c := healthy(t)
	gangOf(c, "train", 2, 16, 2)
	report := Diagnose(c)
	check.That(t, len(report.Items) == 1 && report.Items[0].Rule == "NeverPlaced", "a pod that alone is too large is reported once: %+v", report.Items)

	c = healthy(t)
	c.PodGroups = []*v1beta1.PodGroup{builder.PodGroup("lab", "done").Queue("team").MinMember(4).MinResource("nvidia.com/gpu", "16").Phase(v1beta1.PodGroupCompleted).Obj()}
	check.Equal(t, "findings of a finished job", []Finding{}, Diagnose(c).Items)
}

// A held queue is as its owner wants it. Of a namespace that cannot be read, nothing is known.
func TestQueuesThatMayTakePods(t *testing.T) {
	c := healthy(t)
	held := readyQuota("team")
	held.Spec.StopPolicy = v1alpha1.StopPolicyHold
	planTo(c, held)
	check.Equal(t, "findings of a held queue", []Finding{}, Diagnose(c).Items)
	c = healthy(t)
	planTo(c, selecting(readyQuota("team"), "ads"))
	check.Equal(t, "findings without namespaces", []Finding{}, Diagnose(c).Items)
	c.Namespaces = []*corev1.Namespace{builder.Namespace("lab", "team", "ads")}
	check.Equal(t, "findings of a selected namespace", []Finding{}, Diagnose(c).Items)
}

func drawRequests(t *rapid.T) []quota.CardRequest {
	names := []card.Name{"A", "B", "C"}
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) quota.CardRequest {
		some := rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 3, rapid.ID[card.Name]).Draw(t, "names")
		return quota.CardRequest{Names: some, Count: card.Count(rapid.Int64Range(0, 4).Draw(t, "count"))}
	}), 0, 5).Draw(t, "requests")
}

// canRun tries every way to leave out spare requests and to give the others one of their cards.
func canRun(requests []quota.CardRequest, spare int, limits card.Quota) bool {
	if len(requests) == 0 {
		return true
	}
	if spare > 0 && canRun(requests[1:], spare-1, limits) {
		return true
	}

	for _, name := range requests[0].Names {
		if left := limits[name] - requests[0].Count; left >= 0 {
			rest := card.Quota{"A": limits["A"], "B": limits["B"], "C": limits["C"]}
			rest[name] = left
			if canRun(requests[1:], spare, rest) {
				return true
			}
		}
	}

	return false
}

// TestGangsThatCanRunAreNotReported: what is reported can run in no way. Without alternatives and spare
// pods everything that cannot run is reported.
func TestGangsThatCanRunAreNotReported(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		requests := drawRequests(t)
		limits := card.Quota{}
		for _, name := range []card.Name{"A", "B", "C"} {
			limits[name] = card.Count(rapid.Int64Range(0, 8).Draw(t, string(name)))
		}

		spare := rapid.IntRange(0, 2).Draw(t, "spare")
		isReported := gangBeyond(requests, spare, limits) != ""
		runs := canRun(requests, spare, limits)

		isSimple := spare == 0 && !slices.ContainsFunc(requests, func(r quota.CardRequest) bool { return len(r.Names) > 1 })
		isMissed := isSimple && !isReported && !runs
		check.Must(t, (!isReported || !runs) && !isMissed, "reported %t, can run %t: %+v, spare %d, limits %v", isReported, runs, requests, spare, limits)
	})
}

// TestComputeUsesAreThoseOfEachQueue compares the sums with those of each queue by itself.
func TestComputeUsesAreThoseOfEachQueue(t *testing.T) {
	queues := []string{"a", "b", "c"}
	seed.Check(t, func(t *rapid.T) {
		c := &Cluster{Charges: map[types.UID]quota.Charge{}, Policy: builder.ServiceTypePolicy().Obj()}
		c.Policy.Spec.ComputeQuota = rapid.SampledFrom([]v1alpha1.ComputeQuota{"", v1alpha1.ComputeQuotaEnforce}).Draw(t, "computeQuota")
		for i := range rapid.IntRange(0, 12).Draw(t, "pods") {
			charge := quota.Charge{Queue: rapid.SampledFrom(queues).Draw(t, "queue"), MilliCPU: rapid.Int64Range(0, 9).Draw(t, "cpu"), Memory: rapid.Int64Range(0, 9).Draw(t, "memory")}
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

			if got[queue] != want {
				t.Fatalf("queue %s: %+v, want %+v", queue, got[queue], want)
			}
		}
	})
}
