// Package certificates provides the webhook server's certificate without cert-manager. The
// operator signs it, stores it in a Secret and writes its CA into the two webhook
// configurations.
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
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"cardquota.dev/operator/api/v1alpha1"
	shared "cardquota.dev/operator/internal/controller"
)

const (
	// SecretName is the Secret in the operator's namespace.
	SecretName = "cardquota-webhook-cert"
	// ServiceName is the Service of the webhook server.
	ServiceName = "cardquota-webhook"
	// ConfigurationName is the name of both configurations.
	ConfigurationName = "cardquota"

	caName    = "cardquota-webhook-ca"
	caKeyName = "ca.key"
)

const (
	// The CA is valid for ten years and the certificate for one. Both are renewed 90 days
	// before their end. The check is frequent because of clocks: a clock that was ahead
	// leaves a certificate that is only valid later. The check sends no request to the API
	// server.
	caLifetime    = 10 * 365 * 24 * time.Hour
	certLifetime  = 365 * 24 * time.Hour
	renewBefore   = 90 * 24 * time.Hour
	checkInterval = 5 * time.Minute
)

// Rotator renews and serves the certificate. Every replica runs one and serves the same
// certificate, leader or not. The first replica writes it.
type Rotator struct {
	// client reads from the cache and writes to the API server.
	client    client.Client
	namespace string
	now       func() time.Time

	serving atomic.Pointer[servingCert]
	trusted atomic.Bool
}

// servingCert is a certificate and the CA that the API server trusts.
type servingCert struct {
	tls.Certificate
	authority *x509.CertPool
}

// +kubebuilder:rbac:groups="",namespace=volcano-system,resources=secrets,resourceNames=cardquota-webhook-cert,verbs=list;watch;create;patch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations;mutatingwebhookconfigurations,resourceNames=cardquota,verbs=list;watch;patch

// GetCertificate implements the hook of tls.Config.
func (r *Rotator) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if certificate := r.serving.Load(); certificate != nil {
		return &certificate.Certificate, nil
	}
	return nil, errors.New("the webhook certificate does not exist yet")
}

// Ready is a readiness check: there is a certificate, the configurations have its CA, and
// both are valid now.
func (r *Rotator) Ready(*http.Request) error {
	certificate := r.serving.Load()
	switch {
	case certificate == nil:
		return fmt.Errorf("the Secret %s/%s holds no certificate yet", r.namespace, SecretName)
	case !r.trusted.Load():
		return fmt.Errorf("the CA of the certificate is not in the webhook configurations %s yet", ConfigurationName)
	}

	_, err := certificate.Leaf.Verify(x509.VerifyOptions{Roots: certificate.authority, DNSName: r.dnsName(), CurrentTime: r.now()})
	if err != nil {
		return fmt.Errorf("the API server cannot trust the certificate in Secret %s/%s now, the operator renews it within %s: %w", r.namespace, SecretName, checkInterval, err)
	}

	return nil
}

// Reconcile creates or renews the certificate, writes its CA into the configurations and
// serves it.
func (r *Rotator) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	switch err := r.syncCertificate(ctx); {
	case apierrors.IsConflict(err): // another replica was first, and the cache does not have its write yet
		return ctrl.Result{RequeueAfter: shared.StaleRetry}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: checkInterval}, nil
}

// syncCertificate renews the certificate in the Secret if it is due, serves what the Secret has, and writes its CA into
// the configurations.
func (r *Rotator) syncCertificate(ctx context.Context) error {
	secret := &corev1.Secret{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: SecretName}, secret)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read Secret %s/%s: %w", r.namespace, SecretName, err)
	}

	data, renewed, err := r.renewCertificate(secret.Data)
	if err != nil {
		return err
	}

	if renewed {
		if err := r.writeSecret(ctx, secret, data); err != nil {
			return err
		}
		logf.FromContext(ctx).Info("webhook certificate renewed", "secret", r.namespace+"/"+SecretName)
	}

	certificate, err := newServingCert(data)
	if err != nil {
		return err
	}

	// As soon as the configurations have a new CA, calls need the new certificate. So serve that
	// first.
	r.serving.Store(certificate)
	if err := r.injectCABundles(ctx, data[corev1.ServiceAccountRootCAKey]); err != nil {
		return err
	}

	r.trusted.Store(true)
	return nil
}

// newServingCert returns the certificate in a Secret's data.
func newServingCert(data map[string][]byte) (*servingCert, error) {
	pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(data[corev1.ServiceAccountRootCAKey])
	return &servingCert{Certificate: pair, authority: authorities}, nil
}

// dnsName returns the name by which the API server calls the Service.
func (r *Rotator) dnsName() string { return ServiceName + "." + r.namespace + ".svc" }

