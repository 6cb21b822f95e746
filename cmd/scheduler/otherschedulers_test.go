package main

import (
	"context"
	"errors"
	"slices"
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

func TestPodsOfOtherSchedulers(t *testing.T) {
	now := time.Now()

	for t, tc := range check.Cases(t, map[string]struct {
		pod  *builder.PodBuilder
		want bool
	}{
		"it runs":                           {otherSchedulerPod("p", "n", corev1.PodRunning), true},
		"it starts on its node":             {otherSchedulerPod("p", "n", corev1.PodPending), true},
		"its node does not answer":          {otherSchedulerPod("p", "n", corev1.PodUnknown), true},
		"its phase is not written yet":      {otherSchedulerPod("p", "n", ""), true},
		"it is being deleted":               {otherSchedulerPod("p", "n", corev1.PodRunning).Deleted(now), true},
		"it waits for a node":               {otherSchedulerPod("p", "", corev1.PodPending), false},
		"it has ended well":                 {otherSchedulerPod("p", "n", corev1.PodSucceeded), false},
		"it has ended badly":                {otherSchedulerPod("p", "n", corev1.PodFailed), false},
		"it has ended and is being deleted": {otherSchedulerPod("p", "n", corev1.PodSucceeded).Deleted(now), false},
		"it is this process's own":          {otherSchedulerPod("own", "n", corev1.PodRunning), false},
	}) {
		check.Equal(t, "schedules", tc.want, len(podsOfOtherSchedulers([]*corev1.Pod{tc.pod.Obj()}, "own")) == 1)
	}
}

func TestPodsAreNamed(t *testing.T) {
	var pods []*corev1.Pod
	for _, name := range []string{"d", "b", "a", "c"} {
		pods = append(pods, otherSchedulerPod(name, "n", corev1.PodRunning).Obj())
	}
	for n, want := range []string{"", "in pod ns/d,", "in pod ns/b, ns/d,", "in pod ns/a, ns/b, ns/d,", "in pod ns/a, ns/b, ns/c and 1 more,"} {
		got := describePods(podsOfOtherSchedulers(slices.Clone(pods[:n]), ""))
		check.That(t, strings.Contains(got, want) && (got == "") == (n == 0), "%d pods: %q, want …%s…", n, got, want)
	}
}

// TestReplicasOfOneReplicaSetAreNotOtherSchedulers: with the image of Volcano's Deployment replaced,
// every replica carries the stock scheduler's label.
func TestReplicasOfOneReplicaSetAreNotOtherSchedulers(t *testing.T) {
	bare := func(name string) *corev1.Pod { return otherSchedulerPod(name, "n", corev1.PodRunning).Obj() }
	of := func(name, replicaSet string) *corev1.Pod {
		return otherSchedulerPod(name, "n", corev1.PodRunning).Owner("apps/v1", "ReplicaSet", replicaSet).Obj()
	}

	for t, tc := range check.Cases(t, map[string]struct {
		pods []*corev1.Pod
		want string
	}{
		"another replica":               {[]*corev1.Pod{of("own", "ours"), of("other", "ours")}, ""},
		"the one that is replaced":      {[]*corev1.Pod{of("own", "ours"), of("old", "stock")}, "ns/old"},
		"a pod without an owner":        {[]*corev1.Pod{of("own", "ours"), bare("bare")}, "ns/bare"},
		"own is a pod without an owner": {[]*corev1.Pod{bare("own"), of("old", "stock")}, "ns/old"},
		"own does not carry the mark":   {[]*corev1.Pod{of("old", "stock")}, "ns/old"},
	}) {
		got := describePods(podsOfOtherSchedulers(tc.pods, "own"))
		check.That(t, strings.Contains(got, tc.want) && (got == "") == (tc.want == ""), "got %q, want …%s…", got, tc.want)
	}
}

// TestPodsInTenantNamespacesAreIgnored: a label must not be enough to stop the scheduler.
func TestPodsInTenantNamespacesAreIgnored(t *testing.T) {
	client := fake.NewClientset()
	for _, namespace := range []string{"cards", "tenant", "volcano-system"} {
		check.NoError(t, client.Tracker().Add(builder.Pod(namespace, "x").Running("n").Obj()))
	}
	f := newOtherSchedulers(client, []string{"volcano-system", "cards", "volcano-system"}, labels.Everything(), "own", nil)
	pods := check.Value(f.listPods(t.Context()))(t)
	check.Contains(t, "pods", describePods(pods), "in pod cards/x, volcano-system/x,")
	check.Equal(t, "places", "cards, volcano-system", strings.Join(f.namespaces, ", "))
}

func TestWaitsUntilTheLastOtherSchedulerIsGone(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g *WithT) {
		l := newOtherSchedulersFixture(otherSchedulerPod("one", "n", corev1.PodRunning), otherSchedulerPod("two", "n", corev1.PodPending), otherSchedulerPod("own", "n", corev1.PodRunning))
		ended := l.startWaiting(t.Context())
		g.Expect(l.String()).To(Equal("ForeignScheduler: not elected: another scheduler runs in pod ns/one, ns/two, and two must never run at the same time: scale its Deployment to 0"))
		g.Expect(l.events.Events).To(Receive(HavePrefix("Normal ForeignScheduler cardquota-scheduler waits")))

		l.deletePod(g, "one")
		g.Expect(l.String()).To(ContainSubstring("in pod ns/two,"))

		time.Sleep(long)
		g.Expect(ended).NotTo(Receive())
		g.Expect(l.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), otherSchedulerPod("two", "n", corev1.PodFailed).Obj(), "ns")).To(Succeed())
		g.Expect(<-ended).To(Succeed())
		g.Expect(l.String()).To(BeEmpty())
	})
}

