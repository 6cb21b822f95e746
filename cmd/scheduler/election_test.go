package main

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	componentbaseconfig "k8s.io/component-base/config"
)

// turn is an election under test.
type turn struct {
	*election
	client *fake.Clientset
	led    chan struct{}
	stop   context.CancelFunc
	ended  chan error
	// usurper, once set, is the lease as the API server has it.
	usurper atomic.Pointer[coordinationv1.Lease]
}

// react stands in for what the fake API lacks: it does not compare versions, while a real one
// answers a stale update with a conflict.
func (e *turn) react(action clienttesting.Action) (bool, runtime.Object, error) {
	usurped := e.usurper.Load()
	switch {
	case usurped == nil:
		return false, nil, nil
	case action.GetVerb() == "get":
		return true, usurped.DeepCopy(), nil
	default:
		return true, nil, apierrors.NewConflict(coordinationv1.Resource("leases"), "lease", errors.New("changed"))
	}
}

// No busy machine uses up these times of an election.
const ampleDeadline, amplePatience = 40 * time.Second, 20 * time.Second

// termsOf are the terms of an election for the Lease ns/lease, with a renew deadline and a lease
// that is longer by patience.
func termsOf(elect bool, deadline, patience time.Duration) componentbaseconfig.LeaderElectionConfiguration {
	return componentbaseconfig.LeaderElectionConfiguration{
		LeaderElect: elect, ResourceNamespace: "ns", ResourceName: "lease",
		LeaseDuration: metav1.Duration{Duration: deadline + patience},
		RenewDeadline: metav1.Duration{Duration: deadline},
		RetryPeriod:   metav1.Duration{Duration: 100 * time.Millisecond},
	}
}

// startTurn begins an election whose times no busy machine uses up; leading does lead.
func startTurn(t *testing.T, lead func(context.Context) error, existing ...*coordinationv1.Lease) *turn {
	t.Helper()
	return startTurnFor(t, ampleDeadline, amplePatience, lead, existing...)
}

// startTurnFor begins one with a renew deadline, and a lease that is longer by patience.
func startTurnFor(t *testing.T, deadline, patience time.Duration, lead func(context.Context) error, existing ...*coordinationv1.Lease) *turn {
	t.Helper()
	client := fake.NewClientset()
	for _, lease := range existing {
		if _, err := client.CoordinationV1().Leases("ns").Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	e := &turn{client: client, led: make(chan struct{}), stop: stop, ended: make(chan error, 1)}
	client.PrependReactor("*", "leases", e.react)
	e.election = &election{
		config:   termsOf(true, deadline, patience),
		client:   client,
		identity: "this process",
		fence:    newFence(),
		lead: func(term context.Context) error {
			close(e.led)
			return lead(term)
		},
	}
	go func() { e.ended <- e.run(ctx) }()
	return e
}

func untilItsEnd(term context.Context) error {
	<-term.Done()
	return nil
}

func (e *turn) holder(t *testing.T) string {
	t.Helper()
	lease, err := e.client.CoordinationV1().Leases("ns").Get(t.Context(), "lease", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func foreignLease(holder string) *coordinationv1.Lease {
	seconds, now := int32(3600), metav1.NowMicro()
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "lease"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now,
		},
	}
}

func TestLeaseIsReleasedOnlyWhenNoWriteIsUnderWay(t *testing.T) {
	g, s := patient(t), newServer(t)
	e := startTurn(t, untilItsEnd)
	<-e.led
	holder := e.holder(t)
	g.Expect(holder).NotTo(BeEmpty())
	transport := e.fence.wrap(http.DefaultTransport)
	sent := make(chan error, 1)
	go func() { sent <- s.send(transport, "POST") }()
	<-s.arrived

	e.stop()
	g.Eventually(e.fence.isShut).Should(BeTrue())
	g.Expect(s.send(transport, "POST")).To(MatchError(errFenced))
	g.Consistently(func() string { return e.holder(t) }, "300ms").Should(Equal(holder))
	s.release()
	g.Expect(<-sent).To(Succeed())
	g.Expect(<-e.ended).To(Succeed())
	g.Expect(e.holder(t)).To(BeEmpty())
	g.Expect(s.send(transport, "POST")).To(MatchError(errFenced))
}

func TestLeaseRunsOutWhenAWriteDoesNotEnd(t *testing.T) {
	g, s := NewWithT(t), newServer(t)
	e := startTurnFor(t, 40*time.Second, time.Second, untilItsEnd)
	<-e.led
	go func() { _ = s.send(e.fence.wrap(http.DefaultTransport), "POST") }()
	<-s.arrived
	e.stop()
	g.Expect(<-e.ended).To(MatchError(errNotDrained))
	g.Expect(e.holder(t)).NotTo(BeEmpty())
}

func TestUsurperEndsTheTermAtOnce(t *testing.T) {
	g, s := NewWithT(t), newServer(t)
	s.release()
	e := startTurn(t, untilItsEnd)
	<-e.led
	transport := e.fence.wrap(http.DefaultTransport)
	g.Expect(s.send(transport, "POST")).To(Succeed())
	e.usurper.Store(foreignLease("usurper"))
	began := time.Now()
	g.Expect(<-e.ended).To(MatchError(errLeaseLost))
	g.Expect(time.Since(began)).To(BeNumerically("<", e.config.RenewDeadline.Duration/2), "client-go alone takes its whole deadline")
	g.Expect(s.send(transport, "POST")).To(MatchError(errFenced))
	g.Expect(e.holder(t)).To(Equal("usurper"))
}

func TestFailedStartFreesTheLease(t *testing.T) {
	g := NewWithT(t)
	broken := errors.New("no queues")
	e := startTurn(t, func(context.Context) error { return broken })
	g.Expect(<-e.ended).To(MatchError(broken))
	g.Expect(e.holder(t)).To(BeEmpty())
}

func TestWaitingReplicaStopsWithoutATrace(t *testing.T) {
	g := NewWithT(t)
	e := startTurn(t, untilItsEnd, foreignLease("leader"))
	g.Consistently(e.led, "500ms").ShouldNot(BeClosed())
	e.stop()
	g.Expect(<-e.ended).To(Succeed())
	g.Expect(e.holder(t)).To(Equal("leader"))
}

func TestWithoutElectionTheFenceIsOpenUntilTheEnd(t *testing.T) {
	g, s := NewWithT(t), newServer(t)
	s.release()
	ctx, stop := context.WithCancel(t.Context())
	led, ended := make(chan struct{}), make(chan error, 1)
	e := &election{fence: newFence(), lead: func(term context.Context) error { close(led); return untilItsEnd(term) }}
	go func() { ended <- e.run(ctx) }()
	<-led
	transport := e.fence.wrap(http.DefaultTransport)
	g.Expect(s.send(transport, "POST")).To(Succeed())
	stop()
	g.Expect(<-ended).To(Succeed())
	g.Expect(s.send(transport, "POST")).To(MatchError(errFenced))
}
