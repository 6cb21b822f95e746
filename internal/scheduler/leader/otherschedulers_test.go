package leader

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes/fake"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestAPodOfTheStockSchedulerCountsWhileItMayPlacePods: two schedulers must not place pods at the same time. A pod
// with the label of Volcano's own scheduler may place pods from when it has a node until it has ended. The pod of
// this process is "own".
func TestAPodOfTheStockSchedulerCountsWhileItMayPlacePods(t *testing.T) {
	now := time.Now()

	for t, tc := range check.Cases(t, map[string]struct {
		pod        *builder.PodBuilder
		wantCounts bool
	}{
		"a running pod":                  {otherSchedulerPod("p", "n", corev1.PodRunning), true},
		"a pod that starts on its node":  {otherSchedulerPod("p", "n", corev1.PodPending), true},
		"a pod on a node that is lost":   {otherSchedulerPod("p", "n", corev1.PodUnknown), true},
		"a pod without a phase":          {otherSchedulerPod("p", "n", ""), true},
		"a running pod that was deleted": {otherSchedulerPod("p", "n", corev1.PodRunning).Deleted(now), true},
		"a pod without a node":           {otherSchedulerPod("p", "", corev1.PodPending), false},
		"a pod that succeeded":           {otherSchedulerPod("p", "n", corev1.PodSucceeded), false},
		"a pod that failed":              {otherSchedulerPod("p", "n", corev1.PodFailed), false},
		"a deleted pod that succeeded":   {otherSchedulerPod("p", "n", corev1.PodSucceeded).Deleted(now), false},
		"the pod of this process":        {otherSchedulerPod("own", "n", corev1.PodRunning), false},
	}) {
		check.Equal(t, "counts", tc.wantCounts, len(podsOfOtherSchedulers([]*corev1.Pod{tc.pod.Obj()}, "own")) == 1)
	}
}

// TestMessagesNameThreePodsAtMost: the message about other schedulers names three pods, the first ones in the order of
// names, and how many more there are. Without such a pod there is no message.
func TestMessagesNameThreePodsAtMost(t *testing.T) {
	for _, tc := range []struct{ pods, want string }{
		{"d", "in pod ns/d,"},
		{"d b", "in pod ns/b, ns/d,"},
		{"d b a", "in pod ns/a, ns/b, ns/d,"},
		{"d b a c", "in pod ns/a, ns/b, ns/c and 1 more,"},
	} {
		var pods []*corev1.Pod
		for _, name := range strings.Fields(tc.pods) {
			pods = append(pods, otherSchedulerPod(name, "n", corev1.PodRunning).Obj())
		}
		check.Contains(t, "message about pods "+tc.pods, describePods(podsOfOtherSchedulers(pods, "")), tc.want)
	}

	check.Equal(t, "message without a pod", "", describePods(podsOfOtherSchedulers(nil, "")))
}

// TestReplicasOfOneReplicaSetAreNotOtherSchedulers: an administrator may put our image into Volcano's own Deployment,
// and then our replicas have the label of Volcano's scheduler too. Pod "own" is that of this process, and the other
// pods of its ReplicaSet are ours too. Any other pod with the label is another scheduler, and the message names it.
func TestReplicasOfOneReplicaSetAreNotOtherSchedulers(t *testing.T) {
	withoutOwner := func(name string) *corev1.Pod { return otherSchedulerPod(name, "n", corev1.PodRunning).Obj() }
	replica := func(name, replicaSet string) *corev1.Pod {
		return otherSchedulerPod(name, "n", corev1.PodRunning).Owner("apps/v1", "ReplicaSet", replicaSet).Obj()
	}

	ours := []*corev1.Pod{replica("own", "ours"), replica("second", "ours")}
	check.Equal(t, "message about a replica of our ReplicaSet", "", describePods(podsOfOtherSchedulers(ours, "own")))

	for t, tc := range check.Cases(t, map[string]struct {
		pods []*corev1.Pod
		want string
	}{
		"a replica of another ReplicaSet":            {[]*corev1.Pod{replica("own", "ours"), replica("old", "stock")}, "ns/old"},
		"a pod without a ReplicaSet":                 {[]*corev1.Pod{replica("own", "ours"), withoutOwner("other")}, "ns/other"},
		"a replica, and own has no ReplicaSet":       {[]*corev1.Pod{withoutOwner("own"), replica("old", "stock")}, "ns/old"},
		"a replica, and own does not have the label": {[]*corev1.Pod{replica("old", "stock")}, "ns/old"},
	}) {
		check.Contains(t, "message", describePods(podsOfOtherSchedulers(tc.pods, "own")), tc.want)
	}
}

