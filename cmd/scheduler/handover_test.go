package main

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// turns is takeTurns under test.
type turns struct {
	*looking
	led    chan struct{}
	fences []*fence
	stop   context.CancelFunc
	ended  chan error
}

// patient waits long enough on a busy machine.
func patient(t *testing.T) *WithT {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(30 * time.Second)
	return g
}

// startTurns begins with short times.
func startTurns(t *testing.T, elect bool, l *looking) *turns {
	asked, stop := context.WithCancel(t.Context())
	e := &turns{looking: l, led: make(chan struct{}), stop: stop, ended: make(chan error, 1)}
	newTurn := func() *election {
		fence := newFence()
		e.fences = append(e.fences, fence)
		return &election{
			config: termsOf(elect, ampleDeadline, amplePatience),
			client: l.client, identity: "this process", fence: fence,
			lead: func(term context.Context) error {
				close(e.led)
				return untilItsEnd(term)
			},
		}
	}
	go func() { e.ended <- takeTurns(asked, asked, l.foreign, newTurn) }()
	return e
}

// holder is who holds the lease, "" for nobody.
func (e *turns) holder() string {
	lease, err := e.client.CoordinationV1().Leases("ns").Get(context.Background(), "lease", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func TestNobodyIsElectedBesideAForeignScheduler(t *testing.T) {
	for name, elect := range map[string]bool{"with a lease": true, "without election": false} {
		t.Run(name, func(t *testing.T) {
			g := patient(t)
			e := startTurns(t, elect, look(t, stranger("one", "n", corev1.PodRunning)))
			g.Consistently(e.led, "1500ms").ShouldNot(BeClosed())
			g.Expect(e.holder()).To(BeEmpty(), "it does not even stand for election")
			e.vanishes(t, "one")
			g.Eventually(e.led).Should(BeClosed())
			e.stop()
			g.Eventually(e.ended).Should(Receive(BeNil()))
		})
	}
}

func TestALeaderStopsWhenAForeignSchedulerAppears(t *testing.T) {
	for name, elect := range map[string]bool{"with a lease": true, "without election": false} {
		t.Run(name, func(t *testing.T) {
			g := patient(t)
			e := startTurns(t, elect, look(t))
			g.Eventually(e.led).Should(BeClosed())
			e.appears(t, stranger("waits", "", corev1.PodPending))
			g.Consistently(e.ended, "300ms").ShouldNot(Receive())
			e.appears(t, stranger("intruder", "n", corev1.PodPending))
			var err error
			g.Eventually(e.ended).Should(Receive(&err))
			g.Expect(err).To(MatchError(ContainSubstring("another scheduler runs in pod ns/intruder,")))
			g.Expect(e.fences).To(HaveLen(1))
			g.Expect(e.fences[0].isShut()).To(BeTrue())
			g.Expect(e.holder()).To(BeEmpty(), "the lease is free")
		})
	}
}

func TestACandidateStandsBackWhileAForeignSchedulerRuns(t *testing.T) {
	g, l := patient(t), look(t)
	_, err := l.client.CoordinationV1().Leases("ns").Create(t.Context(), foreignLease("leader"), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	e := startTurns(t, true, l)
	g.Eventually(func() int { return len(e.client.Actions()) }).Should(BeNumerically(">", 6)) // it tries to become leader
	e.appears(t, stranger("one", "n", corev1.PodRunning))
	g.Eventually(e.String).Should(ContainSubstring("in pod ns/one,"))
	g.Expect(e.client.CoordinationV1().Leases("ns").Delete(t.Context(), "lease", metav1.DeleteOptions{})).To(Succeed())
	g.Consistently(e.holder, "500ms").Should(BeEmpty())
	g.Expect(e.ended).NotTo(Receive(), "it goes on to wait")
	e.vanishes(t, "one")
	g.Eventually(e.led).Should(BeClosed())
	g.Expect(e.holder()).To(Equal("this process"))
	e.stop()
	g.Eventually(e.ended).Should(Receive(BeNil()))
}

// TestTheElectedLooksOnceMore: somebody may have come while it waited for its turn
// and was not brought yet.
func TestTheElectedLooksOnceMore(t *testing.T) {
	g, l := patient(t), newLooking(stranger("late", "n", corev1.PodRunning))
	work := &leader{others: l.foreign}
	g.Expect(work.with(newFence())(t.Context())).To(MatchError(ContainSubstring("another scheduler runs in pod ns/late,")))
}

func TestAWaitingProcessStopsWhenAsked(t *testing.T) {
	g := patient(t)
	e := startTurns(t, true, look(t, stranger("one", "n", corev1.PodRunning)))
	g.Eventually(e.String).ShouldNot(BeEmpty())
	e.stop()
	g.Eventually(e.ended).Should(Receive(BeNil()))
	g.Expect(e.fences).To(BeEmpty())
}

// TestAFaultEndsTheWaiting: not asked to stop, but unable to go on.
func TestAFaultEndsTheWaiting(t *testing.T) {
	g, l := patient(t), look(t, stranger("one", "n", corev1.PodRunning))
	ctx, end := context.WithCancelCause(t.Context())
	broken := errors.New("the configuration cannot be watched")
	ended := make(chan error, 1)
	go func() { ended <- takeTurns(t.Context(), ctx, l.foreign, nil) }()
	g.Eventually(l.String).ShouldNot(BeEmpty())
	end(broken)
	g.Eventually(ended).Should(Receive(MatchError(broken)))
}

func TestOwnPod(t *testing.T) {
	t.Setenv("POD_NAME", "mine")
	if got := ownPod(); got != "mine" {
		t.Errorf("own pod is %q", got)
	}
	t.Setenv("POD_NAME", "")
	if got := ownPod(); got == "" {
		t.Error("the host has no name")
	}
}
