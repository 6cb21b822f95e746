package cardquota

import (
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardquota"
	shared "cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestRetryDelayGrows: a write that Volcano refuses is retried soon at first, since its webhook may
// not know the last writes yet, and then ever more rarely.
func TestRetryDelayGrows(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for t, tc := range check.Cases(t, map[string]struct {
		status metav1.ConditionStatus
		since  time.Duration
		want   time.Duration
	}{
		"not reported yet":  {"", 0, waitingRetry},
		"True until now":    {metav1.ConditionTrue, time.Hour, waitingRetry},
		"just now":          {metav1.ConditionFalse, 0, waitingRetry},
		"for some time":     {metav1.ConditionFalse, waitingRetry + (shared.RefusedRetry-waitingRetry)/2, waitingRetry + (shared.RefusedRetry-waitingRetry)/2},
		"for a long time":   {metav1.ConditionFalse, time.Hour, shared.RefusedRetry},
		"a clock went back": {metav1.ConditionFalse, -time.Hour, waitingRetry},
	}) {
		quota := builder.CardQuota("a").Obj()
		if tc.status != "" {
			quota.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionQueueSynced, Status: tc.status, LastTransitionTime: metav1.NewTime(now.Add(-tc.since))}}
		}

		r := reconciliation{quota: quota, now: now}
		check.Equal(t, "delay", tc.want, r.retryDelay())
	}
}

// TestNeighborsWakeUpOnlyForWhatTheyWaitFor: the operator writes card.allocated every second, and
// that must not reconcile whole trees.
func TestNeighborsWakeUpOnlyForWhatTheyWaitFor(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		change func(*v1beta1.Queue)
		below  string
		want   bool
	}{
		"nothing":           {func(*v1beta1.Queue) {}, "web", false},
		"what is allocated": {func(q *v1beta1.Queue) { q.Annotations[v1alpha1.AnnotationCardAllocated] = "{}" }, "web", false},
		"the status":        {func(q *v1beta1.Queue) { q.Status.State = v1beta1.QueueStateOpen }, "web", false},
		"the spec":          {func(q *v1beta1.Queue) { q.Generation++ }, "web", true},
		"the quota":         {func(q *v1beta1.Queue) { q.Annotations[v1alpha1.AnnotationCardQuota] = `{"H200":1}` }, "web", true},
		"what it deserves":  {func(q *v1beta1.Queue) { q.Annotations[v1alpha1.AnnotationCardDeserved] = `{"H200":1}` }, "web", true},
		"the guarantee":     {func(q *v1beta1.Queue) { q.Annotations[v1alpha1.AnnotationCardGuarantee] = `{"H200":1}` }, "web", true},
		"the stop policy":   {func(q *v1beta1.Queue) { q.Annotations[v1alpha1.AnnotationStopPolicy] = "Hold" }, "web", true},
		"at the top level":  {func(q *v1beta1.Queue) { q.Generation++ }, "root", true},
	}) {
		before := builder.Queue("a").Quota("{}").Parent(tc.below).Obj()
		after := before.DeepCopy()

		tc.change(after)
		check.Equal(t, "neighbors", tc.want, treeQueueChanged.Update(event.TypedUpdateEvent[*v1beta1.Queue]{ObjectOld: before, ObjectNew: after}))
		check.Equal(t, "a new count", tc.want && tc.below != "root", changedInTree(before, after))
	}
}

// TestTreeAroundOneHasTheNumbersOfTheWholeTree: before the next count the operator reads only a
// part of the tree. A Queue must not get other numbers from it.
func TestTreeAroundOneHasTheNumbersOfTheWholeTree(t *testing.T) {
	amounts := func(text string) *v1alpha1.ResourceAmounts {
		amount := resource.MustParse(text)
		return &v1alpha1.ResourceAmounts{CPU: &amount}
	}

	all := map[string]*v1alpha1.CardQuota{}
	add := func(name, parent, cpu string, deserved *v1alpha1.ResourceAmounts) {
		all[name] = builder.CardQuota(name).With(func(q *v1alpha1.CardQuota) {
			limit := resource.MustParse(cpu)
			q.Spec.Parent = parent
			q.Spec.Resources = &v1alpha1.Resources{CPU: &limit, Deserved: deserved}
		}).Obj()
	}

	add("tenant", "", "10", nil)
	add("web", "tenant", "10", nil)
	add("lab", "tenant", "10", nil)
	add("chat", "web", "5", amounts("5"))
	add("far", "chat", "5", amounts("4"))
	add("other", "", "7", amounts("7"))

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
		check.Equal(t, name, whole.Placement(q, q.Spec.Parent), part.Placement(q, q.Spec.Parent))
	}
}

// TestQueuesWithoutCardQuotasCountAtEveryLevel: Queues that are written by hand may have others
// below them, and even form a cycle.
func TestQueuesWithoutCardQuotasCountAtEveryLevel(t *testing.T) {
	below := map[string][]string{"team": {"by-hand", "other"}, "by-hand": {"deeper"}, "deeper": {"by-hand", "deepest"}}
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
