package servicetypepolicy

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/workload"
)

const system = "volcano-system"

// bypasses is the last count of pods that bypass the scheduler.
type bypasses struct {
	uncounted bool
	pods      []enforcement.Bypass
}

func (b *bypasses) Bypasses() ([]enforcement.Bypass, bool) { return b.pods, !b.uncounted }

func (b *bypasses) PolicyForecast() (*v1alpha1.PolicyForecast, bool) { return nil, !b.uncounted }

func (*bypasses) Changed() <-chan event.TypedGenericEvent[string] { return nil }

// evidenceScene is what the operator sees of a scheduler, and its evaluation of condition Enforced.
type evidenceScene struct {
	*testing.T
	client client.Client
	evidence
	lastCount bypasses
	policy    *v1alpha1.ServiceTypePolicy
	// hash is that of the configuration that the operator wrote. notConfigured says why there is none.
	hash, notConfigured string
	now                 time.Time
}

// newEnforcedScene is a cluster at noon whose quotas are enforced: scheduler ours_1 reported by its heartbeat a
// second ago that it runs with configuration "aa", which is the one that the operator wrote.
func newEnforcedScene(t *testing.T) *evidenceScene {
	api := fake.NewClientBuilder().WithScheme(builder.Scheme(t, corev1.AddToScheme, coordinationv1.AddToScheme)).Build()
	s := &evidenceScene{T: t, client: api, now: noon, hash: "aa", policy: &v1alpha1.ServiceTypePolicy{}}
	s.policy.Status.ConfigHash = "aa"
	s.evidence = evidence{
		cached: api, live: api, schedulerNamespace: system, volcanoNamespace: system, bypasses: &s.lastCount, metric: newEnforcedMetric(),
	}
	s.writeHeartbeat("ours_1", noon.Add(-time.Second))
	return s
}

// replace creates an object, or replaces it.
func (s *evidenceScene) replace(object client.Object) {
	_ = s.client.Delete(s.Context(), object)
	object.SetResourceVersion("")
	check.NoError(s.T, s.client.Create(s.Context(), object))
}

// writeHeartbeat writes the heartbeat of a scheduler with configuration "aa".
func (s *evidenceScene) writeHeartbeat(identity string, at time.Time) {
	s.replace(enforcement.Report{Identity: identity, At: at, Version: "v1", ConfigHash: "aa"}.Lease(system))
}

func (s *evidenceScene) evaluate() policy.Enforcement {
	return check.Value(s.evaluateEnforcement(context.Background(), s.policy, s.hash, s.notConfigured, s.now))(s.T)
}

// expectCondition evaluates condition Enforced, and compares "status/reason" and parts of the message.
func (s *evidenceScene) expectCondition(when, want string, parts ...string) {
	got := s.evaluate()
	check.Equal(s.T, when, want, string(got.Status)+"/"+got.Reason)
	check.Contains(s.T, when, got.Message, parts...)
}

// TestEnforcedNeedsAHeartbeatWithTheWrittenConfiguration: condition Enforced is True only if the heartbeat of
// our scheduler proves that it runs with the configuration that the operator wrote, here "aa". And no pod may
// have got cards without our scheduler. Before pods are counted, the stored condition stays; without one it is
// Unknown, with reason NotConfigured. Each row changes one thing of a cluster whose quotas are enforced. The
// texts are the "status/reason" of the condition, and a part of its message.
func TestEnforcedNeedsAHeartbeatWithTheWrittenConfiguration(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		change      func(*evidenceScene)
		want        string
		wantMessage string
	}{
		"no change": {func(*evidenceScene) {}, "True/Enforced", "the scheduler enforces the quotas"},
		"configuration bb was written now": {func(s *evidenceScene) {
			s.evaluate() // so the operator sees bb arrive, and gives the scheduler time to load it
			s.hash = "bb"
		}, "False/ConfigNotLoaded", "bb was written and is being loaded"},
		"configuration bb was written before the operator started": {func(s *evidenceScene) {
			s.hash = "bb"
			s.policy.Status.ConfigHash = "bb"
		}, "False/ConfigNotLoaded", "has not loaded"},
		"the ConfigMap lacks its key": {func(s *evidenceScene) { s.notConfigured = "no key" }, "False/NotConfigured", "no key"},
		"pod lab/a got a card without the scheduler": {func(s *evidenceScene) {
			s.lastCount.pods = []enforcement.Bypass{{Pod: "lab/a", Cards: []card.Amount{{Name: "H200", Count: 1}}, Reason: "so"}}
		}, "False/CardBypass", "lab/a"},
		"the heartbeat is deleted": {func(s *evidenceScene) {
			check.NoError(s.T, s.client.Delete(s.Context(), enforcement.Report{}.Lease(system)))
		}, "False/NoHeartbeat", "ever"},
		"another client writes the Lease of the heartbeat": {func(s *evidenceScene) {
			s.replace(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: enforcement.LeaseName}})
		}, "False/NoHeartbeat", "is no heartbeat"},
		"pods are not counted yet": {func(s *evidenceScene) { s.lastCount.uncounted = true }, "Unknown/NotConfigured", "not been evaluated"},
		"pods are not counted yet after a restart: the condition stays": {func(s *evidenceScene) {
			s.lastCount.uncounted = true
			s.policy.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionEnforced, Status: "False", Reason: "NoHeartbeat", Message: "before"}}
		}, "False/NoHeartbeat", "before"},
	}) {
		s := newEnforcedScene(t)
		tc.change(s)

		s.expectCondition("condition", tc.want, tc.wantMessage)
	}
}

