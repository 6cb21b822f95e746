package integration

import (
	"cmp"
	"fmt"
	"testing"

	"github.com/onsi/gomega"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/framework"
)

// priorityAndReclaimable returns "priority/reclaimable" of a queue, for use in Eventually.
func priorityAndReclaimable(t *testing.T, name string) func() (string, error) {
	return framework.Read(t.Context(), admin, client.ObjectKey{Name: name}, func(queue *v1beta1.Queue) string {
		if queue.Spec.Reclaimable == nil {
			return fmt.Sprint(queue.Spec.Priority, "/unset")
		}
		return fmt.Sprint(queue.Spec.Priority, "/", *queue.Spec.Reclaimable)
	})
}

// TestQueuesFollowThePolicy: the priority of a Queue, and whether cards are reclaimed from it, come from the service
// type in the policy in force. Before the first policy the defaults are in force: inference has priority 80000 and is
// not reclaimable, training has 20000 and is. The types of a policy replace these by name. A Queue of a type that has
// no rule, here notebook, gets no field. An invalid change and the deletion of the policy leave what was in force, as
// in the scheduler. A new policy without service types has the defaults again. Each queue is expected as
// "priority/reclaimable"; unset is a Queue without the field reclaimable.
func TestQueuesFollowThePolicy(t *testing.T) {
	g := requireControlPlane(t)
	newBase(t, baseConfigMap, byHand)

	queues := map[string]string{}
	quotas := map[string]*v1alpha1.CardQuota{}
	for _, kind := range []string{"inference", "training", "notebook"} {
		quotas[kind] = newQuota(uniqueName(t, "-"+kind), func(q *v1alpha1.CardQuota) { q.Spec.ServiceType = kind })
		queues[kind] = quotas[kind].Name
		admin.CreateWithCleanup(t, quotas[kind])
	}

	// expect compares "priority/reclaimable" of the queue of each service type.
	expect := func(when, inference, training, notebook string) {
		for kind, want := range map[string]string{"inference": inference, "training": training, "notebook": notebook} {
			g.Eventually(priorityAndReclaimable(t, queues[kind])).Should(gomega.Equal(want), "%s: %s", when, kind)
		}
	}

	expect("without a policy", "80000/false", "20000/true", "0/unset")
	for _, quota := range quotas {
		g.Eventually(cardQuotaCondition(t, quota.Name, "QueueSynced")).Should(gomega.HavePrefix("True/Synced"))
	}

	policy := newPolicy(t, func(s *v1alpha1.ServiceTypePolicySpec) {
		s.ServiceTypes = []v1alpha1.ServiceType{
			{Name: "inference", Priority: 90000, ReclaimFrom: []string{"notebook"}},
			{Name: "notebook", Priority: 500, ReclaimPolicy: "WhenNeeded"},
		}
	})

	expect("by the policy", "90000/false", "20000/true", "500/true")
	g.Eventually(policyStatus(t)).Should(gomega.HaveField("ServiceTypes", gomega.ConsistOf(
		v1alpha1.ServiceTypeStatus{Name: "inference", Priority: 90000, ReclaimPolicy: "Never", ReclaimFrom: []string{"notebook"}, CardQuotas: 1},
		v1alpha1.ServiceTypeStatus{Name: "notebook", Priority: 500, ReclaimPolicy: "WhenNeeded", CardQuotas: 1},
		v1alpha1.ServiceTypeStatus{Name: "training", Priority: 20000, ReclaimPolicy: "WhenNeeded", CardQuotas: 1})))

	patchAs(t, policy, "user", func(p *v1alpha1.ServiceTypePolicy) {
		p.Spec.ServiceTypes[1].ReclaimPolicy = v1alpha1.ReclaimNever
		p.Spec.ServiceTypes[0].ReclaimFrom = nil
	})
	expect("by the changed policy", "90000/false", "20000/true", "500/false")

	patchAs(t, policy, "user", func(p *v1alpha1.ServiceTypePolicy) {
		p.Spec.ServiceTypes[0].Priority = 1
		p.Spec.ServiceTypes[0].ReclaimFrom = []string{"notebook"}
	})

	g.Eventually(configSynced(t)).Should(gomega.SatisfyAll(gomega.HavePrefix("False/InvalidPolicy"),
		gomega.ContainSubstring(`"notebook", which is not reclaimable`), gomega.ContainSubstring("lower priority")))
	g.Consistently(priorityAndReclaimable(t, queues["inference"])).Should(gomega.Equal("90000/false"), "what was in force stays")
	g.Expect(policyStatus(t)()).To(gomega.HaveField("ServiceTypes", gomega.ContainElement(gomega.HaveField("Priority", int32(90000)))))
	g.Eventually(admin.EventMessages(t, policy, "InvalidPolicy")).Should(gomega.HaveLen(1))

	deletePolicy(t, policy)
	g.Consistently(priorityAndReclaimable(t, queues["inference"])).Should(gomega.Equal("90000/false"), "it stays without the policy, as in the scheduler")
	expect("without the policy", "90000/false", "20000/true", "500/false")
	newPolicy(t, nil)
	expect("by another policy", "80000/false", "20000/true", "0/unset")

	for _, quota := range quotas {
		g.Expect(admin.EventMessages(t, quota, "ForeignChangeReplaced")()).To(gomega.BeEmpty(), "what a policy changes is no drift")
	}
}

