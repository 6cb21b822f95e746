package leader

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"cardquota.dev/operator/internal/testing/check"
)

// TestLeaseIsReleasedOnlyWhenNoWriteIsInFlight: when a leader stops, a write that the API server has not
// answered may still place a pod. If another replica led by then, both would place pods. So the leader keeps
// the Lease until the write ends, and begins no other write: all its requests pass a fence, which is closed
// then. The write may take 20 seconds (writeEnds).
func TestLeaseIsReleasedOnlyWhenNoWriteIsInFlight(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g *WithT) {
		server := newFakeAPIServer(t)
		e := newElectionFixture(newOtherSchedulersFixture()).startElection(t)
		g.Expect(e.holder()).To(Equal("this process"))

		sent := make(chan error, 1)
		go func() { sent <- server.send(e.fence(), "POST") }()
		<-server.arrived

		e.stop()
		time.Sleep(e.writeEnds / 2)
		g.Expect(e.fence().isClosed()).To(BeTrue())
		g.Expect(server.send(e.fence(), "POST")).To(MatchError(errFenced))
		g.Expect(e.holder()).To(Equal("this process"))

		server.answerAll()
		g.Expect(<-sent).To(Succeed())
		g.Expect(<-e.ended).To(Succeed())
		g.Expect(e.holder()).To(BeEmpty())
		g.Expect(server.send(e.fence(), "POST")).To(MatchError(errFenced))
	})
}

// TestLeaseIsNotReleasedWhileAWriteHangs: a leader stops while the API server does not answer a write that it has sent
// through its fence. The leader waits for the answer for a time, and then ends with an error. It does not release the
// Lease, so that no other replica leads before it expires: the write may still take effect.
func TestLeaseIsNotReleasedWhileAWriteHangs(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g *WithT) {
		server := newFakeAPIServer(t)
		e := newElectionFixture(newOtherSchedulersFixture()).startElection(t)
		go func() { _ = server.send(e.fence(), "POST") }()
		<-server.arrived

		e.stop()
		g.Expect(<-e.ended).To(MatchError(errWriteInFlight))
		g.Expect(e.holder()).To(Equal("this process"))
	})
}

// TestAnotherHolderEndsTheTermAtOnce: another client has taken the Lease. client-go alone would try to renew it for its
// whole deadline of 40 seconds, in which two schedulers could place pods. Our scheduler ends within 10 seconds, and the
// fence, which all its writes pass, refuses a write.
func TestAnotherHolderEndsTheTermAtOnce(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g *WithT) {
		server := newFakeAPIServer(t)
		e := newElectionFixture(newOtherSchedulersFixture()).startElection(t)
		server.answerAll()
		g.Expect(server.send(e.fence(), "POST")).To(Succeed())

		e.takenLease.Store(leaseOf("another"))
		began := time.Now()
		g.Expect(<-e.ended).To(MatchError(errLeaseLost))
		g.Expect(time.Since(began)).To(BeNumerically("<", 10*time.Second))
		g.Expect(server.send(e.fence(), "POST")).To(MatchError(errFenced))
		g.Expect(e.holder()).To(Equal("another"))
	})
}

// TestFailedStartFreesTheLease: a replica that is elected and then cannot start its work returns the error and
// releases the Lease, so that another one leads at once.
func TestFailedStartFreesTheLease(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g *WithT) {
		broken := errors.New("no queues")
		e := newElectionFixture(newOtherSchedulersFixture())
		e.lead = func(context.Context) error { return broken }

		g.Expect(<-e.startElection(t).ended).To(MatchError(broken))
		g.Expect(e.holder()).To(BeEmpty())
	})
}

// TestAReplicaThatNeverLedWritesNoFinalHeartbeat: the heartbeat belongs to the leader. A replica waits for the Lease
// and is stopped. It must not write a final heartbeat, which says that the scheduler has ended, and it leaves the Lease
// to its holder.
func TestAReplicaThatNeverLedWritesNoFinalHeartbeat(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g *WithT) {
		e := newElectionFixture(newOtherSchedulersFixture(), leaseOf("leader"))
		e.beforeRelease = func(context.Context) { t.Error("the final heartbeat is written") }
		e.startElection(t)
		time.Sleep(long)
		g.Expect(e.leads()).To(BeFalse())

		e.stop()
		g.Expect(<-e.ended).To(Succeed())
		g.Expect(e.holder()).To(Equal("leader"))
	})
}

