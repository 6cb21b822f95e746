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

// bypasses stands in for the UsageCollector.
type bypasses struct {
	uncounted bool
	pods      []enforcement.Bypass
}

func (b *bypasses) Bypasses() ([]enforcement.Bypass, bool) { return b.pods, !b.uncounted }

func (*bypasses) Changed() <-chan event.TypedGenericEvent[string] { return nil }

// court is a cluster and who judges it.
type court struct {
	*testing.T
	client client.Client
	evidence
	past         bypasses
	policy       *v1alpha1.ServiceTypePolicy
	hash, spoilt string
	now          time.Time
}

// newCourt is a cluster in order.
func newCourt(t *testing.T) *court {
	api := fake.NewClientBuilder().WithScheme(builder.Scheme(t, corev1.AddToScheme, coordinationv1.AddToScheme)).Build()
	c := &court{T: t, client: api, now: noon, hash: "aa", policy: &v1alpha1.ServiceTypePolicy{}}
	c.policy.Status.ConfigHash = "aa"
	c.evidence = evidence{cached: api, live: api, schedulerNamespace: system, volcanoNamespace: system, bypasses: &c.past,
		metric: newEnforcedMetric()}
	c.beat(enforcement.Report{At: noon.Add(-time.Second)})
	return c
}

// put makes an object or replaces it.
func (c *court) put(object client.Object) {
	_ = c.client.Delete(c.Context(), object)
	object.SetResourceVersion("")
	check.NoError(c.T, c.client.Create(c.Context(), object))
}

func (c *court) beat(report enforcement.Report) {
	if report.Identity == "" {
		report.Identity = "ours_1"
	}
	report.Version = "v1"
	report.ConfigHash = "aa"
	c.put(report.Lease(system))
}

func (c *court) verdict() policy.Enforcement {
	return check.Value(c.evaluateEnforcement(context.Background(), c.policy, c.hash, c.spoilt, c.now))(c.T)
}

// says expects a verdict, and whether it is to be looked at again.
func (c *court) says(when, want string, words ...string) {
	got := c.verdict()
	check.Equal(c.T, when, want, string(got.Status)+"/"+got.Reason)
	check.Contains(c.T, when, got.Message, words...)
}

func TestEvidence(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		change func(*court)
		want   string
		words  string
	}{
		"in order":     {func(*court) {}, "True/Enforced", "the scheduler enforces the quotas"},
		"just written": {func(c *court) { c.verdict(); c.hash = "bb" }, "False/ConfigNotLoaded", "bb was written and is being loaded"},
		"written long ago": {func(c *court) {
			c.hash = "bb"
			c.policy.Status.ConfigHash = "bb"
		}, "False/ConfigNotLoaded", "has not loaded"},
		"just found spoilt": {func(c *court) { c.spoilt = "no key" }, "False/NotConfigured", "no key"},
		"past the scheduler": {func(c *court) {
			c.past.pods = []enforcement.Bypass{{Pod: "lab/a", Cards: []card.Amount{{Name: "H200", Count: 1}}, Reason: "so"}}
		}, "False/CardBypass", "lab/a"},
		"no heartbeat": {func(c *court) {
			check.NoError(c.T, c.client.Delete(c.Context(), enforcement.Report{}.Lease(system)))
		}, "False/NoHeartbeat", "ever"},
		"a Lease of another client": {func(c *court) {
			c.put(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: enforcement.LeaseName}})
		}, "False/NoHeartbeat", "is no heartbeat"},
		"not counted yet": {func(c *court) { c.past.uncounted = true }, "Unknown/NotConfigured", "not been evaluated"},
		"not counted after a restart": {func(c *court) {
			c.past.uncounted = true
			c.policy.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionEnforced, Status: "False", Reason: "NoHeartbeat", Message: "before"}}
		}, "False/NoHeartbeat", "before"},
	}) {
		c := newCourt(t)
		tc.change(c)

		c.says("judged", tc.want, tc.words)
	}
}

// TestArrival: a report that lay about before the operator came proves something until
// it is old by the scheduler's clock, one that was seen to come also until it was
// followed by none for long.
func TestArrival(t *testing.T) {
	c := newCourt(t)
	check.Equal(t, "is looked at again after", enforcement.StaleAfter-time.Second, c.verdict().Until.Sub(noon))

	c.now = noon.Add(10 * time.Second)
	c.beat(enforcement.Report{At: noon.Add(25 * time.Second)}) // its clock is ahead
	c.says("a report came", "True/Enforced")
	c.now = c.now.Add(enforcement.StaleAfter - 1)
	c.says("none followed so far", "True/Enforced")
	c.now = c.now.Add(1)

	c.says("none followed", "False/NoHeartbeat")
	check.Equal(t, "series", map[string]float64{"NoHeartbeat": 0}, series(c))
	check.That(t, c.verdict().Until.Sub(c.now) <= leaderPollInterval, "who leads is not looked at again within %s", leaderPollInterval)

	c.beat(enforcement.Report{At: c.now})
	c.says("one came at last", "True/Enforced")
	check.Equal(t, "series", map[string]float64{"Enforced": 1}, series(c))
	c.resetState()
	check.Equal(t, "series without a policy", map[string]float64{}, series(c))
}

