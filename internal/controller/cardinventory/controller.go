// Package cardinventory is the CardInventory controller: it creates the one CardInventory and
// writes its status.
//
// It only reads and writes objects. internal/cardinventory decides what the status says, from the
// nodes and from the last count of the CardQuota controller.
package cardinventory

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardinventory"
	shared "cardquota.dev/operator/internal/controller"
)

// NodeSource provides all nodes and their cards, false until every node was read once, and signals
// changes.
type NodeSource interface {
	TrackedNodes() ([]card.TrackedNode, bool)
	Inventory() (*card.Inventory, bool)
	OnNodeChange(changed func())
}

// CountSource provides the last count of the pods, nil before the first one, and signals counts.
type CountSource interface {
	InventoryCount() *cardinventory.Count
	OnCount(counted func())
}

// BillSource provides what keeps card-seconds from being stored. It is read at each count.
type BillSource interface {
	StorageProblems() cardinventory.Bills
}

// DeviceSource provides the devices of dynamic resource allocation, false until they were read once or
// cannot be read, and signals changes.
type DeviceSource interface {
	DeviceSlices() ([]cardinventory.DeviceSlice, bool)
	OnChange(changed func())
}

// Options configure the controller.
type Options struct {
	// SkipNameValidation allows a second controller in one process, as in tests.
	SkipNameValidation bool
	// Metrics takes the controller's metrics.
	Metrics metrics.RegistererGatherer
	// Nodes provides the nodes, Counts the last count of the pods.
	Nodes  NodeSource
	Counts CountSource
	// Bills provides what keeps card-seconds from being stored. It may be nil.
	Bills BillSource
	// Devices provides the devices of dynamic resource allocation. It may be nil.
	Devices DeviceSource
}

// Reconciler keeps the one CardInventory.
type Reconciler struct {
	client   client.Client
	nodes    NodeSource
	counts   CountSource
	bills    BillSource
	devices  DeviceSource
	throttle *shared.StatusThrottle
	metrics  *metricsCollector
}

// Setup adds the controller to a manager as soon as the API server has the kind CardInventory.
func Setup(mgr ctrl.Manager, options Options) error {
	r := &Reconciler{client: mgr.GetClient(), nodes: options.Nodes, counts: options.Counts, bills: options.Bills, devices: options.Devices, throttle: shared.NewStatusThrottle(shared.StatusInterval), metrics: &metricsCollector{}}
	if err := options.Metrics.Register(r.metrics); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}

	// One pending signal stands for all changes before it, because a reconcile reads everything
	// anyway.
	changes := make(chan event.TypedGenericEvent[string], 1)
	signal := func() {
		select {
		case changes <- event.TypedGenericEvent[string]{Object: v1alpha1.InventoryName}:
		default: // the last signal was not read yet
		}
	}

	options.Nodes.OnNodeChange(signal)
	options.Counts.OnCount(signal)
	if options.Devices != nil {
		options.Devices.OnChange(signal)
	}

	return shared.SetUpWithKind(mgr, "CardInventory", func() error { return r.addTo(mgr, changes, options.SkipNameValidation) })
}

// addTo adds the controller to a manager. It reconciles at its start and at each signal.
func (r *Reconciler) addTo(mgr ctrl.Manager, changes <-chan event.TypedGenericEvent[string], skipNameValidation bool) error {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	// A CardInventory that does not exist causes no event, so the first reconcile needs this
	// source.
	start := source.Func(func(_ context.Context, q queue) error {
		q.Add(shared.RequestFor(v1alpha1.InventoryName))
		return nil
	})

	err := ctrl.NewControllerManagedBy(mgr).
		Named("cardinventory").
		For(&v1alpha1.CardInventory{}, builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		WatchesRawSource(start).
		WatchesRawSource(source.TypedChannel(changes, handler.TypedEnqueueRequestsFromMapFunc(func(context.Context, string) []reconcile.Request {
			return []reconcile.Request{shared.RequestFor(v1alpha1.InventoryName)}
		}))).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, SkipNameValidation: &skipNameValidation}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller: %w", err)
	}

	return nil
}

// +kubebuilder:rbac:groups=cardquota.dev,resources=cardinventories,verbs=list;watch;create
// +kubebuilder:rbac:groups=cardquota.dev,resources=cardinventories/status,verbs=patch

// Reconcile creates the CardInventory, also after it was deleted, and writes its status at most
// once per shared.StatusInterval. It leaves objects of another name alone.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if req.Name != v1alpha1.InventoryName {
		return ctrl.Result{}, nil
	}

	wait := r.throttle.Wait(req.Name)
	inventory := &v1alpha1.CardInventory{}
	err := r.client.Get(ctx, req.NamespacedName, inventory)
	switch {
	case apierrors.IsNotFound(err):
		return r.createInventory(ctx, wait)
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("read CardInventory: %w", err)
	case inventory.DeletionTimestamp != nil:
		return ctrl.Result{}, nil // its end is an event, and it is created again then
	case wait > 0: // a large fleet costs too much to compute a status that cannot be written yet
		return ctrl.Result{RequeueAfter: wait}, nil
	}

	input, isComplete := r.readInput()
	if !isComplete {
		return ctrl.Result{}, nil // what is missing is a signal when it comes
	}

	status, anomalies := cardinventory.NewStatusWithReasons(input)
	r.metrics.latest.Store(&latestCount{status: status, anomalies: anomalies, count: input.Count})
	writer := shared.StatusWriter[v1alpha1.CardInventoryStatus]{Client: r.client, Throttle: r.throttle, Object: inventory, Status: &inventory.Status}
	_, wait, err = writer.Write(ctx, *status.DeepCopy()) // the answer of the API server is decoded into it, and metrics read status
	return ctrl.Result{RequeueAfter: wait}, err
}

// readInput returns what the status is made from. It is false until everything was read once: a status
// without the devices, for example, would end their anomaly and its alert at each start.
func (r *Reconciler) readInput() (input cardinventory.Input, isComplete bool) {
	nodes, areNodesRead := r.nodes.TrackedNodes()
	cards, _ := r.nodes.Inventory()
	input = cardinventory.Input{Nodes: nodes, Cards: cards, Count: r.counts.InventoryCount()}
	if r.bills != nil {
		input.Bills = r.bills.StorageProblems()
	}
	areDevicesRead := true
	if r.devices != nil {
		input.DeviceSlices, areDevicesRead = r.devices.DeviceSlices()
	}
	return input, areNodesRead && areDevicesRead && input.Count != nil
}

// createInventory creates the CardInventory after wait. It counts as a write of the status, so that a client that
// deletes it again and again causes no more writes.
func (r *Reconciler) createInventory(ctx context.Context, wait time.Duration) (ctrl.Result, error) {
	if wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}

	inventory := &v1alpha1.CardInventory{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.InventoryName}}
	err := r.client.Create(ctx, inventory, client.FieldOwner(v1alpha1.FieldManager))
	switch {
	// The cache does not have it yet. It is there in a moment.
	case apierrors.IsAlreadyExists(err):
		return ctrl.Result{RequeueAfter: shared.StaleRetry}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("create CardInventory: %w", err)
	}

	r.throttle.RecordWrite(inventory.Name, inventory.ResourceVersion)
	return ctrl.Result{}, nil // its creation is an event
}
