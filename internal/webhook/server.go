// Package webhook answers the API server when objects are written: it reads the
// world from the manager's caches and asks the rules of internal/webhook/validation.
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
)

// InventorySource knows the cards of all nodes; Inventory is false until it has read them.
type InventorySource interface {
	Inventory() (*card.Inventory, bool)
	Healthy() map[card.Name]card.Count
}

// handlers share what they read the world with.
type handlers struct {
	// cached reads from the cache, live from the API server.
	cached, live client.Reader
	inventory    InventorySource
	// volcano is the namespace of Volcano's programs.
	volcanoNamespace string
	scheme           *runtime.Scheme
	decoder          admission.Decoder
}

// +kubebuilder:rbac:groups=cardquota.dev,resources=cardquotas;servicetypepolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=scheduling.volcano.sh,resources=queues;podgroups,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=list;watch

// AddToScheme makes the kinds known that are judged and that no other part of the
// operator reads.
func AddToScheme(scheme *runtime.Scheme) error { return vcbatch.AddToScheme(scheme) }

// CacheOptions keep of namespaces what is read.
func CacheOptions() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&corev1.Namespace{}: {Transform: cache.TransformStripManagedFields()}}
}

// Setup registers the webhooks with the manager's server. The caches that they
// read are filled before the server is ready. volcano is the namespace of Volcano's programs.
func Setup(ctx context.Context, mgr ctrl.Manager, nodes InventorySource, volcano string) error {
	for _, object := range []client.Object{
		&corev1.Namespace{}, &v1beta1.Queue{}, &v1beta1.PodGroup{}, &v1alpha1.CardQuota{}, &v1alpha1.ServiceTypePolicy{},
	} {
		if _, err := mgr.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", object, err)
		}
	}
	h := &handlers{cached: mgr.GetClient(), live: mgr.GetAPIReader(), inventory: nodes, volcanoNamespace: volcano, scheme: mgr.GetScheme(), decoder: admission.NewDecoder(mgr.GetScheme())}
	h.registerWebhooks(mgr.GetWebhookServer().Register)
	return nil
}

// registerWebhooks hands out the webhooks by their paths. Those for what administrators
// write do not wait for those of tenants.
func (h *handlers) registerWebhooks(at func(path string, hook http.Handler)) {
	tenants, administrators := newLimiter(), newLimiter()
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
}

// Ready is a readiness check: the cards of all nodes are known.
func Ready(nodes InventorySource) func(*http.Request) error {
	return func(*http.Request) error {
		if _, known := nodes.Inventory(); !known {
			return fmt.Errorf("nodes are being read")
		}
		return nil
	}
}

// What tenants can make the webhooks work on at a time. They need no right for it but
// that to create a pod, and a dry run is validated as well.
const (
	// maxConcurrent is how many requests are validated at a time.
	maxConcurrent = 4
	// A request of largeBody bytes or more is large, and maxLarge of them are in memory at
	// a time. The server takes 7 MiB at most: two objects of 3 MiB, the API server's
	// bound, and what is around them.
	largeBodyBytes   = 64 << 10
	maxLargeRequests = 2
	// maxParts bounds the objects, lists and nulls in the text of an object. An empty task
	// of a vcjob is written in two bytes and takes 700 in memory, so these are about
	// 55 MiB. 256 tasks of three containers with thirty variables each have 72,000.
	maxParts = 80_000
	// defaultTimeout is how long the API server waits when it does not say.
	defaultTimeout = 10 * time.Second
)

// errTooManyParts is of an object that is not read for its size.
var errTooManyParts = errors.New("it has too many parts")

// limiter bounds requests that wait for each other: those that are validated, and the
// large ones from their first byte on.
type limiter struct{ requests, largeRequests *semaphore.Weighted }

func newLimiter() limiter {
	return limiter{semaphore.NewWeighted(maxConcurrent), semaphore.NewWeighted(maxLargeRequests)}
}

// limitConcurrency lets a handler wait for its turn, no longer than the API server waits for
// the answer; onTimeout is what it answers then, to nobody.
func (l limiter) limitConcurrency(handle admission.HandlerFunc, onTimeout func(error) admission.Response) admission.HandlerFunc {
	return func(ctx context.Context, req admission.Request) admission.Response {
		if err := l.requests.Acquire(ctx, 1); err != nil {
			return onTimeout(err)
		}
		defer l.requests.Release(1)
		return handle(ctx, req)
	}
}

// limitLargeRequests ends a request when the API server gives it up, and keeps few large ones
// in memory. The API server says how long it waits; it speaks HTTP/1.1, in which
// nobody sees that it hangs up before the body is read.
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
		// A server without deadlines reads on until the client hangs up.
		_ = http.NewResponseController(w).SetReadDeadline(deadline)
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// tooManyParts reports whether the JSON text of an object may take too much memory once
// it is read into its types. It also counts what only looks like a part, in a string.
func tooManyParts(text []byte) bool {
	return bytes.Count(text, []byte("{"))+bytes.Count(text, []byte("["))+bytes.Count(text, []byte("null")) > maxParts
}
