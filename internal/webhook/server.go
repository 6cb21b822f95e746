// Package webhook serves the admission webhooks: it reads the manager's caches and calls
// the rules of internal/validation.
package webhook

import (
	"context"
	"fmt"
	"net/http"

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
	"cardquota.dev/operator/internal/policy"
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

// Setup registers the webhooks with the manager's server and starts to watch what they read. It does not wait for these
// caches, because the manager starts them later; the server is not ready before they are synced.
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
// administrators do not wait for those of tenants. When the time for an answer is over, changes of the operator's own
// kinds are refused. All else is allowed: the scheduler checks it again.
func (h *handlers) registerWebhooks(register func(path string, hook http.Handler)) {
	tenants := newLimiter()
	administrators := newLimiter()
	serve := func(path string, limits limiter, handler admission.Handler, onTimeout func(error) admission.Response) {
		register(path, limits.limitLargeRequests(&admission.Webhook{Handler: limits.limitConcurrency(handler.Handle, onTimeout), RecoverPanic: ptr.To(true)}))
	}

	failed := func(err error) admission.Response { return admission.Errored(http.StatusServiceUnavailable, err) }
	serve(PathCardQuota, administrators, admission.WithCustomValidator(h.scheme, &v1alpha1.CardQuota{}, validator[*v1alpha1.CardQuota](h.validateCardQuota)).Handler, failed)
	serve(PathCardQuotaDeletion, administrators, admission.HandlerFunc(h.warnCardQuotaDeletion), allowUnreadable)
	serve(PathServiceTypePolicy, administrators, admission.WithCustomValidator(h.scheme, &v1alpha1.ServiceTypePolicy{}, validator[*v1alpha1.ServiceTypePolicy](h.validateServiceTypePolicy)).Handler, failed)
	serve(PathQueue, administrators, h.inEnforceMode(h.validateQueue), allowUnreadable)
	serve(PathWorkload, tenants, h.inEnforceMode(h.validateWorkload), allowUnreadable)
	serve(PathVCJob, tenants, h.inEnforceMode(h.defaultVCJob), allowUnreadable)
	serve(PathJob, tenants, h.inEnforceMode(h.defaultJob), allowUnreadable)
}

// inEnforceMode returns a handler that allows objects of other programs as they are while mode Enforce is not in force.
func (h *handlers) inEnforceMode(handle admission.HandlerFunc) admission.HandlerFunc {
	return func(ctx context.Context, req admission.Request) admission.Response {
		read, err := h.readPolicy(ctx)
		if err != nil {
			return allowUnreadable(err)
		}
		if policy.Mode(h.inventory.PolicyInForce(read)) != v1alpha1.ModeEnforce {
			return admission.Allowed("")
		}
		return handle(ctx, req)
	}
}

// Ready is a readiness check: all nodes were read. Before that, the webhooks know no card.
func Ready(nodes InventorySource) func(*http.Request) error {
	return func(*http.Request) error {
		if _, known := nodes.Inventory(); !known {
			return fmt.Errorf("nodes are being read")
		}
		return nil
	}
}
