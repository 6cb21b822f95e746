package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"cardquota.dev/operator/internal/testing/check"
)

func TestLeaseIsReleasedOnlyWhenNoWriteIsInFlight(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g *WithT) {
		s := newFakeAPIServer(t)
		e := newElectionFixture(newOtherSchedulersFixture()).startElection(t)
		g.Expect(e.holder()).To(Equal("this process"))

		sent := make(chan error, 1)
		go func() { sent <- s.send(e.fence(), "POST") }()
		<-s.arrived

		e.stop()
		time.Sleep(e.writeEnds / 2)
		g.Expect(e.fence().isClosed()).To(BeTrue())
		g.Expect(s.send(e.fence(), "POST")).To(MatchError(errFenced))
		g.Expect(e.holder()).To(Equal("this process"))

		s.release()
		g.Expect(<-sent).To(Succeed())
		g.Expect(<-e.ended).To(Succeed())
		g.Expect(e.holder()).To(BeEmpty())
		g.Expect(s.send(e.fence(), "POST")).To(MatchError(errFenced))
	})
}

func TestLeaseRunsOutWhenAWriteDoesNotEnd(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g *WithT) {
		s := newFakeAPIServer(t)
		e := newElectionFixture(newOtherSchedulersFixture()).startElection(t)
		go func() { _ = s.send(e.fence(), "POST") }()
		<-s.arrived
		e.stop()
		g.Expect(<-e.ended).To(MatchError(errNotDrained))
		g.Expect(e.holder()).NotTo(BeEmpty())
	})
}

func TestAnotherHolderEndsTheTermAtOnce(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g *WithT) {
		s := newFakeAPIServer(t)
		e := newElectionFixture(newOtherSchedulersFixture()).startElection(t)
		s.release()
		g.Expect(s.send(e.fence(), "POST")).To(Succeed())

		e.usurper.Store(leaseHeldBy("usurper"))
		began := time.Now()
		g.Expect(<-e.ended).To(MatchError(errLeaseLost))
		g.Expect(time.Since(began)).To(BeNumerically("<", 10*time.Second), "client-go alone takes its whole deadline")
		g.Expect(s.send(e.fence(), "POST")).To(MatchError(errFenced))
		g.Expect(e.holder()).To(Equal("usurper"))
	})
}

func TestFailedStartFreesTheLease(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g *WithT) {
		broken := errors.New("no queues")
		e := newElectionFixture(newOtherSchedulersFixture())
		e.lead = func(context.Context) error { return broken }
		g.Expect(<-e.startElection(t).ended).To(MatchError(broken))
		g.Expect(e.holder()).To(BeEmpty())
	})
}

// TestWaitingReplicaStopsWithoutATrace: it never led, so the heartbeat is another's.
func TestWaitingReplicaStopsWithoutATrace(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g *WithT) {
		e := newElectionFixture(newOtherSchedulersFixture(), leaseHeldBy("leader"))
		e.farewell = func(context.Context) { t.Error("it says farewell") }
		e.startElection(t)
		time.Sleep(long)
		g.Expect(e.leads()).To(BeFalse())
		e.stop()
		g.Expect(<-e.ended).To(Succeed())
		g.Expect(e.holder()).To(Equal("leader"))
	})
}

// TestFinalHeartbeatPrecedesTheReleaseOfTheLease: the next leader finds it, and it never
// overwrites a successor's.
func TestFinalHeartbeatPrecedesTheReleaseOfTheLease(t *testing.T) {
	for t, elect := range check.Cases(t, map[string]bool{"elected": true, "alone": false}) {
		inFakeTime(t, func(t *testing.T, g *WithT) {
			s := newFakeAPIServer(t)
			e := newElectionFixture(newOtherSchedulersFixture())
			s.release()
			var holders []string

			e.elect = elect
			e.farewell = func(context.Context) {
				g.Expect(s.send(e.fence(), "POST")).To(MatchError(errFenced), "no write follows")
				holders = append(holders, e.holder())
			}

			e.startElection(t)
			g.Expect(s.send(e.fence(), "POST")).To(Succeed(), "the fence is open until the end")
			e.stop()
			g.Expect(<-e.ended).To(Succeed())
			g.Expect(holders).To(Equal([]string{map[bool]string{true: "this process"}[elect]}), "once")
			g.Expect(s.send(e.fence(), "POST")).To(MatchError(errFenced))
		})
	}
}

func TestNoElectionWhileAnotherSchedulerRuns(t *testing.T) {
	for t, elect := range check.Cases(t, map[string]bool{"with a lease": true, "without election": false}) {
		inFakeTime(t, func(t *testing.T, g *WithT) {
			e := newElectionFixture(newOtherSchedulersFixture(otherSchedulerPod("one", "n", "Running")))
			e.elect = elect
			e.startRunElections(t)
			time.Sleep(long)
			g.Expect(e.leads()).To(BeFalse())
			g.Expect(e.holder()).To(BeEmpty(), "it does not even stand for election")

			e.deletePod(g, "one")
			g.Expect(e.leads()).To(BeTrue())
			e.stop()
			g.Expect(<-e.ended).To(Succeed())
		})
	}
}

