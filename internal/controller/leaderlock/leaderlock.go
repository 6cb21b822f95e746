// Package leaderlock is the Lease by which the replicas of the operator elect their leader.
package leaderlock

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/leaderelection"

	"cardquota.dev/operator/internal/enforcement"
)

// renewDeadline is controller-runtime's default: how long a leader that cannot renew its Lease leads on.
const renewDeadline = 10 * time.Second

// New returns the Lease of the operator, with the version of the leader as a label. It reports
// no events until it has a recorder, which only a manager has.
func New(config *rest.Config, namespace string) (*resourcelock.LeaseLock, error) {
	lock, err := leaderelection.NewResourceLock(config, noRecorder{}, leaderelection.Options{
		LeaderElection:          true,
		LeaderElectionID:        enforcement.OperatorLeaseName,
		LeaderElectionNamespace: namespace,
		RenewDeadline:           renewDeadline,
		LeaderLabels:            enforcement.OperatorLeaseLabels(),
	})
	if err != nil {
		return nil, fmt.Errorf("make the lock of the Lease: %w", err)
	}

	lease, ok := lock.(*resourcelock.LeaseLock)
	if !ok {
		return nil, fmt.Errorf("the lock of the Lease is %T", lock)
	}

	// client-go's lock panics when it adds its labels to a Lease that has none.
	lease.Client = leasesWithLabels{lease.Client}
	return lease, nil
}

// noRecorder gives a lock no recorder.
type noRecorder struct{}

func (noRecorder) GetEventRecorderFor(string) record.EventRecorder { return nil }

// leasesWithLabels reads Leases so that they have labels, be it none. client-go's LeaseLock (v0.34) writes
// its labels into the map of the Lease that it has read, and panics if that map is nil: the Lease of an
// operator that wrote no labels, or from which a user removed them.
type leasesWithLabels struct {
	coordinationclient.LeasesGetter
}

// Leases implements LeasesGetter.
func (l leasesWithLabels) Leases(namespace string) coordinationclient.LeaseInterface {
	return leaseReader{l.LeasesGetter.Leases(namespace)}
}

type leaseReader struct {
	coordinationclient.LeaseInterface
}

// Get returns a Lease with labels, be it none, so that client-go can write into them.
func (r leaseReader) Get(ctx context.Context, name string, options metav1.GetOptions) (*coordinationv1.Lease, error) {
	lease, err := r.LeaseInterface.Get(ctx, name, options)
	if err == nil && lease.Labels == nil {
		lease.Labels = map[string]string{}
	}
	return lease, err
}
