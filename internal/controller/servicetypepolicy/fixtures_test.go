package servicetypepolicy

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
	shared "cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/fieldowner"
)

// plain is a configuration as Volcano's installation makes it, with a comment.
const plain = `# by hand
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: nodeorder
`

var (
	place = types.NamespacedName{Namespace: "volcano-system", Name: "volcano-scheduler-configmap"}
	key   = "volcano-scheduler.conf"
	home  = "cards" // the scheduler's namespace
	noon  = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
)

// errKilled ends a Reconcile as the end of the process would.
var errKilled = errors.New("killed")

// scene is an API server in memory, a clock, and the operator.
type scene struct {
	*testing.T
	client client.WithWatch
	events *record.FakeRecorder
	now    time.Time
	r      *Reconciler
	// writes counts the writes of the operator. It dies after the allowed ones, never while that is negative.
	writes, allowed int
	// refuse makes the API server refuse a write.
	refuse func(client.Object) error
}

func newScene(t *testing.T, objects ...client.Object) *scene {
	s := &scene{T: t, events: record.NewFakeRecorder(1000), now: noon, allowed: -1}
	s.client = fake.NewClientBuilder().WithScheme(builder.Scheme(t, corev1.AddToScheme, coordinationv1.AddToScheme, schedulingv1.AddToScheme, v1alpha1.AddToScheme)).
		WithStatusSubresource(&v1alpha1.ServiceTypePolicy{}).
		WithReturnManagedFields().WithObjects(objects...).Build()
	s.client = fieldowner.CheckStatus(t, s.client)
	s.restart()
	return s
}

// restart starts another operator, which knows nothing but the objects.
func (s *scene) restart() {
	wrote := func(object client.Object, write func() error) error {
		if s.refuse != nil {
			if err := s.refuse(object); err != nil {
				return err
			}
		}
		if s.allowed >= 0 && s.writes >= s.allowed {
			return errKilled
		}
		s.writes++
		return write()
	}

	operator := interceptor.NewClient(s.client, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return wrote(o, func() error { return c.Create(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return wrote(o, func() error { return c.Delete(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return wrote(o, func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return wrote(&corev1.ConfigMap{}, func() error { return c.Apply(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return wrote(o, func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})

	s.r = &Reconciler{
		client: operator, live: s.client, events: s.events, now: func() time.Time { return s.now },
		throttle: shared.NewStatusThrottle(0), watchBase: func(types.NamespacedName) {}, schedulerNamespace: home, volcanoNamespace: place.Namespace,
		inForce: func(read *v1alpha1.ServiceTypePolicy) *v1alpha1.ServiceTypePolicy { return policy.InForce(read, nil) },
		synced:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "synced"}, []string{"policy"}),
	}
}

// reconcile is one Reconcile of the policy.
func (s *scene) reconcile() (ctrl.Result, error) {
	return s.r.Reconcile(s.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: v1alpha1.PolicyName}})
}

// settle reconciles until no Reconcile asks for another one within a second.
func (s *scene) settle() {
	for range 20 {
		result := check.Value(s.reconcile())(s.T)
		if result.RequeueAfter == 0 || result.RequeueAfter > time.Second {
			return
		}
		s.now = s.now.Add(result.RequeueAfter)
	}
	check.Must(s, false, "20 reconciles each asked for another one")
}

// newSettledScene has Volcano's ConfigMap and a policy, whose configuration is written.
func newSettledScene(t *testing.T) *scene {
	s := newScene(t, newConfigMap(place.Name, plain), newPolicy())
	s.settle()
	return s
}

// read reads an object, nil when there is none.
func read[O client.Object](s *scene, key client.ObjectKey, object O) (missing O) {
	err := s.client.Get(s.Context(), key, object)
	if apierrors.IsNotFound(err) {
		return missing
	}
	check.NoError(s, err)
	return object
}

// policy reads the policy, nil when it is gone.
func (s *scene) policy() *v1alpha1.ServiceTypePolicy {
	return read(s, client.ObjectKey{Name: v1alpha1.PolicyName}, &v1alpha1.ServiceTypePolicy{})
}

// change changes the spec as a user does.
func (s *scene) change(change func(*v1alpha1.ServiceTypePolicySpec)) {
	p := s.policy()
	change(&p.Spec)
	p.Generation++
	check.NoError(s, s.client.Update(s.Context(), p, client.FieldOwner("user")))
}

// configSynced returns condition ConfigSynced as "status/reason: message".
func (s *scene) configSynced() string {
	c := conditions.Get(s.policy().Status.Conditions, v1alpha1.ConditionConfigSynced)
	return fmt.Sprintf("%s/%s: %s", c.Status, c.Reason, c.Message)
}

// configMap reads a ConfigMap, nil when there is none.
func (s *scene) configMap(namespace, name string) *corev1.ConfigMap {
	return read(s, client.ObjectKey{Namespace: namespace, Name: name}, &corev1.ConfigMap{})
}

// rendered is the scheduler's ConfigMap, nil when there is none.
func (s *scene) rendered() *corev1.ConfigMap { return s.configMap(home, policy.ConfigMapName) }

// write puts a text into a ConfigMap as an administrator does.
func (s *scene) write(cm *corev1.ConfigMap, manager, text string) {
	base := cm.DeepCopy()
	cm.Data[key] = text
	check.NoError(s, s.client.Patch(s.Context(), cm, client.MergeFrom(base), client.FieldOwner(manager)))
}

// base is Volcano's ConfigMap.
func (s *scene) base() *corev1.ConfigMap { return s.configMap(place.Namespace, place.Name) }

// text is what the scheduler reads, "" when there is nothing.
func (s *scene) text() string {
	if cm := s.rendered(); cm != nil {
		return cm.Data[key]
	}
	return ""
}

// takeEvents returns and forgets the events.
func (s *scene) takeEvents() []string {
	var out []string
	for len(s.events.Events) > 0 {
		out = append(out, <-s.events.Events)
	}
	return out
}

func (s *scene) classNames() []string {
	var list schedulingv1.PriorityClassList
	check.NoError(s, s.client.List(s.Context(), &list))
	var names []string
	for _, class := range list.Items {
		names = append(names, class.Name)
	}
	return names
}

func newConfigMap(name, text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: place.Namespace, Name: name}, Data: map[string]string{key: text, "other": "kept"}}
}

func newPolicy() *v1alpha1.ServiceTypePolicy {
	return &v1alpha1.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.PolicyName, UID: "this", Generation: 1}}
}