// TestPriorityClassesAreCreatedAndDeletedWithThePolicy: the policy lists PriorityClasses for pods, by default pc-high,
// pc-medium, pc-normal and pc-low. The operator creates them, also after one was deleted, and follows changes of the
// list. It leaves pc-low, which another client created with value 7, and says so in an event. With the policy its own
// classes are deleted.
func TestPriorityClassesAreCreatedAndDeletedWithThePolicy(t *testing.T) {
	g := requireControlPlane(t)
	others := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "pc-low"}, Value: 7}
	admin.CreateWithCleanup(t, others)
	newBase(t, baseConfigMap, byHand)

	classes := func() (map[string]int32, error) {
		var list schedulingv1.PriorityClassList
		err := admin.List(t.Context(), &list)
		values := map[string]int32{}
		for _, c := range list.Items {
			if len(c.Name) > 3 && c.Name[:3] == "pc-" {
				values[c.Name] = c.Value
			}
		}
		return values, err
	}

	policy := newPolicy(t, nil)
	g.Eventually(classes).Should(gomega.Equal(map[string]int32{"pc-high": 80000, "pc-medium": 60000, "pc-normal": 40000, "pc-low": 7}))
	g.Eventually(admin.EventMessages(t, policy, "PriorityClassKept")).Should(gomega.ConsistOf(gomega.ContainSubstring("pc-low has value 7")))

	g.Expect(admin.Delete(t.Context(), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "pc-high"}})).To(gomega.Succeed())
	g.Eventually(classes).Should(gomega.HaveKeyWithValue("pc-high", int32(80000)), "created again")

	patchAs(t, policy, "user", func(p *v1alpha1.ServiceTypePolicy) {
		p.Spec.PriorityClasses = []v1alpha1.PriorityClass{{Name: "pc-high", Value: 90000}, {Name: "pc-low", Value: 7}}
	})
	g.Eventually(classes).Should(gomega.Equal(map[string]int32{"pc-high": 90000, "pc-low": 7}))

	deletePolicy(t, policy)
	g.Expect(classes()).To(gomega.Equal(map[string]int32{"pc-low": 7}), "what another client created stays")
	g.Expect(admin.IsGone(t.Context(), others)()).To(gomega.BeFalse())
}