// TestPodsInTenantNamespacesAreIgnored: a tenant could stop the scheduler by a pod with the label of Volcano's
// scheduler; here every pod matches. So only pods in the namespaces of the scheduler (cards) and of Volcano count. A
// namespace that is given twice is listed once.
func TestPodsInTenantNamespacesAreIgnored(t *testing.T) {
	client := fake.NewClientset()
	for _, namespace := range []string{"cards", "tenant", "volcano-system"} {
		check.NoError(t, client.Tracker().Add(builder.Pod(namespace, "x").Running("n").Obj()))
	}
	others := NewOtherSchedulers(client, []string{"volcano-system", "cards", "volcano-system"}, labels.Everything(), "own", nil)

	check.Contains(t, "message", describePods(check.Value(others.listPods(t.Context()))(t)), "in pod cards/x, volcano-system/x,")
	check.Equal(t, "namespaces", []string{"cards", "volcano-system"}, others.namespaces)
}

// TestWaitsUntilTheLastOtherSchedulerIsGone: pod one of Volcano's own scheduler runs, and pod two starts on its node.
// Ours names both on /readyz, with what the administrator can do, and an event says that it waits. It goes on when
// pod one is deleted and pod two has failed. Its own pod is no reason to wait.
func TestWaitsUntilTheLastOtherSchedulerIsGone(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g *WithT) {
		others := newOtherSchedulersFixture(otherSchedulerPod("one", "n", corev1.PodRunning), otherSchedulerPod("two", "n", corev1.PodPending), otherSchedulerPod("own", "n", corev1.PodRunning))
		ended := others.startWaiting(t.Context())
		g.Expect(others.String()).To(Equal("ForeignScheduler: not elected: another scheduler runs in pod ns/one, ns/two, and two must never run at the same time: scale its Deployment to 0"))
		g.Expect(others.events.Events).To(Receive(HavePrefix("Normal ForeignScheduler cardquota-scheduler waits")))

		others.deletePod(g, "one")
		g.Expect(others.String()).To(ContainSubstring("in pod ns/two,"))

		time.Sleep(long)
		g.Expect(ended).NotTo(Receive())
		g.Expect(others.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), otherSchedulerPod("two", "n", corev1.PodFailed).Obj(), "ns")).To(Succeed())
		g.Expect(<-ended).To(Succeed())
		g.Expect(others.String()).To(BeEmpty())
	})
}

// TestWaitsWhilePodsCannotBeListed: while the API server forbids to list the pods, another scheduler may run, so ours
// waits and says why. An earlier list that found no pod proves nothing now. Our scheduler goes on as soon as the list
// succeeds.
func TestWaitsWhilePodsCannotBeListed(t *testing.T) {
	forbidden := errors.New("pods is forbidden")

	for t, isListedBefore := range check.Cases(t, map[string]bool{
		"the list was always forbidden": false,
		"the list succeeded before":     true,
	}) {
		inFakeTime(t, func(t *testing.T, g *WithT) {
			others := newOtherSchedulersFixture()
			if isListedBefore {
				check.Equal(t, "pods", 0, len(check.Value(others.listPods(t.Context()))(t)))
			}

			others.trouble.Store(&forbidden)
			ended := others.startWaiting(t.Context())
			time.Sleep(long)
			g.Expect(ended).NotTo(Receive())
			g.Expect(others.String()).To(And(ContainSubstring("not elected"),
				ContainSubstring("pods app=volcano-scheduler in namespace ns cannot be read: pods is forbidden")))

			others.trouble.Store(nil)
			g.Expect(<-ended).To(Succeed())
		})
	}
}

// TestWithoutASelectorNoPodsAreListed: --foreign-scheduler-selector= switches the search for other schedulers off.
// Then pod "one" of Volcano's own scheduler delays nothing, ends no leader, and the API server gets no request.
func TestWithoutASelectorNoPodsAreListed(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g *WithT) {
		others := newOtherSchedulersFixture(otherSchedulerPod("one", "n", corev1.PodRunning))
		others.selector = nil
		g.Expect(others.waitUntilNone(t.Context())).To(Succeed())
		g.Expect(others.confirmNone(t.Context())).To(Succeed())

		ctx, stop := context.WithCancel(t.Context())
		found := make(chan error, 1)
		go func() { found <- others.waitForAny(ctx) }()
		time.Sleep(long)
		synctest.Wait()
		g.Expect(found).NotTo(Receive())

		stop()
		g.Expect(<-found).To(Succeed())
		g.Expect(others.client.Actions()).To(BeEmpty())
	})
}
