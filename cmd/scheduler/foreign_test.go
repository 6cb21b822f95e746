package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
)

func stranger(name, node string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "volcano-scheduler"}},
		Spec:       corev1.PodSpec{NodeName: node},
		Status:     corev1.PodStatus{Phase: phase},
	}
}

func TestPodsAtWork(t *testing.T) {
	now := metav1.Now()
	leaving := stranger("leaving", "n", corev1.PodRunning)
	leaving.DeletionTimestamp = &now
	ended := stranger("ended", "n", corev1.PodSucceeded)
	ended.DeletionTimestamp = &now
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"it runs":                           {stranger("p", "n", corev1.PodRunning), true},
		"it starts on its node":             {stranger("p", "n", corev1.PodPending), true},
		"its node does not answer":          {stranger("p", "n", corev1.PodUnknown), true},
		"its phase is not written yet":      {stranger("p", "n", ""), true},
		"it is being deleted":               {leaving, true},
		"it waits for a node":               {stranger("p", "", corev1.PodPending), false},
		"it has ended well":                 {stranger("p", "n", corev1.PodSucceeded), false},
		"it has ended badly":                {stranger("p", "n", corev1.PodFailed), false},
		"it has ended and is being deleted": {ended, false},
		"it is this process's own":          {stranger("own", "n", corev1.PodRunning), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := len(atWork([]*corev1.Pod{tc.pod}, "own")) == 1; got != tc.want {
				t.Errorf("at work: %v, want %v", got, tc.want)
			}
		})
	}
}

func TestPodsAreNamed(t *testing.T) {
	var pods []*corev1.Pod
	for _, name := range []string{"d", "b", "a", "c"} {
		pods = append(pods, stranger(name, "n", corev1.PodRunning))
	}
	for n, want := range []string{"", "in pod ns/d,", "in pod ns/b, ns/d,", "in pod ns/a, ns/b, ns/d,", "in pod ns/a, ns/b, ns/c and 1 more,"} {
		if got := describe(atWork(slices.Clone(pods[:n]), "")); !strings.Contains(got, want) || (got == "") != (n == 0) {
			t.Errorf("%d pods: %q, want …%s…", n, got, want)
		}
	}
}

// TestReplicasOfOneTemplateAreNotForeign: with the image of Volcano's Deployment replaced,
// every replica carries the stock scheduler's label.
func TestReplicasOfOneTemplateAreNotForeign(t *testing.T) {
	of := func(name, replicaSet string) *corev1.Pod {
		pod := stranger(name, "n", corev1.PodRunning)
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: replicaSet, UID: types.UID(replicaSet), Controller: new(bool)}}
		*pod.OwnerReferences[0].Controller = true
		return pod
	}
	for name, tc := range map[string]struct {
		pods []*corev1.Pod
		want string
	}{
		"another replica":             {[]*corev1.Pod{of("own", "ours"), of("other", "ours")}, ""},
		"the one that is replaced":    {[]*corev1.Pod{of("own", "ours"), of("old", "stock")}, "ns/old"},
		"a pod of nobody":             {[]*corev1.Pod{of("own", "ours"), stranger("bare", "n", corev1.PodRunning)}, "ns/bare"},
		"own is a pod of nobody":      {[]*corev1.Pod{stranger("own", "n", corev1.PodRunning), of("old", "stock")}, "ns/old"},
		"own does not carry the mark": {[]*corev1.Pod{of("old", "stock")}, "ns/old"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := describe(atWork(tc.pods, "own")); !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") {
				t.Errorf("got %q, want …%s…", got, tc.want)
			}
		})
	}
}

// TestOtherNamespacesAreTenants: a label must not be enough to stop the scheduler.
func TestOtherNamespacesAreTenants(t *testing.T) {
	f := newForeign(nil, []string{"volcano-system", "cards", "volcano-system"}, nil, "own", nil)
	var pods []*corev1.Pod
	for _, namespace := range []string{"cards", "tenant", "volcano-system"} {
		pod := stranger("x", "n", corev1.PodRunning)
		pod.Namespace = namespace
		pods = append(pods, pod)
	}
	if got := describe(f.here(pods)); !strings.Contains(got, "in pod cards/x, volcano-system/x,") {
		t.Errorf("got %q, want the pods of cards and volcano-system", got)
	}
	if got := f.places(); got != "namespaces cards, volcano-system" {
		t.Errorf("places: %q", got)
	}
}

// looking is a foreign under test, whose API server answers lists with trouble
// as long as there is some.
type looking struct {
	*foreign
	client  *fake.Clientset
	trouble atomic.Pointer[error]
	events  *record.FakeRecorder
}