// renewCertificate returns the data that the Secret must have, and whether they differ from the data that it has.
func (r *Rotator) renewCertificate(data map[string][]byte) (map[string][]byte, bool, error) {
	now := r.now()
	usages := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	signer := &rotator.CertRotator{CAName: caName, CAOrganization: "cardquota", DNSName: r.dnsName(), ExtKeyUsages: &usages}
	// valid checks the certificate and the private key that the data have under two keys.
	// Renew while the old one is still valid, so that replicas and the API server have time to
	// follow. It must be valid now, too: the clock may have been ahead when it was made.
	valid := func(certificateKey, privateKey, host string, purpose *[]x509.ExtKeyUsage) bool {
		for _, at := range []time.Time{now, now.Add(renewBefore)} {
			if ok, err := rotator.ValidCert(data[corev1.ServiceAccountRootCAKey], data[certificateKey], data[privateKey], host, purpose, at); err != nil || !ok {
				return false
			}
		}
		return true
	}

	var ca *rotator.KeyPairArtifacts
	if valid(corev1.ServiceAccountRootCAKey, caKeyName, caName, nil) {
		if valid(corev1.TLSCertKey, corev1.TLSPrivateKeyKey, r.dnsName(), &usages) {
			return data, false, nil
		}
		// With the same CA the configurations need no change, and no call fails meanwhile.
		ca = signingKeyPair(data[corev1.ServiceAccountRootCAKey], data[caKeyName])
	}

	begin := now.Add(-time.Hour) // clocks differ
	if ca == nil {
		var err error
		ca, err = signer.CreateCACert(begin, now.Add(caLifetime))
		if err != nil {
			return nil, false, fmt.Errorf("create certificate authority: %w", err)
		}
	}

	certificate, key, err := signer.CreateCertPEM(ca, begin, now.Add(certLifetime))
	if err != nil {
		return nil, false, fmt.Errorf("create certificate: %w", err)
	}

	return map[string][]byte{
		corev1.ServiceAccountRootCAKey: ca.CertPEM, caKeyName: ca.KeyPEM, corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key,
	}, true, nil
}

// writeSecret writes the Secret. It returns a conflict if the Secret is not the one that was read, or exists although
// none was read. It creates the Secret by apply, which needs no permission on other Secrets.
func (r *Rotator) writeSecret(ctx context.Context, read *corev1.Secret, data map[string][]byte) error {
	version := read.ResourceVersion
	kind := read.Type // it is immutable
	if version == "" {
		version = v1alpha1.NonexistentVersion
		kind = corev1.SecretTypeTLS
	}

	wanted := corev1ac.Secret(SecretName, r.namespace).WithResourceVersion(version).WithType(kind).
		WithLabels(map[string]string{v1alpha1.LabelManagedBy: v1alpha1.FieldManager}).WithData(data)
	if err := r.client.Apply(ctx, wanted, client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("write Secret %s/%s: %w", r.namespace, SecretName, err)
	}

	return nil
}

// injectCABundles writes the CA into both configurations, if they are installed.
func (r *Rotator) injectCABundles(ctx context.Context, bundle []byte) error {
	validating := &admissionv1.ValidatingWebhookConfiguration{}
	mutating := &admissionv1.MutatingWebhookConfiguration{}

	return errors.Join(
		r.updateConfiguration(ctx, validating, func() {
			for i := range validating.Webhooks {
				validating.Webhooks[i].ClientConfig.CABundle = bundle
			}
		}),
		r.updateConfiguration(ctx, mutating, func() {
			for i := range mutating.Webhooks {
				mutating.Webhooks[i].ClientConfig.CABundle = bundle
			}
		}))
}

// updateConfiguration reads a webhook configuration into object, applies a change to it, and writes it if it
// differs. One that is not installed is no error.
func (r *Rotator) updateConfiguration(ctx context.Context, object client.Object, change func()) error {
	if err := r.client.Get(ctx, client.ObjectKey{Name: ConfigurationName}, object); err != nil {
		if apierrors.IsNotFound(err) {
			logf.FromContext(ctx).Info("webhook configuration is not installed", "kind", fmt.Sprintf("%T", object), "name", ConfigurationName)
			return nil
		}
		return fmt.Errorf("read webhook configuration %s: %w", ConfigurationName, err)
	}

	// Two writers of the same field would undo each other's CA for ever, and calls would fail in
	// between.
	if from := object.GetAnnotations()[v1alpha1.AnnotationInjectCAFrom]; from != "" {
		return fmt.Errorf("cert-manager writes the CA of webhook configuration %s (%s: %s): give the operator the files of that Certificate and --webhook-certificates=Files, or remove the annotation",
			ConfigurationName, v1alpha1.AnnotationInjectCAFrom, from)
	}
	before, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", object)
	}

	change()
	if equality.Semantic.DeepEqual(before, object) || object.GetDeletionTimestamp() != nil {
		return nil
	}
	if err := r.client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(v1alpha1.FieldManager)); err != nil {
		return fmt.Errorf("write webhook configuration %s: %w", ConfigurationName, err)
	}

	return nil
}

// CacheOptions limit the cache to objects of these names. The shipped Roles permit no
// others.
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

// New returns a Rotator for the operator's namespace. Call its Setup.
func New(namespace string) *Rotator { return &Rotator{namespace: namespace, now: time.Now} }

// Setup adds the Rotator to a manager whose cache has CacheOptions. skipNameValidation
// allows a second one in one process, as in tests.
func (r *Rotator) Setup(mgr ctrl.Manager, skipNameValidation bool) error {
	r.client = mgr.GetClient()
	request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: r.namespace, Name: SecretName}}
	// Every event leads to the same request, whatever changed.
	enqueueSecret := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{request} })

	// The first request comes from here: a missing Secret causes no event.
	firstRequest := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(request)
		return nil
	})

	// Every replica serves webhooks, also those that do not lead, so each needs the certificate.
	err := ctrl.NewControllerManagedBy(mgr).
		Named("webhook-certificate").
		Watches(&corev1.Secret{}, enqueueSecret).
		Watches(&admissionv1.ValidatingWebhookConfiguration{}, enqueueSecret).
		Watches(&admissionv1.MutatingWebhookConfiguration{}, enqueueSecret).
		WatchesRawSource(firstRequest).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, NeedLeaderElection: ptr.To(false), SkipNameValidation: &skipNameValidation}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller: %w", err)
	}

	return nil
}

// signingKeyPair returns a CA key pair, nil if it is invalid or no RSA key, which the rotator always creates.
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
