// Package webhook answers the API server when objects are written: it reads the
// world from the manager's caches and asks the rules of internal/admission.
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

// Nodes knows the cards of all nodes; Inventory is false until it has read them.
type Nodes interface {
	Inventory() (*card.Inventory, bool)
	Healthy() map[card.Name]card.Count
}

// handlers share what they read the world with.
type handlers struct {
	// cached reads from the cache, live from the API server.
	cached, live client.Reader
	nodes        Nodes
	// volcano is the namespace of Volcano's programs.
	volcano string
	scheme  *runtime.Scheme
	decoder admission.Decoder
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
func Setup(ctx context.Context, mgr ctrl.Manager, nodes Nodes, volcano string) error {
	for _, object := range []client.Object{
		&corev1.Namespace{}, &v1beta1.Queue{}, &v1beta1.PodGroup{}, &v1alpha1.CardQuota{}, &v1alpha1.ServiceTypePolicy{},
	} {
		if _, err := mgr.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", object, err)
		}
	}
	h := &handlers{cached: mgr.GetClient(), live: mgr.GetAPIReader(), nodes: nodes, volcano: volcano, scheme: mgr.GetScheme(), decoder: admission.NewDecoder(mgr.GetScheme())}
	h.register(mgr.GetWebhookServer().Register)
	return nil
}

// register hands out the webhooks by their paths. Those for what administrators
// write do not wait for those of tenants.
func (h *handlers) register(at func(path string, hook http.Handler)) {
	tenants, administrators := newLimiter(), newLimiter()
	serve := func(path string, of limiter, handler admission.Handler, onTimeout func(error) admission.Response) {
		at(path, of.bounded(&admission.Webhook{Handler: of.validating(handler.Handle, onTimeout), RecoverPanic: ptr.To(true)}))
	}
	failed := func(err error) admission.Response { return admission.Errored(http.StatusServiceUnavailable, err) }
	serve(PathCardQuota, administrators, admission.WithCustomValidator(h.scheme, &v1alpha1.CardQuota{}, validator[*v1alpha1.CardQuota](h.cardQuota)).Handler, failed)
	serve(PathCardQuotaDeletion, administrators, admission.HandlerFunc(h.cardQuotaDeletion), unread)
	serve(PathServiceTypePolicy, administrators, admission.WithCustomValidator(h.scheme, &v1alpha1.ServiceTypePolicy{}, validator[*v1alpha1.ServiceTypePolicy](h.serviceTypePolicy)).Handler, failed)
	serve(PathQueue, administrators, admission.HandlerFunc(h.queue), unread)
	serve(PathWorkload, tenants, admission.HandlerFunc(h.workload), unread)
	serve(PathVCJob, tenants, admission.HandlerFunc(h.vcjob), unread)
}

// Ready is a readiness check: the cards of all nodes are known.
func Ready(nodes Nodes) func(*http.Request) error {
	return func(*http.Request) error {
		if _, known := nodes.Inventory(); !known {
			return fmt.Errorf("nodes are being read")
		}
		return nil
	}
}
