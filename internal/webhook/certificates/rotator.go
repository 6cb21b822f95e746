// Package certificates gives the webhook server a certificate that the API server
// trusts, without cert-manager: one that the operator signs itself, kept in a
// Secret, with its authority in the two webhook configurations.
package certificates

import (
	"context"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	// SecretName is the Secret in the operator's namespace.
	SecretName = "cardquota-webhook-cert"
	// ServiceName is the Service before the webhook server.
	ServiceName = "cardquota-webhook"
	// ConfigurationName is the name of both configurations.
	ConfigurationName = "cardquota"

	caName       = "cardquota-webhook-ca"
	caKeyName    = "ca.key"
	fieldManager = "cardquota"
	// injectedFromAnnotation is the annotation by which cert-manager's cainjector finds the
	// configurations whose authority it writes: two writers would never end.
	injectedFromAnnotation = "cert-manager.io/inject-ca-from"
)

const (
	// The authority lives for ten years and a certificate for one; either is renewed
	// a quarter of a year before its end. That is looked at so often for the sake of
	// clocks: one that was ahead when it was made leaves a certificate that holds
	// only later, once the clock is right. To look asks the API server for nothing.
	caLifetime    = 10 * 365 * 24 * time.Hour
	certLifetime  = 365 * 24 * time.Hour
	renewBefore   = 90 * 24 * time.Hour
	checkInterval = 5 * time.Minute
	// staleRetry is how long another replica's write is given to arrive.
	staleRetry = 100 * time.Millisecond
)

// nonexistentVersion is a resource version that no stored object has. An apply that names it
// makes the Secret, and is a conflict where another replica has just made it.
const nonexistentVersion = "1"

// Rotator keeps the certificate. Every replica runs one and serves the same
// certificate, leader or not: whoever comes first writes.
type Rotator struct {
	// client reads from the cache and writes to the API server.
	client    client.Client
	namespace string
	now       func() time.Time

	serving atomic.Pointer[servingCert]
	trusted atomic.Bool
}

// servingCert is a certificate, and the authority that the API server is to trust.
type servingCert struct {
	tls.Certificate
	authority *x509.CertPool
}

// +kubebuilder:rbac:groups="",namespace=volcano-system,resources=secrets,resourceNames=cardquota-webhook-cert,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations;mutatingwebhookconfigurations,resourceNames=cardquota,verbs=get;list;watch;patch

// GetCertificate is for tls.Config.
func (s *Rotator) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if certificate := s.serving.Load(); certificate != nil {
		return &certificate.Certificate, nil
	}
	return nil, errors.New("the webhook certificate is not there yet")
}

// Ready is a readiness check: there is a certificate, the configurations name its
// authority, and both hold at this time.
func (s *Rotator) Ready(*http.Request) error {
	certificate := s.serving.Load()
	switch {
	case certificate == nil:
		return fmt.Errorf("the Secret %s/%s holds no certificate yet", s.namespace, SecretName)
	case !s.trusted.Load():
		return fmt.Errorf("the authority of the certificate is not in the webhook configurations %s yet", ConfigurationName)
	}
	_, err := certificate.Leaf.Verify(x509.VerifyOptions{Roots: certificate.authority, DNSName: s.dnsName(), CurrentTime: s.now()})
	if err != nil {
		return fmt.Errorf("the API server cannot trust the certificate in Secret %s/%s at this time, it is made anew within %s: %w", s.namespace, SecretName, checkInterval, err)
	}
	return nil
}

// Reconcile makes or renews the certificate, has the configurations trust it and
// serves it.
func (s *Rotator) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	switch err := s.syncCertificate(ctx); {
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: staleRetry}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: checkInterval}, nil
}

func (s *Rotator) syncCertificate(ctx context.Context) error {
	secret := &corev1.Secret{}
	err := s.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: SecretName}, secret)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read Secret %s/%s: %w", s.namespace, SecretName, err)
	}
	data, renewed, err := s.renewCertificate(secret.Data)
	if err != nil {
		return err
	}
	if renewed {
		if err := s.writeSecret(ctx, secret, data); err != nil {
			return err
		}
		logf.FromContext(ctx).Info("webhook certificate renewed", "secret", s.namespace+"/"+SecretName)
	}
	certificate, err := newServingCert(data)
	if err != nil {
		return err
	}
	s.serving.Store(certificate)
	if err := s.injectCABundles(ctx, data[corev1.ServiceAccountRootCAKey]); err != nil {
		return err
	}
	s.trusted.Store(true)
	return nil
}

// newServingCert takes what is served out of a Secret's data.
func newServingCert(data map[string][]byte) (*servingCert, error) {
	pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(data[corev1.ServiceAccountRootCAKey])
	return &servingCert{Certificate: pair, authority: authorities}, nil
}

// dnsName is the name under which the API server calls the Service.
func (s *Rotator) dnsName() string { return ServiceName + "." + s.namespace + ".svc" }

