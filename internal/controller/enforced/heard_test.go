package enforced

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/heartbeat"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/workload"
)

const system = "volcano-system"

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// written is a policy whose configuration has been written.
func written(hash string) *v1alpha1.ServiceTypePolicy {
	return &v1alpha1.ServiceTypePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.PolicyName},
		Status: v1alpha1.ServiceTypePolicyStatus{ConfigHash: hash, Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionConfigSynced, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSynced},
		}},
	}
}

func beat(at time.Time) *coordinationv1.Lease {
	return heartbeat.Report{Identity: "ours_1", Version: "v1", ConfigHash: "aa", At: at}.Lease(system)
}

// everythingRead is what was heard of a cluster in order.
func everythingRead() *heard {
	h := &heard{foreign: map[string]types.UID{}, counted: true, namespace: system, leasesRead: true}
	h.setPolicy(written("aa"), false, true, noon)
	h.setLease(beat(noon.Add(-time.Second)), false, true, noon)
	return h
}

func TestFactsWaitForEverything(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		change func(*heard)
		ready  bool
	}{
		"everything read":                {func(*heard) {}, true},
		"pods not counted yet":           {func(h *heard) { h.counted = false }, false},
		"leases not read yet":            {func(h *heard) { h.leasesRead = false }, false},
		"no policy: nothing to wait for": {func(h *heard) { h.policy, h.counted, h.leasesRead = nil, false, false }, true},
	}) {
		h := everythingRead()
		tc.change(h)
		_, ready := h.facts(noon)
		check.That(t, ready == tc.ready, "ready is %t", ready)
	}
}

func TestHeardPolicy(t *testing.T) {
	h := everythingRead()
	f, _ := h.facts(noon)
	check.That(t, f.WantedSince.IsZero() && f.NotConfigured == "" && f.WantedHash == "aa", "a policy from before the operator: %+v", f)
	h.setPolicy(written("bb"), false, false, noon)
	h.setPolicy(written("bb"), false, false, noon.Add(time.Minute))
	f, _ = h.facts(noon)
	check.That(t, f.WantedSince.Equal(noon) && f.WantedHash == "bb", "written at noon, wanted %s since %s", f.WantedHash, f.WantedSince)
	failed := written("bb")
	failed.Status.Conditions[0].Status, failed.Status.Conditions[0].Message = metav1.ConditionFalse, "no key"
	h.setPolicy(failed, false, false, noon)
	f, _ = h.facts(noon)
	check.That(t, f.NotConfigured == "no key", "not configured because of %q", f.NotConfigured)
	failed.Status.Conditions[0].Reason = v1alpha1.ReasonInvalidPolicy
	f, _ = h.facts(noon)
	check.That(t, f.NotConfigured == "" && f.WantedHash == "bb",
		"a refused spec leaves what was written in force, not %q with hash %s", f.NotConfigured, f.WantedHash)
	h.setPolicy(&v1alpha1.ServiceTypePolicy{}, false, false, noon)
	f, _ = h.facts(noon)
	check.That(t, strings.Contains(f.NotConfigured, "not been worked on"), "a policy without status: %q", f.NotConfigured)
	h.setPolicy(failed, true, false, noon)
	f, _ = h.facts(noon)
	check.That(t, !f.Policy, "a policy that is gone is still there")
}

func TestHeardHeartbeat(t *testing.T) {
	h := everythingRead()
	arrived := func(want time.Time) {
		t.Helper()
		f, _ := h.facts(noon)
		check.That(t, f.Heartbeat != nil && f.Heard.Equal(want), "heard at %s, want %s: %+v", f.Heard, want, f.Heartbeat)
	}
	arrived(time.Time{})
	h.setLease(beat(noon), false, false, noon.Add(time.Second))
	arrived(noon.Add(time.Second))
	// Somebody touched the Lease without renewing it.
	h.setLease(beat(noon), false, false, noon.Add(9*time.Second))
	arrived(noon.Add(time.Second))

	h.setLease(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: heartbeat.LeaseName}}, false, false, noon)
	if f, _ := h.facts(noon); f.Heartbeat != nil || !strings.Contains(f.Unreadable, "is no heartbeat") {
		t.Errorf("an empty Lease: %+v", f)
	}
	h.setLease(beat(noon), false, false, noon)
	arrived(noon)
	h.setLease(beat(noon), true, false, noon)
	if f, _ := h.facts(noon); f.Heartbeat != nil || f.Unreadable != "" {
		t.Errorf("a Lease that is gone: %+v", f)
	}
}