func TestWaitsWhilePodsCannotBeListed(t *testing.T) {
	forbidden := errors.New("pods is forbidden")

	for t, tc := range check.Cases(t, map[string]struct {
		begin func(t *testing.T) *otherSchedulersFixture
		says  string
	}{
		"from the start": {func(t *testing.T) *otherSchedulersFixture {
			l := newOtherSchedulersFixture()
			l.trouble.Store(&forbidden)
			return l
		}, "pods app=volcano-scheduler in namespace ns cannot be read: pods is forbidden"},
		"at the moment of the election": {func(t *testing.T) *otherSchedulersFixture {
			l := newOtherSchedulersFixture()
			pods, err := l.listPods(t.Context())
			check.That(t, len(pods) == 0 && err == nil, "found %v, error %v", pods, err)
			l.trouble.Store(&forbidden)
			return l
		}, "cannot be read: pods is forbidden"},
	}) {
		inFakeTime(t, func(t *testing.T, g *WithT) {
			l := tc.begin(t)
			ended := l.startWaiting(t.Context())
			time.Sleep(long)
			g.Expect(ended).NotTo(Receive())
			g.Expect(l.String()).To(And(ContainSubstring("not elected"), ContainSubstring(tc.says)))
			if l.trouble.Swap(nil) != nil {
				g.Expect(<-ended).To(Succeed())
			}
		})
	}
}

func TestWithoutASelectorNoPodsAreListed(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g *WithT) {
		l := newOtherSchedulersFixture(otherSchedulerPod("one", "n", corev1.PodRunning))
		l.selector = nil
		g.Expect(l.waitUntilNone(t.Context())).To(Succeed())
		g.Expect(l.confirmNone(t.Context())).To(Succeed())

		ctx, stop := context.WithCancel(t.Context())
		arrived := make(chan error, 1)
		go func() { arrived <- l.waitForAny(ctx) }()
		time.Sleep(long)
		synctest.Wait()
		g.Expect(arrived).NotTo(Receive())

		stop()
		g.Expect(<-arrived).To(Succeed())
		g.Expect(l.client.Actions()).To(BeEmpty())
	})
}