// TestAHeartbeatProvesEnforcementForAWhile: a heartbeat that was there before the operator started counts until
// it is older than StaleAfter by the clock of the scheduler. At noon the first one is a second old. One that
// the operator saw arrive counts for StaleAfter from its arrival. A clock of the scheduler that is 15 seconds
// ahead does not make it count for longer. Without a heartbeat the operator looks again within
// leaderPollInterval which scheduler leads.
func TestAHeartbeatProvesEnforcementForAWhile(t *testing.T) {
	s := newEnforcedScene(t)
	check.Equal(t, "the condition is evaluated again after", enforcement.StaleAfter-time.Second, s.evaluate().Until.Sub(noon))

	s.now = noon.Add(10 * time.Second)
	s.writeHeartbeat("ours_1", noon.Add(25*time.Second))
	s.expectCondition("a heartbeat arrived", "True/Enforced")
	s.now = s.now.Add(enforcement.StaleAfter - 1)
	s.expectCondition("a moment before it is stale", "True/Enforced")
	s.now = s.now.Add(1)
	s.expectCondition("no heartbeat followed", "False/NoHeartbeat")
	check.That(t, s.evaluate().Until.Sub(s.now) <= leaderPollInterval, "the leader is not read again within %s", leaderPollInterval)

	s.writeHeartbeat("ours_1", s.now)
	s.expectCondition("a heartbeat arrived at last", "True/Enforced")
}

// TestTheMetricHasTheReasonOfConditionEnforced: the metric has the reason of the condition as a label, and value
// 1 if quotas are enforced, else 0. It has one series, of the last evaluation, and none without a policy.
func TestTheMetricHasTheReasonOfConditionEnforced(t *testing.T) {
	s := newEnforcedScene(t)
	s.evaluate()
	check.Equal(t, "metric with a heartbeat", map[string]float64{"Enforced": 1}, metricByReason(s))

	s.now = noon.Add(enforcement.StaleAfter)
	s.evaluate()
	check.Equal(t, "metric with a stale heartbeat", map[string]float64{"NoHeartbeat": 0}, metricByReason(s))
	s.resetState() // as when the policy is deleted
	check.Equal(t, "metric without a policy", map[string]float64{}, metricByReason(s))
}

// metricByReason returns the values of the metric.
func metricByReason(s *evidenceScene) map[string]float64 {
	found := make(chan prometheus.Metric, 10)
	all := map[string]float64{}
	s.metric.Collect(found)
	close(found)
	for metric := range found {
		var written dto.Metric
		check.NoError(s.T, metric.Write(&written))
		all[written.Label[0].GetValue()] = written.Gauge.GetValue()
	}
	return all
}

