// Package webhook serves the admission webhooks: it reads the manager's caches and calls
// the rules of internal/webhook/validation.
package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	vcbatch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
)

// The paths of the webhooks, as in config/webhook/manifests.yaml.
const (
	PathCardQuota         = "/validate-cardquota"
	PathCardQuotaDeletion = "/validate-cardquota-deletion"
	PathServiceTypePolicy = "/validate-servicetypepolicy"
	PathQueue             = "/validate-queue"
	PathWorkload          = "/validate-workload"
	PathVCJob             = "/default-vcjob"
	PathJob               = "/default-job"
)

// InventorySource provides the cards of all nodes; Inventory returns false until all nodes
// were read.
type InventorySource interface {
	Inventory() (*card.Inventory, bool)
	Healthy() map[card.Name]card.Count
	// TrackedNodes returns all nodes, false until all were read.
	TrackedNodes() ([]card.TrackedNode, bool)
	// PolicyInForce returns what is in force of the policy that was read. Both may be nil.
	PolicyInForce(read *v1alpha1.ServiceTypePolicy) *v1alpha1.ServiceTypePolicy
}

// handlers have the readers that all webhooks share.
type handlers struct {
	// cached reads from the cache, live from the API server.
	cached, live client.Reader
	inventory    InventorySource
	namespaces   Namespaces
	scheme       *runtime.Scheme
	decoder      admission.Decoder
}

// Namespaces are those of ConfigMaps: Scheduler that of our scheduler, Volcano that of Volcano's
// programs.
type Namespaces struct{ Scheduler, Volcano string }

// +kubebuilder:rbac:groups=cardquota.dev,resources=cardquotas;servicetypepolicies,verbs=list;watch
// +kubebuilder:rbac:groups=cardquota.dev,resources=servicetypepolicies,verbs=get
// +kubebuilder:rbac:groups=scheduling.volcano.sh,resources=queues;podgroups,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=list;watch

// AddToScheme registers the kinds that only the webhooks read.
func AddToScheme(scheme *runtime.Scheme) error { return vcbatch.AddToScheme(scheme) }

// CacheOptions strip the managed fields and the annotations of namespaces. Where users create their own
// namespaces, they write up to 256 KiB of annotations into each.
func CacheOptions() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&corev1.Namespace{}: {Transform: func(object any) (any, error) {
		if namespace, ok := object.(*corev1.Namespace); ok {
			namespace.ManagedFields = nil
			namespace.Annotations = nil
		}
		return object, nil
	}}}
}

// Setup registers the webhooks with the manager's server. Their caches are synced before
// the server is ready.
func Setup(ctx context.Context, mgr ctrl.Manager, nodes InventorySource, namespaces Namespaces) error {
	for _, object := range []client.Object{
		&corev1.Namespace{}, &v1beta1.Queue{}, &v1beta1.PodGroup{}, &v1alpha1.CardQuota{}, &v1alpha1.ServiceTypePolicy{},
	} {
		if _, err := mgr.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", object, err)
		}
	}
	h := &handlers{cached: mgr.GetClient(), live: mgr.GetAPIReader(), inventory: nodes, namespaces: namespaces, scheme: mgr.GetScheme(), decoder: admission.NewDecoder(mgr.GetScheme())}
	h.registerWebhooks(mgr.GetWebhookServer().Register)
	return nil
}