// TestFinalHeartbeatPrecedesTheReleaseOfTheLease: a leader that stops writes a final heartbeat, so that the operator
// need not wait until the last one is stale. The leader writes it once, after its last other write, and while it still
// has the Lease. All other writes pass a fence, which is closed by then. A final heartbeat that is written later could
// overwrite the heartbeat of the next leader. Without election there is no Lease, so it has no holder.
func TestFinalHeartbeatPrecedesTheReleaseOfTheLease(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		elect      bool
		wantHolder string
	}{
		"with a Lease":     {elect: true, wantHolder: "this process"},
		"without election": {elect: false, wantHolder: ""},
	}) {
		inFakeTime(t, func(t *testing.T, g *WithT) {
			server := newFakeAPIServer(t)
			server.answerAll()
			e := newElectionFixture(newOtherSchedulersFixture())
			e.elect = tc.elect
			var holders []string
			e.beforeRelease = func(context.Context) {
				g.Expect(server.send(e.fence(), "POST")).To(MatchError(errFenced), "no write follows")
				holders = append(holders, e.holder())
			}

			e.startElection(t)
			g.Expect(server.send(e.fence(), "POST")).To(Succeed(), "the fence is open until the end")
			e.stop()
			g.Expect(<-e.ended).To(Succeed())
			g.Expect(holders).To(Equal([]string{tc.wantHolder}), "holder of the Lease at the final heartbeat")
			g.Expect(server.send(e.fence(), "POST")).To(MatchError(errFenced))
		})
	}
}

// TestNoElectionWhileAnotherSchedulerRuns: pod "one" of Volcano's own scheduler runs, which places pods without quotas.
// Two schedulers must not place pods at the same time, so ours waits and does not even take the Lease. It leads when
// that pod is gone. This is also true without election, when there is no Lease.
func TestNoElectionWhileAnotherSchedulerRuns(t *testing.T) {
	for t, elect := range check.Cases(t, map[string]bool{"with a Lease": true, "without election": false}) {
		inFakeTime(t, func(t *testing.T, g *WithT) {
			e := newElectionFixture(newOtherSchedulersFixture(otherSchedulerPod("one", "n", "Running")))
			e.elect = elect
			e.startRunElections(t)
			time.Sleep(long)
			g.Expect(e.leads()).To(BeFalse())
			g.Expect(e.holder()).To(BeEmpty())

			e.deletePod(g, "one")
			g.Expect(e.leads()).To(BeTrue())
			e.stop()
			g.Expect(<-e.ended).To(Succeed())
		})
	}
}

// TestLeaderStopsWhenAnotherSchedulerAppears: our scheduler leads when an administrator starts Volcano's own. A pod
// without a node cannot place pods yet, so ours goes on. When pod "other" has a node, ours ends with an error that
// names it, and frees the Lease. Its fence, which all writes pass, is closed. This is also true without election, when
// there is no Lease.
func TestLeaderStopsWhenAnotherSchedulerAppears(t *testing.T) {
	for t, elect := range check.Cases(t, map[string]bool{"with a Lease": true, "without election": false}) {
		inFakeTime(t, func(t *testing.T, g *WithT) {
			e := newElectionFixture(newOtherSchedulersFixture())
			e.elect = elect
			e.startRunElections(t)
			g.Expect(e.leads()).To(BeTrue())

			e.addPod(g, otherSchedulerPod("without-node", "", "Pending"))
			time.Sleep(long)
			g.Expect(e.ended).NotTo(Receive())

			e.addPod(g, otherSchedulerPod("other", "n", "Pending"))
			g.Expect(<-e.ended).To(MatchError(ContainSubstring("another scheduler runs in pod ns/other,")))
			g.Expect(e.fences).To(HaveLen(1)) // each election makes one: ours began no second election
			g.Expect(e.fence().isClosed()).To(BeTrue())
			g.Expect(e.holder()).To(BeEmpty())
		})
	}
}