// TestALeaderWithoutAHeartbeatIsTheStockScheduler: our scheduler and Volcano's elect their leader by the same Lease. If
// stock_1 has it and our last heartbeat is a minute old, Volcano's own scheduler leads, which knows no quotas. A
// heartbeat of this moment proves more than the Lease. A Lease without holder, times or duration names no leader.
func TestALeaderWithoutAHeartbeatIsTheStockScheduler(t *testing.T) {
	taken := coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("stock_1"), LeaseDurationSeconds: ptr.To(int32(15)),
		AcquireTime: &metav1.MicroTime{Time: noon.Add(-time.Hour)}, RenewTime: &metav1.MicroTime{Time: noon},
	}
	released := taken
	released.HolderIdentity = ptr.To("")
	withoutDuration := taken
	withoutDuration.LeaseDurationSeconds = nil

	for t, tc := range check.Cases(t, map[string]struct {
		lease        coordinationv1.LeaseSpec
		heartbeatAge time.Duration
		want         string
	}{
		"the stock scheduler has the Lease":               {taken, time.Minute, "False/StockScheduler"},
		"the stock scheduler has the Lease, ours reports": {taken, 0, "True/Enforced"},
		"the Lease is released":                           {released, time.Minute, "False/NoHeartbeat"},
		"the Lease never had a holder":                    {coordinationv1.LeaseSpec{}, time.Minute, "False/NoHeartbeat"},
		"the Lease has no duration":                       {withoutDuration, time.Minute, "False/NoHeartbeat"},
	}) {
		s := newEnforcedScene(t)
		s.writeHeartbeat("ours_1", noon.Add(-tc.heartbeatAge))
		s.replace(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: leaderLease}, Spec: tc.lease})
		s.expectCondition("condition", tc.want)
	}
}

// TestPodsOfTheStockSchedulerEndEnforcement: a pod with the label of Volcano's scheduler that may run places pods
// without quotas. Such a pod counts in the namespaces of the scheduler and of Volcano, so that no tenant ends
// enforcement by a label. A pod without a node, or one that has ended, places no pods.
func TestPodsOfTheStockSchedulerEndEnforcement(t *testing.T) {
	s := newEnforcedScene(t)
	pod := func(namespace, name, app string) *builder.PodBuilder {
		return builder.Pod(namespace, name).Label("app", app)
	}

	s.replace(pod(system, "no-node", workload.StockSchedulerApp).Phase(corev1.PodPending).Obj())
	s.replace(pod(system, "ended", workload.StockSchedulerApp).Node("n").Phase(corev1.PodFailed).Obj())
	s.replace(pod(system, "controllers", "volcano-controller").Node("n").Phase(corev1.PodRunning).Obj())
	s.replace(pod("lab", "of-a-tenant", workload.StockSchedulerApp).Node("n").Phase(corev1.PodRunning).Obj())
	s.expectCondition("no other scheduler", "True/Enforced")

	s.replace(pod(system, "z", workload.StockSchedulerApp).Node("n").Phase(corev1.PodRunning).Obj())
	s.replace(pod(system, "a", workload.StockSchedulerApp).Node("n").Phase(corev1.PodPending).Obj())
	s.expectCondition("pods a and z", "False/SecondScheduler", system+"/a, "+system+"/z")

	s.volcanoNamespace = "lab"
	s.expectCondition("Volcano is in namespace lab", "False/SecondScheduler", "lab/of-a-tenant, "+system+"/a, "+system+"/z")
}

// TestReplicasOfTheHeartbeatsReplicaSetAreOurs: an administrator may put our image into Volcano's own
// Deployment, and then every replica has the label of the stock scheduler. The pod that sent the heartbeat,
// here pod ours with identity ours_1, is ours. So are the pods of its ReplicaSet "swapped", also after pod ours
// is gone. Pods of ReplicaSet "before" run the stock image. When a scheduler elsewhere sends the heartbeat, the
// replicas of "swapped" count as other schedulers again.
func TestReplicasOfTheHeartbeatsReplicaSetAreOurs(t *testing.T) {
	s := newEnforcedScene(t)
	replica := func(name, replicaSet string) client.Object {
		return builder.Pod(system, name).Label("app", workload.StockSchedulerApp).Owner("apps/v1", "ReplicaSet", replicaSet).Node("n").Obj()
	}

	s.replace(replica("ours", "swapped")) // the heartbeat is of ours_1
	s.expectCondition("the pod of the heartbeat", "True/Enforced")
	s.replace(replica("second", "swapped"))
	s.expectCondition("another replica", "True/Enforced")
	check.NoError(t, s.client.Delete(t.Context(), replica("ours", "swapped")))
	s.expectCondition("another replica, and the pod of the heartbeat is gone", "True/Enforced")

	s.replace(replica("stock", "before"))
	s.expectCondition("a replica of another ReplicaSet", "False/SecondScheduler")
	check.NoError(t, s.client.Delete(t.Context(), replica("stock", "before")))
	s.writeHeartbeat("elsewhere_2", noon)
	s.expectCondition("the heartbeat is of another scheduler", "False/SecondScheduler")
}