// series is the metric by reason.
func series(c *court) map[string]float64 {
	found := make(chan prometheus.Metric, 10)
	all := map[string]float64{}
	c.metric.Collect(found)
	close(found)
	for metric := range found {
		var written dto.Metric
		check.NoError(c.T, metric.Write(&written))
		all[written.Label[0].GetValue()] = written.Gauge.GetValue()
	}
	return all
}

func TestLeader(t *testing.T) {
	lease := func(change func(*coordinationv1.LeaseSpec)) *coordinationv1.Lease {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: leaderLease}, Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("stock_1"), LeaseDurationSeconds: ptr.To(int32(15)),
			AcquireTime: &metav1.MicroTime{Time: noon.Add(-time.Hour)}, RenewTime: &metav1.MicroTime{Time: noon},
		}}
		change(&l.Spec)
		return l
	}

	for t, tc := range check.Cases(t, map[string]struct {
		lease  *coordinationv1.Lease
		report enforcement.Report
		want   string
	}{
		"another scheduler leads":               {lease(func(*coordinationv1.LeaseSpec) {}), enforcement.Report{At: noon.Add(-time.Minute)}, "False/StockScheduler"},
		"our heartbeat says more than a leader": {lease(func(*coordinationv1.LeaseSpec) {}), enforcement.Report{At: noon}, "True/Enforced"},
		"released":                              {lease(func(s *coordinationv1.LeaseSpec) { s.HolderIdentity = ptr.To("") }), enforcement.Report{At: noon.Add(-time.Minute)}, "False/NoHeartbeat"},
		"never held":                            {lease(func(s *coordinationv1.LeaseSpec) { *s = coordinationv1.LeaseSpec{} }), enforcement.Report{At: noon.Add(-time.Minute)}, "False/NoHeartbeat"},
		"without terms":                         {lease(func(s *coordinationv1.LeaseSpec) { s.LeaseDurationSeconds = nil }), enforcement.Report{At: noon.Add(-time.Minute)}, "False/NoHeartbeat"},
	}) {
		c := newCourt(t)
		c.beat(tc.report)
		c.put(tc.lease)
		c.says("judged", tc.want)
	}
}

func TestOtherSchedulers(t *testing.T) {
	c := newCourt(t)
	pod := func(namespace, name, app, node string, phase corev1.PodPhase) {
		c.put(builder.Pod(namespace, name).Label("app", app).Node(node).Phase(phase).Obj())
	}

	pod(system, "no-node", workload.StockSchedulerApp, "", corev1.PodPending)
	pod(system, "ended", workload.StockSchedulerApp, "n", corev1.PodFailed)
	pod(system, "controllers", "volcano-controller", "n", corev1.PodRunning)
	pod("lab", "a-tenants", workload.StockSchedulerApp, "n", corev1.PodRunning)
	c.says("none of them is another scheduler", "True/Enforced")
	pod(system, "z", workload.StockSchedulerApp, "n", corev1.PodRunning)
	pod(system, "a", workload.StockSchedulerApp, "n", corev1.PodPending)

	c.says("two are", "False/SecondScheduler", system+"/a, "+system+"/z")
	c.volcanoNamespace = "lab"
	c.says("in the namespace of Volcano as well", "False/SecondScheduler", "lab/a-tenants, "+system+"/a, "+system+"/z")
}

// TestReplicasOfASwappedDeployment: in Volcano's own Deployment with our image
// every replica bears the label of the stock scheduler.
func TestReplicasOfASwappedDeployment(t *testing.T) {
	c := newCourt(t)
	pod := func(name, template string) client.Object {
		return builder.Pod(system, name).Label("app", workload.StockSchedulerApp).Owner("apps/v1", "ReplicaSet", template).Node("n").Obj()
	}

	remove := func(name string) {
		check.NoError(t, c.client.Delete(t.Context(), pod(name, "")))
	}

	c.put(pod("ours", "swapped"))
	c.says("its own pod", "True/Enforced")
	c.put(pod("waits", "swapped"))
	c.says("an equal", "True/Enforced")
	remove("ours")

	c.says("its report still proves something, and an equal follows", "True/Enforced")
	c.put(pod("stock", "before"))
	c.says("a pod of another template", "False/SecondScheduler")
	remove("stock")
	c.beat(enforcement.Report{Identity: "elsewhere_2", At: noon})
	c.says("the equals of who gave the heartbeat before", "False/SecondScheduler")
}