// TestACandidateWithdrawsWhileAnotherSchedulerRuns: a replica tries every 2 seconds to take the Lease that "leader"
// has. When pod "one" of Volcano's own scheduler runs, the replica stops trying. It does not take the Lease even when
// the Lease is deleted. It leads when the pod is gone.
func TestACandidateWithdrawsWhileAnotherSchedulerRuns(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g *WithT) {
		e := newElectionFixture(newOtherSchedulersFixture(), leaseOf("leader")).startRunElections(t)
		time.Sleep(long)
		g.Expect(len(e.client.Actions())).To(BeNumerically(">", 10), "the replica tries to take the Lease")

		e.addPod(g, otherSchedulerPod("one", "n", "Running"))
		g.Expect(e.String()).To(ContainSubstring("in pod ns/one,"), "message while it waits")
		g.Expect(e.client.Tracker().Delete(leaseResource, "ns", "lease")).To(Succeed())
		time.Sleep(long)
		g.Expect(e.holder()).To(BeEmpty())
		g.Expect(e.ended).NotTo(Receive(), "the replica goes on to wait")

		e.deletePod(g, "one")
		g.Expect(e.leads()).To(BeTrue())
		g.Expect(e.holder()).To(Equal("this process"))
		e.stop()
		g.Expect(<-e.ended).To(Succeed())
	})
}

// TestLeaderChecksForOtherSchedulersBeforeItStarts: Volcano's own scheduler may have started while ours waited for the
// Lease, just after ours listed the pods of schedulers last. So a new leader lists them again before it places any pod.
// Here it finds pod "late", and ends with an error that names it.
func TestLeaderChecksForOtherSchedulersBeforeItStarts(t *testing.T) {
	work := &Candidate{Others: newOtherSchedulersFixture(otherSchedulerPod("late", "n", "Running")).OtherSchedulers}
	check.Says(t, work.leadBehind(newFence())(t.Context()), "another scheduler runs in pod ns/late,")
}

// TestWaitingProcessStopsOnSignal: a scheduler that waits because another one runs, pod "one", ends without an
// error when Kubernetes stops it, and has begun no election. While it waits it has a message for /readyz, and
// there is no fence, which each election makes.
func TestWaitingProcessStopsOnSignal(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g *WithT) {
		e := newElectionFixture(newOtherSchedulersFixture(otherSchedulerPod("one", "n", "Running"))).startRunElections(t)
		g.Expect(e.String()).NotTo(BeEmpty(), "message while it waits")
		e.stop()
		g.Expect(<-e.ended).To(Succeed())
		g.Expect(e.fences).To(BeEmpty(), "elections")
	})
}

// TestErrorEndsTheWaiting: another part of the process fails while the scheduler waits for pod "one" to end. The
// process ends with that error, since no signal stopped it.
func TestErrorEndsTheWaiting(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g *WithT) {
		others := newOtherSchedulersFixture(otherSchedulerPod("one", "n", "Running"))
		broken := errors.New("the configuration cannot be watched")
		ended := make(chan error, 1)
		ctx, end := context.WithCancelCause(t.Context())
		go func() { ended <- runElections(ctx, others.OtherSchedulers, nil) }() // nil, since no election begins
		synctest.Wait()
		g.Expect(others.String()).NotTo(BeEmpty(), "message while it waits")

		end(broken)
		g.Expect(<-ended).To(MatchError(broken))
	})
}

// TestLeaderWaitsForTheAPIServer: an elected replica lists the pods of other schedulers before it places any. If the
// API server does not answer, it tries again until its term ends, a minute here. Else every replica would end as soon
// as it is elected. Then the same check, without the end of a term, succeeds when the API server answers after another
// minute.
func TestLeaderWaitsForTheAPIServer(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g *WithT) {
		others := newOtherSchedulersFixture()
		slow := errors.New("etcdserver: request timed out")
		others.trouble.Store(&slow)
		work := &Candidate{Others: others.OtherSchedulers}
		term, end := context.WithTimeout(t.Context(), long)
		defer end()

		began := time.Now()
		g.Expect(work.leadBehind(newFence())(term)).To(Succeed())
		g.Expect(time.Since(began)).To(Equal(long), "until the term ends")

		time.AfterFunc(long, func() { others.trouble.Store(nil) })
		g.Expect(others.confirmNone(t.Context())).To(Succeed())
		g.Expect(time.Since(began)).To(BeNumerically("~", 2*long, 2*lookupInterval), "until the API server answers")
	})
}
