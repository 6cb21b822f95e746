package cardquota

import (
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardquota"
	shared "cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestRetryDelayGrows: Volcano's webhook may refuse the write of a Queue because it does not know the last
// writes yet. So the operator retries soon at first, and then after as long as condition QueueSynced has been
// False: what never succeeds costs little. The delay is at least waitingRetry and at most RefusedRetry, both
// less than an hour.
func TestRetryDelayGrows(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	between := (waitingRetry + shared.RefusedRetry) / 2
	for t, tc := range check.Cases(t, map[string]struct {
		status    metav1.ConditionStatus
		since     time.Duration
		wantDelay time.Duration
	}{
		"Unknown":          {metav1.ConditionUnknown, 0, waitingRetry},
		"True for an hour": {metav1.ConditionTrue, time.Hour, waitingRetry},
		"False since now":  {metav1.ConditionFalse, 0, waitingRetry},
		"False for a time between the least and the longest delay": {metav1.ConditionFalse, between, between},
		"False for an hour":                       {metav1.ConditionFalse, time.Hour, shared.RefusedRetry},
		"False since later, as a clock went back": {metav1.ConditionFalse, -time.Hour, waitingRetry},
	}) {
		quota := builder.CardQuota("a").Obj()
		quota.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionQueueSynced, Status: tc.status, LastTransitionTime: metav1.NewTime(now.Add(-tc.since))}}

		r := reconciliation{quota: quota, now: now}
		check.Equal(t, "delay", tc.wantDelay, r.retryDelay())
	}

	notReported := reconciliation{quota: builder.CardQuota("a").Obj(), now: now}
	check.Equal(t, "delay before the condition is reported", waitingRetry, notReported.retryDelay())
}

// TestNeighborsWakeUpOnlyForWhatTheyWaitFor: in a tree, a Queue may wait until its parent or sibling is written, for
// example for a larger quota. The operator writes the annotation card.allocated every second, and that must not
// reconcile whole trees. A change that wakes the neighbors also asks for a count, except at the top level, where no
// queue above has its numbers.
func TestNeighborsWakeUpOnlyForWhatTheyWaitFor(t *testing.T) {
	annotate := func(key, value string) func(*v1beta1.Queue) {
		return func(q *v1beta1.Queue) { q.Annotations[key] = value }
	}
	for t, tc := range check.Cases(t, map[string]struct {
		change              func(*v1beta1.Queue)
		parent              string
		wantWake, wantCount bool
	}{
		"no change":                            {change: func(*v1beta1.Queue) {}, parent: "web"},
		"the allocated cards":                  {change: annotate(v1alpha1.AnnotationCardAllocated, "{}"), parent: "web"},
		"the status":                           {change: func(q *v1beta1.Queue) { q.Status.State = v1beta1.QueueStateOpen }, parent: "web"},
		"the spec":                             {change: func(q *v1beta1.Queue) { q.Generation++ }, parent: "web", wantWake: true, wantCount: true},
		"the quota":                            {change: annotate(v1alpha1.AnnotationCardQuota, `{"H200":1}`), parent: "web", wantWake: true, wantCount: true},
		"the deserved cards":                   {change: annotate(v1alpha1.AnnotationCardDeserved, `{"H200":1}`), parent: "web", wantWake: true, wantCount: true},
		"the guarantee":                        {change: annotate(v1alpha1.AnnotationCardGuarantee, `{"H200":1}`), parent: "web", wantWake: true, wantCount: true},
		"the stop policy":                      {change: annotate(v1alpha1.AnnotationStopPolicy, "Hold"), parent: "web", wantWake: true, wantCount: true},
		"the spec of a Queue at the top level": {change: func(q *v1beta1.Queue) { q.Generation++ }, parent: "root", wantWake: true},
	}) {
		before := builder.Queue("a").Quota("{}").Parent(tc.parent).Obj()
		after := before.DeepCopy()
		tc.change(after)

		check.Equal(t, "wakes neighbors", tc.wantWake, treeQueueChanged.Update(event.TypedUpdateEvent[*v1beta1.Queue]{ObjectOld: before, ObjectNew: after}))
		check.Equal(t, "asks for a count", tc.wantCount, changedInTree(before, after))
	}
}

// TestAPartOfTheTreeHasTheNumbersOfTheWholeTree: before the next count the operator reads only the CardQuotas
// around the one that it reconciles: those above it, their children, and all below these (addBelow). Each
// Queue must get the same CPU from that part as from the whole tree. This is not obvious: a parent deserves
// its CPU, and divides it among its children, only if a CardQuota deserves some at any depth below it. Here
// web and tenant do so because of chat and far.
func TestAPartOfTheTreeHasTheNumbersOfTheWholeTree(t *testing.T) {
	all := map[string]*v1alpha1.CardQuota{}
	for _, quota := range []struct{ name, parent, limit, deserved string }{
		{"tenant", "", "10", ""},
		{"web", "tenant", "10", ""},
		{"lab", "tenant", "10", ""},
		{"chat", "web", "5", "5"},
		{"far", "chat", "5", "4"},
		{"other", "", "7", "7"},
	} {
		resources := &v1alpha1.Resources{CPU: ptr.To(resource.MustParse(quota.limit))}
		if quota.deserved != "" {
			resources.Deserved = &v1alpha1.ResourceAmounts{CPU: ptr.To(resource.MustParse(quota.deserved))}
		}
		all[quota.name] = builder.CardQuota(quota.name).Parent(quota.parent).With(func(q *v1alpha1.CardQuota) { q.Spec.Resources = resources }).Obj()
	}

	whole := cardquota.NewTree(slices.Collect(maps.Values(all)), nil, v1alpha1.UnmanagedEnforce)
	for name, q := range all {
		members := map[string]*v1alpha1.CardQuota{name: q}
		addChildren := func(parent string) error {
			for _, child := range all {
				if child.Spec.Parent == parent {
					members[child.Name] = child
				}
			}
			return nil
		}

		for at := q; at != nil; at = all[at.Spec.Parent] {
			members[at.Name] = at
			check.NoError(t, addChildren(at.Name))
		}

		check.NoError(t, addBelow(members, addChildren))
		part := cardquota.NewTree(slices.Collect(maps.Values(members)), nil, v1alpha1.UnmanagedEnforce)
		check.Equal(t, "CPU of Queue "+name, whole.Placement(q, q.Spec.Parent), part.Placement(q, q.Spec.Parent))
	}
}

// TestQueuesWithoutCardQuotasCountAtEveryLevel: a Queue that an administrator writes by hand has no CardQuota, but its
// numbers count in the queues above it. Such Queues may have others below them, and even form a cycle: "by-hand" is
// above "deeper", and below it. The search finds each Queue at least once, and ends.
func TestQueuesWithoutCardQuotasCountAtEveryLevel(t *testing.T) {
	below := map[string][]string{
		"team":    {"by-hand", "other"},
		"by-hand": {"deeper"},
		"deeper":  {"by-hand", "deepest"},
	}
	found := check.Value(unownedBelow([]string{"team", "empty"}, func(queue string) (children []*v1beta1.Queue, err error) {
		for _, name := range below[queue] {
			children = append(children, builder.Queue(name).Obj())
		}
		return children, nil
	}))(t)

	names := map[string]bool{}
	for _, queue := range found {
		names[queue.Name] = true
	}

	check.Equal(t, "queues", map[string]bool{"by-hand": true, "other": true, "deeper": true, "deepest": true}, names)
}