func TestHeardLeader(t *testing.T) {
	lease := func(change func(*coordinationv1.LeaseSpec)) *coordinationv1.Lease {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: leaderLease}, Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("stock_1"), LeaseDurationSeconds: ptr.To(int32(15)),
			AcquireTime: &metav1.MicroTime{Time: noon.Add(-time.Hour)}, RenewTime: &metav1.MicroTime{Time: noon},
		}}
		change(&l.Spec)
		return l
	}
	held := &enforcement.Leader{Identity: "stock_1", Acquired: noon.Add(-time.Hour), Until: noon.Add(15 * time.Second)}
	for t, tc := range check.Cases(t, map[string]struct {
		lease *coordinationv1.Lease
		gone  bool
		want  *enforcement.Leader
	}{
		"held":          {lease(func(*coordinationv1.LeaseSpec) {}), false, held},
		"released":      {lease(func(s *coordinationv1.LeaseSpec) { s.HolderIdentity = ptr.To("") }), false, nil},
		"never held":    {lease(func(s *coordinationv1.LeaseSpec) { *s = coordinationv1.LeaseSpec{} }), false, nil},
		"gone":          {lease(func(*coordinationv1.LeaseSpec) {}), true, nil},
		"without terms": {lease(func(s *coordinationv1.LeaseSpec) { s.LeaseDurationSeconds = nil }), false, nil},
	}) {
		h := everythingRead()
		h.setLease(tc.lease, tc.gone, false, noon)
		f, _ := h.facts(noon)
		check.Equal(t, "leader", tc.want, f.Leader)
	}
}

func TestHeardForeignSchedulers(t *testing.T) {
	h := everythingRead()
	pod := func(namespace, name, app, node string, phase corev1.PodPhase) *corev1.Pod {
		return builder.Pod(namespace, name).Label("app", app).Node(node).Phase(phase).Obj()
	}
	for _, p := range []*corev1.Pod{
		pod(system, "z", workload.StockSchedulerApp, "n", corev1.PodRunning),
		pod(system, "a", workload.StockSchedulerApp, "n", corev1.PodPending),
		pod(system, "no-node", workload.StockSchedulerApp, "", corev1.PodPending),
		pod(system, "ended", workload.StockSchedulerApp, "n", corev1.PodFailed),
		pod(system, "controllers", "volcano-controller", "n", corev1.PodRunning),
		pod(system+"-2", "elsewhere", workload.StockSchedulerApp, "n", corev1.PodRunning),
	} {
		h.setPod(p, false)
	}
	foreign := func(want ...string) {
		t.Helper()
		f, _ := h.facts(noon)
		var names []string
		for _, pod := range f.Foreign {
			names = append(names, pod.Name)
		}
		check.That(t, cmp.Equal(names, want), "foreign are %v, want %v", names, want)
	}
	foreign(system+"/a", system+"/z")
	h.setPod(pod(system, "a", workload.StockSchedulerApp, "n", corev1.PodRunning), true)
	h.setPod(pod(system, "z", workload.StockSchedulerApp, "n", corev1.PodSucceeded), false)
	foreign()
}

// TestReplicasOfASwappedDeployment: in Volcano's own Deployment with our image
// every replica bears the label of the stock scheduler.
func TestReplicasOfASwappedDeployment(t *testing.T) {
	h := everythingRead()
	set := func(name, template string, gone bool) {
		h.setPod(builder.Pod(system, name).Label("app", workload.StockSchedulerApp).Owner("apps/v1", "ReplicaSet", template).Node("n").Obj(), gone)
	}
	judged := func(want string) {
		t.Helper()
		f, _ := h.facts(noon)
		got := enforcement.Judge(f)
		check.That(t, got.Reason == want, "%s: %s, want %s", got.Reason, got.Message, want)
	}
	set("ours", "swapped", false)
	judged(v1alpha1.ReasonEnforced)
	set("waits", "swapped", false)
	judged(v1alpha1.ReasonEnforced)
	set("ours", "swapped", true)
	judged(v1alpha1.ReasonEnforced) // its report still proves something, and an equal follows
	set("stock", "before", false)
	judged(v1alpha1.ReasonSecondScheduler)
	set("stock", "before", true)
	other := beat(noon)
	other.Spec.HolderIdentity = ptr.To("elsewhere_2")
	h.setLease(other, false, false, noon)
	judged(v1alpha1.ReasonSecondScheduler) // the equals of who gave the heartbeat before
}
