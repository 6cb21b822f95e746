package certificates

import (
	"context"
	"crypto/rsa"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// CacheOptions are the objects that are read, each by its name, which is all that
// the shipped Roles permit.
func CacheOptions(namespace string) map[client.Object]cache.ByObject {
	ours := cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", ConfigurationName)}
	return map[client.Object]cache.ByObject{
		&corev1.Secret{}: {
			Field:      fields.OneTermEqualSelector("metadata.name", SecretName),
			Namespaces: map[string]cache.Config{namespace: {}},
		},
		&admissionv1.ValidatingWebhookConfiguration{}: ours,
		&admissionv1.MutatingWebhookConfiguration{}:   ours,
	}
}

// New returns a Self for the operator's namespace, to be given to Setup.
func New(namespace string) *Self { return &Self{namespace: namespace, now: time.Now} }

// Setup adds the keeper of the certificate to a manager whose cache has
// CacheOptions. skipNameValidation allows a second one in one process, as tests
// have it.
func (s *Self) Setup(mgr ctrl.Manager, skipNameValidation bool) error {
	s.client = mgr.GetClient()
	request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: s.namespace, Name: SecretName}}
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{request} })
	// The first look is at nothing: a Secret that is not there tells nobody.
	begin := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(request)
		return nil
	})
	everywhere := false
	err := ctrl.NewControllerManagedBy(mgr).
		Named("webhook-certificate").
		Watches(&corev1.Secret{}, all).
		Watches(&admissionv1.ValidatingWebhookConfiguration{}, all).
		Watches(&admissionv1.MutatingWebhookConfiguration{}, all).
		WatchesRawSource(begin).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, NeedLeaderElection: &everywhere, SkipNameValidation: &skipNameValidation}).
		Complete(s)
	if err != nil {
		return fmt.Errorf("set up controller: %w", err)
	}
	return nil
}

// signing reads a key pair that signs, nil when it is none.
func signing(certificate, key []byte) *rotator.KeyPairArtifacts {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil || pair.Leaf == nil || !pair.Leaf.IsCA {
		return nil
	}
	private, ok := pair.PrivateKey.(*rsa.PrivateKey)
	if !ok {
		return nil
	}
	return &rotator.KeyPairArtifacts{Cert: pair.Leaf, Key: private, CertPEM: certificate, KeyPEM: key}
}