// TestTheAPIRefusesPoliciesThatCannotWork: the API server itself refuses a ServiceTypePolicy that can never work.
// Each row creates one by a dry run. Without a wanted error the API server accepts it.
func TestTheAPIRefusesPoliciesThatCannotWork(t *testing.T) {
	requireControlPlane(t)
	types := func(types ...v1alpha1.ServiceType) v1alpha1.ServiceTypePolicySpec {
		return v1alpha1.ServiceTypePolicySpec{ServiceTypes: types}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		name string // "" for default
		spec v1alpha1.ServiceTypePolicySpec
		want string
	}{
		"an empty spec":                       {},
		"a second policy":                     {name: "other", want: "there is one ServiceTypePolicy, named default"},
		"a type reclaims from itself":         {spec: types(v1alpha1.ServiceType{Name: "a", ReclaimFrom: []string{"a"}}), want: "cannot take cards back from itself"},
		"the same type twice":                 {spec: types(v1alpha1.ServiceType{Name: "a"}, v1alpha1.ServiceType{Name: "a"}), want: "Duplicate value"},
		"a name in upper case":                {spec: types(v1alpha1.ServiceType{Name: "A"}), want: "should match"},
		"over-commit of 99 %":                 {spec: v1alpha1.ServiceTypePolicySpec{OverCommitPercent: 99}, want: "greater than or equal to 100"},
		"a negative weight of node order":     {spec: v1alpha1.ServiceTypePolicySpec{NodeOrderWeightPercent: -1}, want: "greater than or equal to 1"},
		"a reservation of 5 minutes":          {spec: v1alpha1.ServiceTypePolicySpec{MaxReservationMinutes: 5}},
		"a reservation of 4 minutes":          {spec: v1alpha1.ServiceTypePolicySpec{MaxReservationMinutes: 4}, want: "greater than or equal to 5"},
		"a reservation of a day":              {spec: v1alpha1.ServiceTypePolicySpec{MaxReservationMinutes: 1440}},
		"a reservation of a day and a minute": {spec: v1alpha1.ServiceTypePolicySpec{MaxReservationMinutes: 1441}, want: "less than or equal to 1440"},
		"a PriorityClass of the system":       {spec: v1alpha1.ServiceTypePolicySpec{PriorityClasses: []v1alpha1.PriorityClass{{Name: "system-x"}}}, want: "belong to Kubernetes"},
		"no PriorityClasses":                  {spec: v1alpha1.ServiceTypePolicySpec{PriorityClassPolicy: v1alpha1.PriorityClassesNone}},
		"no PriorityClasses, and a list":      {spec: v1alpha1.ServiceTypePolicySpec{PriorityClassPolicy: v1alpha1.PriorityClassesNone, PriorityClasses: []v1alpha1.PriorityClass{{Name: "x"}}}, want: "leave priorityClasses out"},
		"an unknown victim order":             {spec: v1alpha1.ServiceTypePolicySpec{VictimOrder: "Age"}, want: "supported values"},
		"victims by loss":                     {spec: v1alpha1.ServiceTypePolicySpec{VictimOrder: v1alpha1.VictimsByLoss}},
		"an unknown hierarchy":                {spec: v1alpha1.ServiceTypePolicySpec{QueueHierarchy: "Forest"}, want: "supported values"},
		"a tree of queues":                    {spec: v1alpha1.ServiceTypePolicySpec{QueueHierarchy: v1alpha1.QueueHierarchyTree}},
		"reclaim of pods, flat":               {spec: v1alpha1.ServiceTypePolicySpec{Reclaim: v1alpha1.ReclaimPods}},
		"reclaim of pods in a tree":           {spec: v1alpha1.ServiceTypePolicySpec{Reclaim: v1alpha1.ReclaimPods, QueueHierarchy: v1alpha1.QueueHierarchyTree}, want: "Pods cannot be used with queueHierarchy: Tree"},
		"reclaim of unknown resources":        {spec: v1alpha1.ServiceTypePolicySpec{ReclaimResources: "CPU"}, want: "supported values"},
		"reclaim of all resources":            {spec: v1alpha1.ServiceTypePolicySpec{ReclaimResources: v1alpha1.ReclaimResourcesAll}},
		"unmanaged queues denied":             {spec: v1alpha1.ServiceTypePolicySpec{UnmanagedQueues: v1alpha1.UnmanagedDeny}},
		"unmanaged queues unknown":            {spec: v1alpha1.ServiceTypePolicySpec{UnmanagedQueues: "Refuse"}, want: "supported values"},
		"preempt in the queue":                {spec: v1alpha1.ServiceTypePolicySpec{Preempt: v1alpha1.PreemptInQueue}},
		"an unknown preempt":                  {spec: v1alpha1.ServiceTypePolicySpec{Preempt: "On"}, want: "supported values"},
		"an unknown reclaim":                  {spec: v1alpha1.ServiceTypePolicySpec{Reclaim: "Maybe"}, want: "supported values"},
		"a time zone of bills":                {spec: v1alpha1.ServiceTypePolicySpec{BillingTimeZone: "America/Argentina/Buenos_Aires"}},
		"an offset for bills":                 {spec: v1alpha1.ServiceTypePolicySpec{BillingTimeZone: "+02:00"}, want: "write a name of the IANA database, such as Europe/Berlin, or UTC"},
		"an owner that is no kind":            {spec: v1alpha1.ServiceTypePolicySpec{Owners: []v1alpha1.OwnerKind{{Kind: "jobs", ServiceType: "a"}}}, want: "should match"},
	}) {
		expectAPIAnswer(t, &v1alpha1.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Name: cmp.Or(tc.name, "default")}, Spec: tc.spec}, tc.want)
	}
}