func look(t *testing.T, pods ...*corev1.Pod) *looking {
	t.Helper()
	l := newLooking(pods...)
	go l.run(t.Context())
	return l
}

func newLooking(pods ...*corev1.Pod) *looking {
	l := &looking{client: fake.NewClientset(), events: record.NewFakeRecorder(10)}
	for _, pod := range pods {
		_ = l.client.Tracker().Add(pod)
	}
	l.client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if trouble := l.trouble.Load(); trouble != nil {
			return true, nil, *trouble
		}
		return false, nil, nil
	})
	l.foreign = newForeign(l.client, []string{"ns"}, labels.SelectorFromSet(labels.Set{"app": "volcano-scheduler"}), "own", l.events)
	return l
}

func (l *looking) appears(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if _, err := l.client.CoreV1().Pods("ns").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (l *looking) vanishes(t *testing.T, name string) {
	t.Helper()
	if err := l.client.CoreV1().Pods("ns").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// waiting runs gone in the background.
func (l *looking) waiting(ctx context.Context) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- l.gone(ctx) }()
	return ended
}

func TestItIsWaitedUntilTheLastOneIsGone(t *testing.T) {
	g, l := patient(t), look(t, stranger("one", "n", corev1.PodRunning), stranger("two", "n", corev1.PodPending), stranger("own", "n", corev1.PodRunning))
	ended := l.waiting(t.Context())
	g.Eventually(l.String).Should(Equal("ForeignScheduler: not elected: another scheduler runs in pod ns/one, ns/two, and two must never be at work: scale its Deployment to 0"))
	g.Eventually(l.events.Events).Should(Receive(HavePrefix("Normal ForeignScheduler cardquota-scheduler waits")))
	l.vanishes(t, "one")
	g.Eventually(l.String).Should(ContainSubstring("in pod ns/two,"))
	g.Consistently(ended, "1500ms").ShouldNot(Receive())
	over := stranger("two", "n", corev1.PodFailed)
	_, err := l.client.CoreV1().Pods("ns").Update(t.Context(), over, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(ended).Should(Receive(BeNil()))
	g.Expect(l.String()).To(BeEmpty())
}

func TestWhatCannotBeReadIsWaitedFor(t *testing.T) {
	forbidden := errors.New("pods is forbidden")
	t.Run("from the start", func(t *testing.T) {
		g, l := patient(t), newLooking()
		l.trouble.Store(&forbidden)
		go l.run(t.Context())
		ended := l.waiting(t.Context())
		g.Eventually(l.String).Should(And(ContainSubstring("not elected"), ContainSubstring("pods app=volcano-scheduler in namespace ns cannot be read: pods is forbidden")))
		g.Consistently(ended, "1500ms").ShouldNot(Receive())
		l.trouble.Store(nil)
		g.Eventually(ended).Should(Receive(BeNil()))
	})
	t.Run("at the moment of the election", func(t *testing.T) {
		g, l := patient(t), look(t)
		g.Eventually(func() string { obstacle, _ := l.obstacle(); return obstacle }).Should(BeEmpty())
		l.trouble.Store(&forbidden)
		ended := l.waiting(t.Context())
		g.Consistently(ended, "1500ms").ShouldNot(Receive())
		g.Expect(l.String()).To(ContainSubstring("cannot be read: pods is forbidden"))
		l.trouble.Store(nil)
		g.Eventually(ended).Should(Receive(BeNil()))
	})
	t.Run("before the first answer", func(t *testing.T) {
		g, l := patient(t), newLooking() // nobody follows the pods
		ended := l.waiting(t.Context())
		g.Eventually(l.String).Should(ContainSubstring("are being read"))
		g.Consistently(ended, "500ms").ShouldNot(Receive())
	})
}

// TestWhatIsFollowedLateIsAskedFor: the API server knows of a pod that was not
// brought yet.
func TestWhatIsFollowedLateIsAskedFor(t *testing.T) {
	g, l := patient(t), newLooking(stranger("late", "n", corev1.PodRunning))
	l.synced = true
	ended := l.waiting(t.Context())
	g.Eventually(l.String).Should(ContainSubstring("in pod ns/late,"))
	l.vanishes(t, "late")
	g.Eventually(ended).Should(Receive(BeNil()))
}

func TestNobodyIsLookedForWithoutASelector(t *testing.T) {
	g, l := patient(t), newLooking(stranger("one", "n", corev1.PodRunning))
	l.selector = nil
	l.run(t.Context()) // returns
	g.Expect(l.gone(t.Context())).To(Succeed())
	g.Expect(l.ask(t.Context())).To(BeEmpty())
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	g.Expect(l.arrival(ctx)).To(Succeed())
	g.Expect(l.client.Actions()).To(BeEmpty())
}