// registerWebhooks registers the webhooks by their paths. Webhooks for objects of
// administrators do not wait for those of tenants.
func (h *handlers) registerWebhooks(at func(path string, hook http.Handler)) {
	tenants := newLimiter()
	administrators := newLimiter()
	serve := func(path string, of limiter, handler admission.Handler, onTimeout func(error) admission.Response) {
		at(path, of.limitLargeRequests(&admission.Webhook{Handler: of.limitConcurrency(handler.Handle, onTimeout), RecoverPanic: ptr.To(true)}))
	}

	failed := func(err error) admission.Response { return admission.Errored(http.StatusServiceUnavailable, err) }
	serve(PathCardQuota, administrators, admission.WithCustomValidator(h.scheme, &v1alpha1.CardQuota{}, validator[*v1alpha1.CardQuota](h.validateCardQuota)).Handler, failed)
	serve(PathCardQuotaDeletion, administrators, admission.HandlerFunc(h.warnCardQuotaDeletion), allowUnreadable)
	serve(PathServiceTypePolicy, administrators, admission.WithCustomValidator(h.scheme, &v1alpha1.ServiceTypePolicy{}, validator[*v1alpha1.ServiceTypePolicy](h.validateServiceTypePolicy)).Handler, failed)
	serve(PathQueue, administrators, admission.HandlerFunc(h.validateQueue), allowUnreadable)
	serve(PathWorkload, tenants, admission.HandlerFunc(h.validateWorkload), allowUnreadable)
	serve(PathVCJob, tenants, admission.HandlerFunc(h.defaultVCJob), allowUnreadable)
	serve(PathJob, tenants, admission.HandlerFunc(h.defaultJob), allowUnreadable)
}

// Ready is a readiness check: all nodes were read.
func Ready(nodes InventorySource) func(*http.Request) error {
	return func(*http.Request) error {
		if _, known := nodes.Inventory(); !known {
			return fmt.Errorf("nodes are being read")
		}
		return nil
	}
}

// Bounds of concurrent requests. A tenant only needs permission to create a pod, and the
// API server validates dry runs as well.
const (
	// maxConcurrent bounds the requests that are validated at a time.
	maxConcurrent = 4
	// A request of largeBodyBytes or more is large, and at most maxLargeRequests are in
	// memory. The server accepts 7 MiB: two objects of 3 MiB, the API server's bound, and
	// the review around them.
	largeBodyBytes   = 64 << 10
	maxLargeRequests = 2
	// maxParts bounds the objects, lists and nulls in the text of an object. An empty task
	// of a vcjob has two bytes and takes 700 in memory, so the bound is about 55 MiB. 256
	// tasks of three containers with thirty variables each have 72,000.
	maxParts = 80_000
	// defaultTimeout is the timeout of a request that names none.
	defaultTimeout = 10 * time.Second
)

// errTooManyParts refuses to decode an object that is too large.
var errTooManyParts = errors.New("it has too many parts")

// limiter bounds concurrent requests: those that are validated, and large ones from their
// first byte on.
type limiter struct{ requests, largeRequests *semaphore.Weighted }

func newLimiter() limiter {
	return limiter{semaphore.NewWeighted(maxConcurrent), semaphore.NewWeighted(maxLargeRequests)}
}

// limitConcurrency bounds the requests that a handler validates at a time. A request waits
// no longer than the API server's timeout; then onTimeout answers it.
func (l limiter) limitConcurrency(handle admission.HandlerFunc, onTimeout func(error) admission.Response) admission.HandlerFunc {
	return func(ctx context.Context, req admission.Request) admission.Response {
		if err := l.requests.Acquire(ctx, 1); err != nil {
			return onTimeout(err)
		}
		defer l.requests.Release(1)
		return handle(ctx, req)
	}
}

// limitLargeRequests ends a request at the API server's timeout and bounds the large ones
// in memory. The timeout is a query parameter: HTTP/1.1 does not report a hang-up before
// the body is read.
func (l limiter) limitLargeRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		timeout, err := time.ParseDuration(r.URL.Query().Get("timeout"))
		if err != nil || timeout <= 0 || timeout > defaultTimeout {
			timeout = defaultTimeout
		}

		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()

		if r.ContentLength < 0 || r.ContentLength >= largeBodyBytes {
			if l.largeRequests.Acquire(ctx, 1) != nil {
				http.Error(w, "too many large requests", http.StatusServiceUnavailable)
				return
			}
			defer l.largeRequests.Release(1)
		}

		deadline, _ := ctx.Deadline()
		// A server without deadlines reads until the client hangs up.
		_ = http.NewResponseController(w).SetReadDeadline(deadline)
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// tooManyParts reports whether the JSON text of an object may take too much memory once
// decoded. It also counts braces in strings.
func tooManyParts(text []byte) bool {
	return bytes.Count(text, []byte("{"))+bytes.Count(text, []byte("["))+bytes.Count(text, []byte("null")) > maxParts
}
