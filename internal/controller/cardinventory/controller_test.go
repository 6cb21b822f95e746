package cardinventory

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardinventory"
	"cardquota.dev/operator/internal/cardquota"
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
	return cardinventory.NewCount(cardinventory.CountInput{Tree: cardquota.Flat})
}

// scene is a reconciler with a fake API server. Its interval between two writes ends when a test calls endInterval.
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

// endInterval lets the next write pass at once.
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

// TestTheInventoryIsCreatedAndWrittenOncePerInterval: the operator writes the one CardInventory, its creation
// included, at most once per interval (by default a second), because nodes change often. In between it does not even
// read the nodes, which is costly in a large fleet. The summary counts allocated and all cards: nodes a and b have 8
// cards each, and no pod uses one.
func TestTheInventoryIsCreatedAndWrittenOncePerInterval(t *testing.T) {
	check.Equal(t, "interval by default", time.Second, shared.StatusInterval)

	s := newScene(t)
	s.Update(builder.Node("a").GPUs("NVIDIA-H200", 8).Obj())
	s.reconcile(v1alpha1.InventoryName)
	check.Equal(t, "summary of a new object", "", s.summary())
	check.That(t, s.reconcile(v1alpha1.InventoryName).RequeueAfter > 0, "the status is written in the interval of the creation")

	s.endInterval()
	s.reconcile(v1alpha1.InventoryName)
	check.Equal(t, "summary with node a", "0/8 NVIDIA-H200", s.summary())

	// Node b joins in the interval of that write.
	s.Update(builder.Node("b").GPUs("NVIDIA-H200", 8).Obj())
	reads := s.reads
	check.That(t, s.reconcile(v1alpha1.InventoryName).RequeueAfter > 0, "the status is written twice in one interval")
	check.Equal(t, "summary in the same interval", "0/8 NVIDIA-H200", s.summary())
	check.Equal(t, "reads of the nodes in the same interval", reads, s.reads)

	s.endInterval()
	s.reconcile(v1alpha1.InventoryName)
	check.Equal(t, "summary in the next interval", "0/16 NVIDIA-H200", s.summary())

	s.endInterval()
	check.Equal(t, "result without a change", ctrl.Result{}, s.reconcile(v1alpha1.InventoryName))
}

// TestADeletedInventoryIsCreatedOncePerInterval: a client that deletes the CardInventory again and again costs one
// creation per interval. Until the interval ends, a reconcile creates nothing and only asks for a later one.
func TestADeletedInventoryIsCreatedOncePerInterval(t *testing.T) {
	s := newScene(t)
	for range 2 { // two intervals: in the second one the CardInventory is created again
		s.reconcile(v1alpha1.InventoryName)
		check.NoError(t, s.client.Delete(t.Context(), s.inventory()))
		check.That(t, s.reconcile(v1alpha1.InventoryName).RequeueAfter > 0, "the inventory is created again in the same interval")
		s.endInterval()
	}
}

// TestNothingIsWrittenBeforeTheFirstCount: before the first count of the pods the operator does not know how many of
// the 8 cards are allocated. A status with 0 allocated cards would be wrong, so the summary stays empty.
func TestNothingIsWrittenBeforeTheFirstCount(t *testing.T) {
	s := newScene(t)
	s.isCounted = false
	s.Update(builder.Node("a").GPUs("NVIDIA-H200", 8).Obj())
	s.reconcile(v1alpha1.InventoryName) // creates the object, with an empty status
	s.endInterval()

	check.Equal(t, "result before the first count", ctrl.Result{}, s.reconcile(v1alpha1.InventoryName))
	check.Equal(t, "summary", "", s.summary())
}

// devices are ResourceSlices of dynamic resource allocation with 8 devices of node a, and whether they were read.
type devices struct{ isRead bool }

func (d *devices) DeviceSlices() ([]cardinventory.DeviceSlice, bool) {
	if !d.isRead {
		return nil, false
	}
	return []cardinventory.DeviceSlice{{Driver: "gpu.nvidia.com", Pool: "p", Nodes: []string{"a"}, Devices: 8}}, true
}

func (*devices) OnChange(func()) {}

// TestNothingIsWrittenBeforeTheDevicesAreRead: cards that a driver offers by dynamic resource allocation are an
// anomaly of the inventory. A new leader that writes a status before it has read the devices would end the
// anomaly of the last leader. Its alert would start again. So there are no metrics before either. When the
// devices are read, the status counts the 8 devices of the driver.
func TestNothingIsWrittenBeforeTheDevicesAreRead(t *testing.T) {
	ofLastLeader := []v1alpha1.InventoryAnomaly{{Reason: v1alpha1.AnomalyResourceClaimCards}}
	s := newScene(t, &v1alpha1.CardInventory{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.InventoryName},
		Status:     v1alpha1.CardInventoryStatus{Anomalies: ofLastLeader},
	})
	driver := &devices{}
	s.r.devices = driver

	check.Equal(t, "result before the devices were read", ctrl.Result{}, s.reconcile(v1alpha1.InventoryName))
	check.Equal(t, "anomalies of the last leader", ofLastLeader, s.inventory().Status.Anomalies)
	check.That(t, s.r.metrics.latest.Load() == nil, "there are metrics before the devices were read")

	driver.isRead = true
	s.reconcile(v1alpha1.InventoryName)
	anomalies := s.inventory().Status.Anomalies
	check.Must(t, len(anomalies) == 1, "anomalies are %+v", anomalies)
	check.Equal(t, "devices of the anomaly", 8, anomalies[0].Count)
}

// TestAnInventoryOfAnotherNameIsLeftAlone: there is one CardInventory, whose name is fixed. The operator writes no
// status to one that a user created under another name, and creates none because of it.
func TestAnInventoryOfAnotherNameIsLeftAlone(t *testing.T) {
	s := newScene(t, &v1alpha1.CardInventory{ObjectMeta: metav1.ObjectMeta{Name: "other"}})

	check.Equal(t, "result for another name", ctrl.Result{}, s.reconcile("other"))

	var list v1alpha1.CardInventoryList
	check.NoError(t, s.client.List(t.Context(), &list))
	check.Must(t, len(list.Items) == 1, "objects are %+v", list.Items)
	check.Equal(t, "summary", "", list.Items[0].Status.Summary)
}
