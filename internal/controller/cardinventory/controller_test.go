package cardinventory

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardinventory"
	shared "cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/fieldowner"
)

// sources are nodes, and whether pods were counted.
type sources struct {
	card.Tracker
	isCounted bool
	// reads is how many times the nodes were read.
	reads int
}

func (s *sources) TrackedNodes() ([]card.TrackedNode, bool) {
	s.reads++
	return s.Tracker.TrackedNodes(), true
}

func (s *sources) Inventory() (*card.Inventory, bool) { return s.Tracker.Inventory(), true }

func (*sources) OnNodeChange(func()) {}

func (*sources) OnCount(func()) {}

func (s *sources) InventoryCount() *cardinventory.Count {
	if !s.isCounted {
		return nil
	}
	return cardinventory.NewCount(cardinventory.CountInput{})
}

// scene is a reconciler with a fake API server. Its interval ends when a test says so.
type scene struct {
	*testing.T
	*sources
	client client.WithWatch
	r      *Reconciler
}

func newScene(t *testing.T, objects ...client.Object) *scene {
	s := &scene{T: t, sources: &sources{isCounted: true}}
	s.client = fieldowner.CheckStatus(t, fake.NewClientBuilder().WithScheme(builder.Scheme(t, v1alpha1.AddToScheme)).
		WithObjects(objects...).WithStatusSubresource(&v1alpha1.CardInventory{}).Build())
	s.r = &Reconciler{client: s.client, nodes: s, counts: s, metrics: &metricsCollector{}}
	s.endInterval()
	return s
}

// endInterval lets the next write pass.
func (s *scene) endInterval() { s.r.throttle = shared.NewStatusThrottle(time.Hour) }

func (s *scene) reconcile(name string) ctrl.Result {
	return check.Value(s.r.Reconcile(s.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: name}}))(s)
}

func (s *scene) inventory() *v1alpha1.CardInventory {
	inventory := &v1alpha1.CardInventory{}
	check.NoError(s, s.client.Get(s.Context(), client.ObjectKey{Name: v1alpha1.InventoryName}, inventory))
	return inventory
}

func (s *scene) summary() string {
	return s.inventory().Status.Summary
}

func TestTheInventoryIsCreatedAndWrittenOncePerInterval(t *testing.T) {
	s := newScene(t)
	s.Update(builder.Node("a").GPUs("NVIDIA-H200", 8).Obj())
	s.reconcile(v1alpha1.InventoryName)
	check.Equal(t, "summary of a new object", "", s.summary())
	check.That(t, s.reconcile(v1alpha1.InventoryName).RequeueAfter > 0, "the status is written in the interval of the creation")

	s.endInterval()
	s.reconcile(v1alpha1.InventoryName)
	check.Equal(t, "summary", "0/8 NVIDIA-H200", s.summary())

	s.Update(builder.Node("b").GPUs("NVIDIA-H200", 8).Obj())
	reads := s.reads
	check.That(t, s.reconcile(v1alpha1.InventoryName).RequeueAfter > 0, "a second write in one interval")
	check.Equal(t, "summary in the same interval", "0/8 NVIDIA-H200", s.summary())
	check.Equal(t, "reads of the nodes in the same interval", reads, s.reads)

	s.endInterval()
	s.reconcile(v1alpha1.InventoryName)
	check.Equal(t, "interval by default", time.Second, DefaultOptions().Interval)
	check.Equal(t, "summary in the next interval", "0/16 NVIDIA-H200", s.summary())
	s.endInterval()
	check.Equal(t, "result without a change", ctrl.Result{}, s.reconcile(v1alpha1.InventoryName))
}

func TestADeletedInventoryIsCreatedOncePerInterval(t *testing.T) {
	s := newScene(t)
	for range 2 {
		s.reconcile(v1alpha1.InventoryName)
		inventory := &v1alpha1.CardInventory{}
		inventory.Name = v1alpha1.InventoryName
		check.NoError(t, s.client.Delete(t.Context(), inventory))
		check.That(t, s.reconcile(v1alpha1.InventoryName).RequeueAfter > 0, "it is created again in the same interval")
		s.endInterval()
	}
}

// TestNothingIsWrittenBeforeTheFirstCount: 0 allocated cards would be wrong.
func TestNothingIsWrittenBeforeTheFirstCount(t *testing.T) {
	s := newScene(t)
	s.isCounted = false
	s.Update(builder.Node("a").GPUs("NVIDIA-H200", 8).Obj())
	s.reconcile(v1alpha1.InventoryName)
	s.endInterval()
	check.Equal(t, "result before the first count", ctrl.Result{}, s.reconcile(v1alpha1.InventoryName))
	check.Equal(t, "summary", "", s.summary())
}

// devices are ResourceSlices of one driver, and whether they were read.
type devices struct{ isRead bool }

func (d *devices) DeviceSlices() ([]cardinventory.DeviceSlice, bool) {
	if !d.isRead {
		return nil, false
	}
	return []cardinventory.DeviceSlice{{Driver: "gpu.nvidia.com", Pool: "p", Nodes: []string{"a"}, Devices: 8}}, true
}

func (*devices) OnChange(func()) {}

// TestNothingIsWrittenBeforeTheDevicesAreRead: at the start of another leader the anomaly of the last one
// would end, and its alert would start again.
func TestNothingIsWrittenBeforeTheDevicesAreRead(t *testing.T) {
	before := &v1alpha1.CardInventory{}
	before.Name = v1alpha1.InventoryName
	before.Status.Anomalies = []v1alpha1.InventoryAnomaly{{Reason: v1alpha1.AnomalyResourceClaimCards}}
	s := newScene(t, before)
	claimed := &devices{}
	s.r.devices = claimed

	s.Update(builder.Node("a").GPUs("NVIDIA-H200", 8).Obj())
	anomalies := func() []v1alpha1.InventoryAnomaly { return s.inventory().Status.Anomalies }

	check.Equal(t, "result before the devices were read", ctrl.Result{}, s.reconcile(v1alpha1.InventoryName))
	check.Equal(t, "anomalies of the last leader", before.Status.Anomalies, anomalies())
	check.That(t, s.r.metrics.latest.Load() == nil, "metrics before the devices were read")

	claimed.isRead = true
	s.reconcile(v1alpha1.InventoryName)
	check.That(t, len(anomalies()) == 1 && anomalies()[0].Count == 8, "anomalies are %+v", anomalies())
}

func TestAnotherNameIsLeftAlone(t *testing.T) {
	other := &v1alpha1.CardInventory{}
	other.Name = "other"
	s := newScene(t, other)
	check.Equal(t, "result for another name", ctrl.Result{}, s.reconcile("other"))
	var list v1alpha1.CardInventoryList
	check.NoError(t, s.client.List(t.Context(), &list))
	check.That(t, len(list.Items) == 1 && list.Items[0].Status.Summary == "", "objects are %+v", list.Items)
}
