// Package framework is shared by tests on a cluster: objects that are removed with their test,
// clients of other users, and readers for gomega's Eventually.
package framework

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
)

// Timeout is long enough for a busy machine.
const Timeout = 30 * time.Second

// Framework is an administrator's client of a cluster.
type Framework struct {
	client.WithWatch
	Config *rest.Config
}

// New returns the framework of a cluster's administrator.
func New(config *rest.Config) (Framework, error) {
	scheme, err := deployment.NewScheme()
	if err != nil {
		return Framework{}, err
	}
	admin, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	return Framework{admin, config}, err
}

// NewGomega returns a gomega with Timeout as default.
func NewGomega(t *testing.T) *gomega.WithT {
	g := gomega.NewWithT(check.Trail(t))
	g.SetDefaultEventuallyTimeout(Timeout)
	g.SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	g.SetDefaultConsistentlyDuration(1500 * time.Millisecond)
	return g
}

// ClientAs returns a client that impersonates another user.
func (w Framework) ClientAs(t *testing.T, user string, groups ...string) client.Client {
	config := rest.CopyConfig(w.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	return check.Value(client.New(config, client.Options{Scheme: w.Scheme()}))(t)
}

// ServiceAccountClient returns a client of a ServiceAccount in the namespace of our programs.
func (w Framework) ServiceAccountClient(t *testing.T, name string) client.Client {
	const accounts = "system:serviceaccount"
	return w.ClientAs(t, accounts+":"+deployment.Namespace+":"+name, accounts+"s", accounts+"s:"+deployment.Namespace)
}

// CreateWithCleanup creates an object and deletes it at the end of the test.
func (w Framework) CreateWithCleanup(t *testing.T, object client.Object) {
	NewGomega(t).Expect(w.Create(t.Context(), object)).To(gomega.Succeed())
	t.Cleanup(func() { w.DeleteAndWait(t, object) })
}

// DeleteAndWait deletes an object and waits until it is gone.
func (w Framework) DeleteAndWait(t *testing.T, object client.Object) {
	ctx := context.WithoutCancel(t.Context())
	NewGomega(t).Expect(client.IgnoreNotFound(w.Delete(ctx, object, client.GracePeriodSeconds(0)))).To(gomega.Succeed())
	NewGomega(t).Eventually(w.IsGone(ctx, object)).Should(gomega.BeTrue(), "%T %s must be deleted", object, object.GetName())
}

// objectOf is a pointer to an object of a type.
type objectOf[O any] interface {
	*O
	client.Object
}

// Read returns what a function reads of an object, for use in Eventually.
func Read[O, V any, P objectOf[O]](ctx context.Context, reader client.Reader, key client.ObjectKey, value func(*O) V) func() (V, error) {
	return func() (found V, err error) {
		var object O
		err = reader.Get(ctx, key, P(&object))
		if err == nil {
			found = value(&object)
		}
		return found, err
	}
}

// Fetch returns an object, which must exist.
func Fetch[O any, P objectOf[O]](t testing.TB, reader client.Reader, key client.ObjectKey) *O {
	var object O
	check.NoError(t, reader.Get(t.Context(), key, P(&object)))
	return &object
}

// ExpectTyped expects that the API server finds no wrong types in the expressions of a
// ValidatingAdmissionPolicy.
func (w Framework) ExpectTyped(t *testing.T, name string) {
	status := Read(t.Context(), w, client.ObjectKey{Name: name}, func(p *admissionv1.ValidatingAdmissionPolicy) admissionv1.ValidatingAdmissionPolicyStatus {
		return p.Status
	})
	isTyped := gomega.HaveField("TypeChecking", gomega.Or(gomega.BeNil(), gomega.HaveField("ExpressionWarnings", gomega.BeEmpty())))
	NewGomega(t).Eventually(status).Should(gomega.And(gomega.HaveField("ObservedGeneration", gomega.BeNumerically(">", 0)), isTyped))
}

// IsGone reports whether an object does not exist.
func (w Framework) IsGone(ctx context.Context, object client.Object) func() (bool, error) {
	return func() (bool, error) {
		err := w.Get(ctx, client.ObjectKeyFromObject(object), object.DeepCopyObject().(client.Object))
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
}

// RegisterWebhooks registers the shipped webhooks and directs their Service to a port of this
// process.
func RegisterWebhooks(ctx context.Context, c *cluster.Cluster, port int) error {
	return deployment.RegisterWebhooks(ctx, c, port)
}

// MergePatch sends a merge patch and does not change the given object.
func MergePatch(t *testing.T, as client.Client, object client.Object, patch string, options ...client.PatchOption) error {
	return as.Patch(t.Context(), object.DeepCopyObject().(client.Object), client.RawPatch(apitypes.MergePatchType, []byte(patch)), options...)
}

// EventMessages returns the messages of an object's events with a reason.
func (w Framework) EventMessages(t *testing.T, object client.Object, reason string) func() ([]string, error) {
	return func() ([]string, error) {
		var list corev1.EventList
		err := w.List(t.Context(), &list)
		var messages []string
		for _, e := range list.Items {
			if e.InvolvedObject.UID == object.GetUID() && e.Reason == reason {
				messages = append(messages, e.Message)
			}
		}
		return messages, err
	}
}

// Condition returns a condition of a CardQuota or ServiceTypePolicy as "Status/Reason:
// message", or "".
func (w Framework) Condition(t *testing.T, object client.Object, kind string) func() (string, error) {
	return func() (string, error) {
		err := w.Get(t.Context(), client.ObjectKeyFromObject(object), object)
		var conditions []metav1.Condition
		switch of := object.(type) {
		case *v1alpha1.CardQuota:
			conditions = of.Status.Conditions
		case *v1alpha1.ServiceTypePolicy:
			conditions = of.Status.Conditions
		}

		if c := meta.FindStatusCondition(conditions, kind); c != nil {
			return fmt.Sprintf("%s/%s: %s", c.Status, c.Reason, c.Message), err
		}

		return "", err
	}
}

// NewCardQuota returns a CardQuota of H200 for training; change may be nil.
func NewCardQuota(name string, cards int64, change func(*v1alpha1.CardQuota)) *v1alpha1.CardQuota {
	quota := builder.CardQuota(name).Card("NVIDIA-H200", cards).Resources("64", "256Gi").Obj()
	if change != nil {
		change(quota)
	}
	return quota
}

// NotFound matches a NotFound error.
func NotFound() types.GomegaMatcher {
	return gomega.WithTransform(apierrors.IsNotFound, gomega.BeTrue())
}
