package e2e

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/deployment"
)

// thePolicy is the ServiceTypePolicy in a conditionLog.
const thePolicy = "ServiceTypePolicy/" + api.PolicyName

// conditionRecord is one condition of an object from some moment on.
type conditionRecord struct {
	object string
	metav1.Condition
}

func (e conditionRecord) String() string {
	return fmt.Sprintf("%s/%s: %s", e.Status, e.Reason, e.Message)
}

// conditionLog records all conditions in order, and every lease renewal and heartbeat of our
// scheduler. Watches write it, so it misses no condition, however short.
type conditionLog struct {
	mu       sync.Mutex
	entries  []conditionRecord
	sessions []enforcement.Report
	// leaseRenewals are the renewals of the leader Lease by any holder.
	leaseRenewals []time.Time
	// trouble are the errors of watches, and watches that ended by themselves.
	trouble []string
}

// startConditionLog starts a conditionLog.
func (s *scene) startConditionLog() *conditionLog {
	ctx, stop := context.WithCancel(context.WithoutCancel(s.ctx))
	s.Cleanup(stop)

	d := &conditionLog{}
	for _, list := range []client.ObjectList{&api.CardQuotaList{}, &api.ServiceTypePolicyList{}, &coordinationv1.LeaseList{}} {
		var where []client.ListOption
		if _, ok := list.(*coordinationv1.LeaseList); ok {
			where = append(where, client.InNamespace(deployment.Namespace))
		}
		changes := check.Value(s.Watch(ctx, list, where...))(s)
		go d.watchChanges(ctx, changes)
	}

	return d
}

func (d *conditionLog) watchChanges(ctx context.Context, changes watch.Interface) {
	for change := range changes.ResultChan() {
		d.record(change)
	}
	if ctx.Err() == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.trouble = append(d.trouble, "a watch ended")
	}
}

func (d *conditionLog) record(change watch.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()

	if change.Type == watch.Deleted {
		return
	}

	switch object := change.Object.(type) {
	case *api.CardQuota:
		d.recordConditions("CardQuota/"+object.Name, object.Status.Conditions)
	case *api.ServiceTypePolicy:
		d.recordConditions("ServiceTypePolicy/"+object.Name, object.Status.Conditions)
	case *coordinationv1.Lease:
		d.recordLease(object)
	default:
		d.trouble = append(d.trouble, fmt.Sprintf("a watch brought %+v", object))
	}
}

func (d *conditionLog) recordConditions(object string, conditions []metav1.Condition) {
	for _, condition := range conditions {
		now := conditionRecord{object, condition}
		if before, ok := d.lastRecord(object, condition.Type); !ok || before.String() != now.String() {
			d.entries = append(d.entries, now)
		}
	}
}

func (d *conditionLog) recordLease(lease *coordinationv1.Lease) {
	switch report, err := enforcement.ReadReport(lease); {
	case err == nil:
		d.sessions = append(d.sessions, report)
	case lease.Name == enforcement.LeaseName:
		d.trouble = append(d.trouble, err.Error())
	case lease.Name == "volcano" && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "":
		d.leaseRenewals = append(d.leaseRenewals, lease.Spec.RenewTime.Time)
	}
}

func (d *conditionLog) lastRecord(object, kind string) (conditionRecord, bool) {
	for i := len(d.entries) - 1; i >= 0; i-- {
		if d.entries[i].object == object && d.entries[i].Type == kind {
			return d.entries[i], true
		}
	}
	return conditionRecord{}, false
}

// currentCondition returns the current text of a condition, or "".
func (d *conditionLog) currentCondition(object, kind string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e, ok := d.lastRecord(object, kind); ok {
		return e.String()
	}
	return ""
}

// position returns the position of the next record.
func (d *conditionLog) position() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.entries)
}

// conditionsSince returns the records of a condition from a position on.
func (d *conditionLog) conditionsSince(page int, object, kind string) []conditionRecord {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []conditionRecord
	for _, e := range d.entries[page:] {
		if e.object == object && e.Type == kind {
			out = append(out, e)
		}
	}
	return out
}

// sessionsBetween returns the signs of our scheduler's activity between two moments.
func (d *conditionLog) sessionsBetween(from, until time.Time) (signs []string) {
	d.mu.Lock()
	defer d.mu.Unlock()

	within := func(t time.Time) bool { return t.After(from) && t.Before(until) }
	for _, beat := range d.sessions {
		if within(beat.At) {
			signs = append(signs, fmt.Sprintf("%s closed a session at %s", beat.Identity, beat.At))
		}
	}

	for _, lead := range d.leaseRenewals {
		if within(lead) {
			signs = append(signs, fmt.Sprintf("the leader Lease was renewed at %s", lead))
		}
	}

	return signs
}
