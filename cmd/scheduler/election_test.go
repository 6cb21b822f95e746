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

func TestLeaseIsReleasedOnlyWhenNoWriteIsUnderWay(t *testing.T) {
	instant(t, func(t *testing.T, g *WithT) {
		s, e := newServer(t), newTurn(newLooking()).start(t)
		g.Expect(e.holder()).To(Equal("this process"))
		sent := make(chan error, 1)
		go func() { sent <- s.send(e.fence(), "POST") }()
		<-s.arrived

		e.stop()
		time.Sleep(e.writeEnds / 2)
		g.Expect(e.fence().isShut()).To(BeTrue())
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
	instant(t, func(t *testing.T, g *WithT) {
		s, e := newServer(t), newTurn(newLooking()).start(t)
		go func() { _ = s.send(e.fence(), "POST") }()
		<-s.arrived
		e.stop()
		g.Expect(<-e.ended).To(MatchError(errNotDrained))
		g.Expect(e.holder()).NotTo(BeEmpty())
	})
}

func TestUsurperEndsTheTermAtOnce(t *testing.T) {
	instant(t, func(t *testing.T, g *WithT) {
		s, e := newServer(t), newTurn(newLooking()).start(t)
		s.release()
		g.Expect(s.send(e.fence(), "POST")).To(Succeed())
		e.usurper.Store(foreignLease("usurper"))
		began := time.Now()
		g.Expect(<-e.ended).To(MatchError(errLeaseLost))
		g.Expect(time.Since(began)).To(BeNumerically("<", 10*time.Second), "client-go alone takes its whole deadline")
		g.Expect(s.send(e.fence(), "POST")).To(MatchError(errFenced))
		g.Expect(e.holder()).To(Equal("usurper"))
	})
}

func TestFailedStartFreesTheLease(t *testing.T) {
	instant(t, func(t *testing.T, g *WithT) {
		broken := errors.New("no queues")
		e := newTurn(newLooking())
		e.lead = func(context.Context) error { return broken }
		g.Expect(<-e.start(t).ended).To(MatchError(broken))
		g.Expect(e.holder()).To(BeEmpty())
	})
}

// TestWaitingReplicaStopsWithoutATrace: it never led, so the heartbeat is another's.
func TestWaitingReplicaStopsWithoutATrace(t *testing.T) {
	instant(t, func(t *testing.T, g *WithT) {
		e := newTurn(newLooking(), foreignLease("leader"))
		e.farewell = func(context.Context) { t.Error("it says farewell") }
		e.start(t)
		time.Sleep(long)
		g.Expect(e.leads()).To(BeFalse())
		e.stop()
		g.Expect(<-e.ended).To(Succeed())
		g.Expect(e.holder()).To(Equal("leader"))
	})
}

// TestFarewellIsSaidBeforeTheLeaseIsFree: whoever leads next finds it said, and
// nobody says it over a successor.
func TestFarewellIsSaidBeforeTheLeaseIsFree(t *testing.T) {
	for t, elect := range check.Cases(t, map[string]bool{"elected": true, "alone": false}) {
		instant(t, func(t *testing.T, g *WithT) {
			s, e := newServer(t), newTurn(newLooking())
			s.release()
			var holders []string
			e.elect = elect
			e.farewell = func(context.Context) {
				g.Expect(s.send(e.fence(), "POST")).To(MatchError(errFenced), "no write follows")
				holders = append(holders, e.holder())
			}
			e.start(t)
			g.Expect(s.send(e.fence(), "POST")).To(Succeed(), "the fence is open until the end")
			e.stop()
			g.Expect(<-e.ended).To(Succeed())
			g.Expect(holders).To(Equal([]string{map[bool]string{true: "this process"}[elect]}), "once")
			g.Expect(s.send(e.fence(), "POST")).To(MatchError(errFenced))
		})
	}
}

func TestNobodyIsElectedBesideAForeignScheduler(t *testing.T) {
	for t, elect := range check.Cases(t, map[string]bool{"with a lease": true, "without election": false}) {
		instant(t, func(t *testing.T, g *WithT) {
			e := newTurn(look(t, stranger("one", "n", "Running")))
			e.elect = elect
			e.take(t)
			time.Sleep(long)
			g.Expect(e.leads()).To(BeFalse())
			g.Expect(e.holder()).To(BeEmpty(), "it does not even stand for election")
			e.vanishes(g, "one")
			g.Expect(e.leads()).To(BeTrue())
			e.stop()
			g.Expect(<-e.ended).To(Succeed())
		})
	}
}

func TestALeaderStopsWhenAForeignSchedulerAppears(t *testing.T) {
	for t, elect := range check.Cases(t, map[string]bool{"with a lease": true, "without election": false}) {
		instant(t, func(t *testing.T, g *WithT) {
			e := newTurn(look(t))
			e.elect = elect
			e.take(t)
			g.Expect(e.leads()).To(BeTrue())
			e.appears(g, stranger("waits", "", "Pending"))
			time.Sleep(long)
			g.Expect(e.ended).NotTo(Receive())
			e.appears(g, stranger("intruder", "n", "Pending"))
			g.Expect(<-e.ended).To(MatchError(ContainSubstring("another scheduler runs in pod ns/intruder,")))
			g.Expect(e.fences).To(HaveLen(1))
			g.Expect(e.fence().isShut()).To(BeTrue())
			g.Expect(e.holder()).To(BeEmpty(), "the lease is free")
		})
	}
}

func TestACandidateStandsBackWhileAForeignSchedulerRuns(t *testing.T) {
	instant(t, func(t *testing.T, g *WithT) {
		e := newTurn(look(t), foreignLease("leader")).take(t)
		time.Sleep(long)
		g.Expect(len(e.client.Actions())).To(BeNumerically(">", 10), "it tries to become leader")
		e.appears(g, stranger("one", "n", "Running"))
		g.Expect(e.String()).To(ContainSubstring("in pod ns/one,"))
		g.Expect(e.client.Tracker().Delete(leaseResource, "ns", "lease")).To(Succeed())
		time.Sleep(long)
		g.Expect(e.holder()).To(BeEmpty())
		g.Expect(e.ended).NotTo(Receive(), "it goes on to wait")
		e.vanishes(g, "one")
		g.Expect(e.leads()).To(BeTrue())
		g.Expect(e.holder()).To(Equal("this process"))
		e.stop()
		g.Expect(<-e.ended).To(Succeed())
	})
}

// TestTheElectedLooksOnceMore: somebody may have come while it waited for its turn
// and was not brought yet.
func TestTheElectedLooksOnceMore(t *testing.T) {
	work := &leader{others: newLooking(stranger("late", "n", "Running")).otherSchedulers}
	NewWithT(t).Expect(work.leadBehind(newFence())(t.Context())).To(MatchError(ContainSubstring("another scheduler runs in pod ns/late,")))
}

func TestAWaitingProcessStopsWhenAsked(t *testing.T) {
	instant(t, func(t *testing.T, g *WithT) {
		e := newTurn(look(t, stranger("one", "n", "Running"))).take(t)
		g.Expect(e.String()).NotTo(BeEmpty())
		e.stop()
		g.Expect(<-e.ended).To(Succeed())
		g.Expect(e.fences).To(BeEmpty())
	})
}

// TestAFaultEndsTheWaiting: not asked to stop, but unable to go on.
func TestAFaultEndsTheWaiting(t *testing.T) {
	instant(t, func(t *testing.T, g *WithT) {
		l, broken, ended := look(t, stranger("one", "n", "Running")), errors.New("the configuration cannot be watched"), make(chan error, 1)
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

// TestAnElectedSchedulerWaitsForAnAnswer: an API server that is slow for a while must not
// make every replica end as soon as it is elected.
func TestAnElectedSchedulerWaitsForAnAnswer(t *testing.T) {
	instant(t, func(t *testing.T, g *WithT) {
		l := newLooking()
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
