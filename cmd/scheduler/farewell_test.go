package main

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes/fake"
)

// TestFarewellIsSaidBeforeTheLeaseIsFree: whoever leads next finds it said, and
// nobody says it over a successor.
func TestFarewellIsSaidBeforeTheLeaseIsFree(t *testing.T) {
	for name, elected := range map[string]bool{"elected": true, "alone": false} {
		t.Run(name, func(t *testing.T) {
			g, s := patient(t), newServer(t)
			e := &turn{client: fake.NewClientset(), led: make(chan struct{})}
			var holders []string
			fence := newFence()
			e.election = &election{
				config: termsOf(elected, ampleDeadline, amplePatience),
				client: e.client, identity: "this process", fence: fence,
				lead: func(term context.Context) error { close(e.led); return untilItsEnd(term) },
				farewell: func(context.Context) {
					g.Expect(s.send(fence.wrap(nil), "POST")).To(MatchError(errFenced), "no write follows")
					if elected {
						holders = append(holders, e.holder(t))
					} else {
						holders = append(holders, "this process")
					}
				},
			}
			ctx, stop := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- e.run(ctx) }()
			<-e.led
			stop()
			g.Expect(<-ended).To(Succeed())
			g.Expect(holders).To(Equal([]string{"this process"}), "once")
		})
	}
}

// TestWhoNeverLedSaysNoFarewell: the heartbeat is another's.
func TestWhoNeverLedSaysNoFarewell(t *testing.T) {
	g := patient(t)
	client := fake.NewClientset(foreignLease("another"))
	e := &election{
		config: termsOf(true, ampleDeadline, amplePatience),
		client: client, identity: "this process", fence: newFence(), lead: untilItsEnd,
		farewell: func(context.Context) { t.Error("it says farewell") },
	}
	ctx, stop := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer stop()
	g.Expect(e.run(ctx)).To(Succeed())
}
