package enforced

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/heartbeat"
	"cardquota.dev/operator/internal/workload"
)

// leaderLease is the Lease by which Volcano's schedulers, ours and the stock
// one, elect their leader.
const leaderLease = "volcano"

// heard is everything that was heard last.
type heard struct {
	// namespace is the scheduler's, volcano that of Volcano's programs.
	namespace, volcano string
	policy             *v1alpha1.ServiceTypePolicy
	// hashSince is when the hash of the policy's status was seen to change.
	hashSince time.Time
	// foreign are the pods of other schedulers in all namespaces, with their
	// controllers.
	foreign map[string]types.UID
	// host is the controller of the pod among them that gave the reports of an
	// identity. It is remembered, for the pod goes before its replicas lead.
	host struct {
		identity   string
		controller types.UID
	}
	// counted tells that bypasses are known.
	counted  bool
	bypasses []enforcement.Bypass

	// leasesRead tells that the Leases below were read, or cannot be.
	leasesRead bool
	report     *heartbeat.Report
	// wrong is why the heartbeat's Lease is none of ours, unread why it could not
	// be read.
	wrong, unread string
	at            time.Time // of the report's arrival
	leader        *enforcement.Leader
}

func (h *heard) setPolicy(p *v1alpha1.ServiceTypePolicy, gone, initial bool, now time.Time) {
	before := ""
	if h.policy != nil {
		before = h.policy.Status.ConfigHash
	}
	if h.policy = p; gone {
		h.policy, h.hashSince = nil, time.Time{}
	} else if !initial && p.Status.ConfigHash != before {
		h.hashSince = now
	}
}

// isForeign tells whether a pod runs another scheduler, or is about to.
func isForeign(pod *corev1.Pod) bool {
	return pod.Labels[workload.StockSchedulerLabel] == workload.StockSchedulerApp && workload.AtWork(pod)
}

func podName(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

func (h *heard) setPod(pod *corev1.Pod, gone bool) {
	if !gone && isForeign(pod) {
		h.foreign[podName(pod)] = ""
		if owner := metav1.GetControllerOf(pod); owner != nil {
			h.foreign[podName(pod)] = owner.UID
		}
	} else {
		delete(h.foreign, podName(pod))
	}
	h.settleHost()
}

// setLease notes what a Lease says. initial tells that it was there before the
// watch, so that nobody knows since when.
func (h *heard) setLease(lease *coordinationv1.Lease, gone, initial bool, now time.Time) {
	switch {
	case lease.Name == heartbeat.LeaseName && gone:
		h.report, h.wrong, h.at = nil, "", time.Time{}
	case lease.Name == heartbeat.LeaseName:
		report, err := heartbeat.Read(lease)
		if err != nil {
			h.report, h.wrong, h.at = nil, err.Error(), time.Time{}
			return
		}
		if !initial && (h.report == nil || !h.report.At.Equal(report.At)) {
			h.at = now
		}
		h.report, h.wrong = &report, ""
		h.settleHost()
	case lease.Name == leaderLease:
		h.leader = nil
		if !gone {
			h.leader = leaderOf(lease)
		}
	}
}

// leaderOf reads who holds the leader Lease, nil for nobody.
func leaderOf(lease *coordinationv1.Lease) *enforcement.Leader {
	spec := lease.Spec
	if spec.HolderIdentity == nil || *spec.HolderIdentity == "" || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		return nil
	}
	leader := &enforcement.Leader{
		Identity: *spec.HolderIdentity,
		Until:    spec.RenewTime.Add(time.Duration(*spec.LeaseDurationSeconds) * time.Second),
	}
	if spec.AcquireTime != nil {
		leader.Acquired = spec.AcquireTime.Time
	}
	return leader
}

// facts puts together what is judged. It is false while something was never
// read.
func (h *heard) facts(now time.Time) (enforcement.Facts, bool) {
	if h.policy == nil {
		return enforcement.Facts{Now: now, Bypass: h.bypasses}, true
	}
	if !h.counted || !h.leasesRead {
		return enforcement.Facts{}, false
	}
	facts := enforcement.Facts{
		Now: now, Policy: true, Namespace: h.namespace,
		WantedHash: h.policy.Status.ConfigHash, WantedSince: h.hashSince, NotConfigured: notConfigured(h.policy),
		Heartbeat: h.report, Unreadable: cmp.Or(h.wrong, h.unread), Heard: h.at, Leader: h.leader, Bypass: h.bypasses,
	}
	for _, name := range slices.Sorted(maps.Keys(h.foreign)) {
		if h.counts(name) {
			facts.Foreign = append(facts.Foreign, enforcement.ForeignPod{Name: name, Owner: h.foreign[name]})
		}
	}
	if h.report != nil && h.host.identity == h.report.Identity {
		facts.Host = h.host.controller
	}
	return facts, true
}

// counts tells whether a pod, namespace/name, may run another scheduler. One
// elsewhere is a tenant's: a label must not be able to stop anything.
func (h *heard) counts(pod string) bool {
	in, _, _ := strings.Cut(pod, "/")
	return in == h.namespace || in == h.volcano
}

// settleHost notes the controller of the pod that gives the heartbeat, as long
// as that pod is there.
func (h *heard) settleHost() {
	if h.report == nil {
		return
	}
	if h.host.identity != h.report.Identity {
		h.host.identity, h.host.controller = h.report.Identity, ""
	}
	for name, owner := range h.foreign {
		if h.counts(name) && (enforcement.ForeignPod{Name: name}).Gives(*h.report) {
			h.host.controller = owner
		}
	}
}

// notConfigured is why the ConfigMap does not say what is in force. A refused
// spec is not in force, and what was written before it is still proven by its
// hash.
func notConfigured(p *v1alpha1.ServiceTypePolicy) string {
	switch synced := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionConfigSynced); {
	case synced == nil:
		return "the policy has not been worked on yet"
	case synced.Status != metav1.ConditionTrue && synced.Reason != v1alpha1.ReasonInvalidPolicy:
		return synced.Message
	default:
		return ""
	}
}