// renewCertificate returns what the Secret must hold, and whether that is another thing than
// it holds.
func (s *Rotator) renewCertificate(data map[string][]byte) (map[string][]byte, bool, error) {
	now := s.now()
	usages := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	signer := &rotator.CertRotator{CAName: caName, CAOrganization: "cardquota", DNSName: s.dnsName(), ExtKeyUsages: &usages}
	valid := func(certificate, key, host string, purpose *[]x509.ExtKeyUsage) bool {
		for _, at := range []time.Time{now, now.Add(renewBefore)} {
			if ok, err := rotator.ValidCert(data[corev1.ServiceAccountRootCAKey], data[certificate], data[key], host, purpose, at); err != nil || !ok {
				return false
			}
		}
		return true
	}
	var ca *rotator.KeyPairArtifacts
	if valid(corev1.ServiceAccountRootCAKey, caKeyName, caName, nil) {
		if valid(corev1.TLSCertKey, corev1.TLSPrivateKeyKey, s.dnsName(), &usages) {
			return data, false, nil
		}
		ca = signingKeyPair(data[corev1.ServiceAccountRootCAKey], data[caKeyName])
	}
	begin := now.Add(-time.Hour) // clocks differ
	if ca == nil {
		var err error
		if ca, err = signer.CreateCACert(begin, now.Add(caLifetime)); err != nil {
			return nil, false, fmt.Errorf("make certificate authority: %w", err)
		}
	}
	certificate, key, err := signer.CreateCertPEM(ca, begin, now.Add(certLifetime))
	if err != nil {
		return nil, false, fmt.Errorf("make certificate: %w", err)
	}
	return map[string][]byte{
		corev1.ServiceAccountRootCAKey: ca.CertPEM, caKeyName: ca.KeyPEM, corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key,
	}, true, nil
}

// writeSecret writes the Secret, as a conflict when it is not the one that was read. By
// apply, creating it needs no right over any other Secret.
func (s *Rotator) writeSecret(ctx context.Context, read *corev1.Secret, data map[string][]byte) error {
	version, kind := read.ResourceVersion, read.Type
	if version == "" {
		version, kind = nonexistentVersion, corev1.SecretTypeTLS
	}
	wanted := corev1ac.Secret(SecretName, s.namespace).WithResourceVersion(version).WithType(kind).
		WithLabels(map[string]string{"app.kubernetes.io/managed-by": "cardquota"}).WithData(data)
	if err := s.client.Apply(ctx, wanted, client.FieldOwner(fieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("write Secret %s/%s: %w", s.namespace, SecretName, err)
	}
	return nil
}

// injectCABundles writes the authority into both configurations. One that is not installed
// is left to whoever installs it.
func (s *Rotator) injectCABundles(ctx context.Context, bundle []byte) error {
	validating := &admissionv1.ValidatingWebhookConfiguration{}
	mutating := &admissionv1.MutatingWebhookConfiguration{}
	return errors.Join(
		s.updateConfiguration(ctx, validating, func() {
			for i := range validating.Webhooks {
				validating.Webhooks[i].ClientConfig.CABundle = bundle
			}
		}),
		s.updateConfiguration(ctx, mutating, func() {
			for i := range mutating.Webhooks {
				mutating.Webhooks[i].ClientConfig.CABundle = bundle
			}
		}))
}

// updateConfiguration writes a configuration as change leaves it, if that is another one.
func (s *Rotator) updateConfiguration(ctx context.Context, object client.Object, change func()) error {
	if err := s.client.Get(ctx, client.ObjectKey{Name: ConfigurationName}, object); err != nil {
		if apierrors.IsNotFound(err) {
			logf.FromContext(ctx).Info("webhook configuration is not installed", "kind", fmt.Sprintf("%T", object), "name", ConfigurationName)
			return nil
		}
		return fmt.Errorf("read webhook configuration %s: %w", ConfigurationName, err)
	}
	if from := object.GetAnnotations()[injectedFromAnnotation]; from != "" {
		return fmt.Errorf("the authority in webhook configuration %s is cert-manager's to write (%s: %s): give the operator the files of that Certificate and --webhook-certificates=Files, or take the annotation off",
			ConfigurationName, injectedFromAnnotation, from)
	}
	before, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", object)
	}
	change()
	if equality.Semantic.DeepEqual(before, object) || object.GetDeletionTimestamp() != nil {
		return nil
	}
	if err := s.client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldManager)); err != nil {
		return fmt.Errorf("write webhook configuration %s: %w", ConfigurationName, err)
	}
	return nil
}

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
func New(namespace string) *Rotator { return &Rotator{namespace: namespace, now: time.Now} }

// Setup adds the keeper of the certificate to a manager whose cache has
// CacheOptions. skipNameValidation allows a second one in one process, as tests
// have it.
func (s *Rotator) Setup(mgr ctrl.Manager, skipNameValidation bool) error {
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

// signingKeyPair reads a key pair that signs, nil when it is none.
func signingKeyPair(certificate, key []byte) *rotator.KeyPairArtifacts {
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