func TestLeaderStopsWhenAnotherSchedulerAppears(t *testing.T) {
	for t, elect := range check.Cases(t, map[string]bool{"with a lease": true, "without election": false}) {
		inFakeTime(t, func(t *testing.T, g *WithT) {
			e := newElectionFixture(newOtherSchedulersFixture())
			e.elect = elect
			e.startRunElections(t)
			g.Expect(e.leads()).To(BeTrue())

			e.addPod(g, otherSchedulerPod("waits", "", "Pending"))
			time.Sleep(long)
			g.Expect(e.ended).NotTo(Receive())

			e.addPod(g, otherSchedulerPod("intruder", "n", "Pending"))
			g.Expect(<-e.ended).To(MatchError(ContainSubstring("another scheduler runs in pod ns/intruder,")))
			g.Expect(e.fences).To(HaveLen(1))
			g.Expect(e.fence().isClosed()).To(BeTrue())
			g.Expect(e.holder()).To(BeEmpty(), "the lease is free")
		})
	}
}

func TestCandidateWithdrawsWhileAnotherSchedulerRuns(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g *WithT) {
		e := newElectionFixture(newOtherSchedulersFixture(), leaseHeldBy("leader")).startRunElections(t)
		time.Sleep(long)
		g.Expect(len(e.client.Actions())).To(BeNumerically(">", 10), "it tries to become leader")

		e.addPod(g, otherSchedulerPod("one", "n", "Running"))
		g.Expect(e.String()).To(ContainSubstring("in pod ns/one,"))
		g.Expect(e.client.Tracker().Delete(leaseResource, "ns", "lease")).To(Succeed())

		time.Sleep(long)
		g.Expect(e.holder()).To(BeEmpty())
		g.Expect(e.ended).NotTo(Receive(), "it goes on to wait")

		e.deletePod(g, "one")
		g.Expect(e.leads()).To(BeTrue())
		g.Expect(e.holder()).To(Equal("this process"))
		e.stop()
		g.Expect(<-e.ended).To(Succeed())
	})
}

// TestLeaderChecksForOtherSchedulersBeforeItStarts: another one may have started while it
// waited for the lease, and its watch has not reported that yet.
func TestLeaderChecksForOtherSchedulersBeforeItStarts(t *testing.T) {
	work := &leader{others: newOtherSchedulersFixture(otherSchedulerPod("late", "n", "Running")).otherSchedulers}
	NewWithT(check.Trail(t)).Expect(work.leadBehind(newFence())(t.Context())).To(MatchError(ContainSubstring("another scheduler runs in pod ns/late,")))
}

func TestWaitingProcessStopsOnSignal(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g *WithT) {
		e := newElectionFixture(newOtherSchedulersFixture(otherSchedulerPod("one", "n", "Running"))).startRunElections(t)
		g.Expect(e.String()).NotTo(BeEmpty())
		e.stop()
		g.Expect(<-e.ended).To(Succeed())
		g.Expect(e.fences).To(BeEmpty())
	})
}

// TestErrorEndsTheWaiting: without a signal the cause is returned.
func TestErrorEndsTheWaiting(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g *WithT) {
		l := newOtherSchedulersFixture(otherSchedulerPod("one", "n", "Running"))
		broken := errors.New("the configuration cannot be watched")
		ended := make(chan error, 1)
		ctx, end := context.WithCancelCause(t.Context())
		go func() { ended <- runElections(t.Context(), ctx, l.otherSchedulers, nil) }()
		synctest.Wait()
		g.Expect(l.String()).NotTo(BeEmpty())
		end(broken)
		g.Expect(<-ended).To(MatchError(broken))
	})
}

func TestOwnPod(t *testing.T) {
	t.Setenv("POD_NAME", "mine")
	if got := ownPodName(); got != "mine" {
		t.Errorf("own pod is %q", got)
	}
	t.Setenv("POD_NAME", "")
	if got := ownPodName(); got == "" {
		t.Error("the host has no name")
	}
}

// TestLeaderWaitsForTheAPIServer: an API server that is slow for a while must not
// make every replica end as soon as it is elected.
func TestLeaderWaitsForTheAPIServer(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g *WithT) {
		l := newOtherSchedulersFixture()
		slow := errors.New("etcdserver: request timed out")
		l.trouble.Store(&slow)
		work := &leader{others: l.otherSchedulers}
		term, end := context.WithTimeout(t.Context(), long)
		defer end()

		began := time.Now()
		g.Expect(work.leadBehind(newFence())(term)).To(Succeed())
		g.Expect(time.Since(began)).To(Equal(long), "it waits as long as its term lasts")

		time.AfterFunc(long, func() { l.trouble.Store(nil) })
		g.Expect(l.confirmNone(t.Context())).To(Succeed())
		g.Expect(time.Since(began)).To(BeNumerically("~", 2*long, 2*lookupInterval), "it goes on once there is an answer")
	})
}
