package servicetypepolicy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	shared "cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/testing/check"
)

// expect checks what condition ConfigSynced says, by its beginning.
func (w *scene) expect(want string) {
	got := w.says()
	check.That(w.T, strings.HasPrefix(got, want), "says %q, want %q…", got, want)
}

// settleTo settles, and checks what condition ConfigSynced says then.
func (w *scene) settleTo(want string) {
	w.settle()
	w.expect(want)
}

func TestTheConfigurationIsRendered(t *testing.T) {
	w := newScene(t, newConfigMap(place.Name, plain), newPolicy())
	w.settleTo("True/Synced: the scheduler's configuration is ConfigMap volcano-system/volcano-scheduler-configmap, key volcano-scheduler.conf merged with this policy")
	check.Equal(t, "Volcano's ConfigMap says", plain, w.base().Data[key])

	cm := w.rendered()
	check.NoError(t, schedulerconfig.Validate(cm.Data[key], schedulerconfig.Shipped()))
	check.That(t, len(cm.OwnerReferences) == 1 && cm.OwnerReferences[0].UID == "this" && cm.OwnerReferences[0].Kind == "ServiceTypePolicy", "it belongs to %v", cm.OwnerReferences)
	check.Equal(t, "hash", schedulerconfig.Hash(cm.Data[key]), w.policy().Status.ConfigHash)
	check.Equal(t, "finalizers", 0, len(w.policy().Finalizers))
	check.That(t, len(w.classNames()) == 4, "PriorityClasses %q", w.classNames())

	t.Log("a change of the base is followed")
	w.takeEvents()
	w.write(w.base(), "helm", plain+"  - name: binpack\n")
	w.settle()
	check.Contains(t, "the text", w.text(), "- name: binpack")
	check.Equal(t, "events", 0, len(w.takeEvents()))

	t.Log("a class that the spec lists no more goes")
	w.change(func(s *v1alpha1.ServiceTypePolicySpec) {
		s.PriorityClasses = []v1alpha1.PriorityClass{{Name: "gold", Value: 9}}
	})
	w.settle()
	check.Equal(t, "PriorityClasses", []string{"gold"}, w.classNames())

	t.Log("a policy that is on its way out makes nothing any more")
	w.must(w.client.Delete(w.Context(), w.rendered()))
	leaving := w.policy()
	leaving.Finalizers = []string{"example.com/waits"}
	w.must(w.client.Update(w.Context(), leaving))
	w.must(w.client.Delete(w.Context(), leaving))
	w.settle()
	check.That(t, w.rendered() == nil, "it was made again:\n%s", w.text())
}

// TestAPolicyDeletedBeforeTheFirstPassHasNoStatus: a foreign finalizer keeps it, and there is
// no condition to repeat, which the API server would refuse.
func TestAPolicyDeletedBeforeTheFirstPassHasNoStatus(t *testing.T) {
	leaving := newPolicy()
	leaving.Finalizers = []string{"example.com/waits"}
	w := newScene(t, newConfigMap(place.Name, plain), leaving)
	w.must(w.client.Delete(w.Context(), leaving))
	w.settle()
	check.Equal(t, "conditions", 0, len(w.policy().Status.Conditions))
	check.That(t, w.rendered() == nil, "it was rendered:\n%s", w.text())
}

// TestWhatAnEarlierVersionWroteIsNamed: a base with capacity-card and cardreclaim in it, which
// the version before merged into Volcano's ConfigMap, gives the same as the one from before.
func TestWhatAnEarlierVersionWroteIsNamed(t *testing.T) {
	clean := newScene(t, newConfigMap(place.Name, plain), newPolicy())
	clean.settle()
	merged := strings.NewReplacer("backfill", "backfill, cardreclaim", "  - name: gang\n", "  - name: gang\n    enableReclaimable: false\n  - name: capacity-card\n    arguments:\n      nodeOrderWeight: 7\n").Replace(plain)
	w := newScene(t, newConfigMap(place.Name, merged), newPolicy())
	w.settleTo("True/Synced: ")
	check.Contains(t, "says", w.says(), "; changed from it: action cardreclaim, plugin capacity-card")
	check.Equal(t, "text", clean.text(), w.text())
	check.Equal(t, "Volcano's ConfigMap says", merged, w.base().Data[key])
}

func TestWithoutAGoodBaseTheLastTextStays(t *testing.T) {
	w := newScene(t, newPolicy())
	w.settleTo("True/Synced: the scheduler's configuration is Volcano's built-in default merged with this policy; the base has never existed: there is no ConfigMap")
	builtIn := w.text()
	w.must(w.client.Delete(w.Context(), w.rendered()))
	w.settle()
	check.Equal(t, "the default, after it was deleted", builtIn, w.text())

	w.must(w.client.Create(w.Context(), newConfigMap(place.Name, plain)))
	w.settleTo("True/Synced: the scheduler's configuration is ConfigMap")
	good := w.text()
	check.That(t, good != builtIn, "the base counts for nothing")

	proves := func() { // the scheduler works by the good text, and says so
		w.r.evidence = &evidence{cached: w.client, live: w.client, schedulerNamespace: home, volcanoNamespace: place.Namespace, bypasses: &bypasses{},
			metric: newEnforcedMetric()}
	}

	proves()
	w.must(w.client.Create(w.Context(), enforcement.Report{Identity: "ours", Version: "v1", At: w.now, ConfigHash: schedulerconfig.Hash(good)}.Lease(home)))
	enforced := func(want string) {
		c := meta.FindStatusCondition(w.policy().Status.Conditions, v1alpha1.ConditionEnforced)
		check.Contains(t, "Enforced", string(c.Status)+"/"+c.Reason+": "+c.Message, want)
	}

	for _, step := range []struct {
		do   func()
		says string
	}{
		{func() { w.write(w.base(), "helm", "actions: [") }, "False/BaseInvalid: "},
		{func() {
			w.write(w.base(), "helm", strings.Replace(plain, "gang", "capacity\n    enableHierarchy: true", 1))
		}, "False/HierarchyNotSupported: "},
		{func() { w.must(w.client.Delete(w.Context(), w.base())) }, "False/BaseMissing: "},
		{func() { w.restart(); proves() }, "False/BaseMissing: "},
		{func() { w.change(func(s *v1alpha1.ServiceTypePolicySpec) { s.OverCommitPercent = 50 }) }, "False/InvalidPolicy: "},
	} {
		step.do()
		w.settle()
		w.settle()
		w.expect(step.says)
		check.Equal(t, step.says+"the text", good, w.text())
		check.Equal(t, step.says+"hash", schedulerconfig.Hash(good), w.policy().Status.ConfigHash)
		enforced("True/Enforced: ")
		check.Equal(t, step.says+"events of BaseInvalid", strings.Count(step.says, "BaseInvalid"), strings.Count(strings.Join(w.takeEvents(), "\n"), "BaseInvalid"))
	}

	t.Log("what was written by hand meanwhile proves nothing, and goes when the base is back")
	w.change(func(s *v1alpha1.ServiceTypePolicySpec) { s.OverCommitPercent = 100 })
	w.write(w.rendered(), "kubectl-edit", plain)
	w.settleTo("False/BaseMissing: ")
	enforced("False/NotConfigured: the scheduler is not configured as the ServiceTypePolicy says: there is no ConfigMap")

	w.must(w.client.Create(w.Context(), newConfigMap(place.Name, plain)))
	w.settleTo("True/Synced: ")
	check.Equal(t, "the text", good, w.text())
}

func TestManualChangesAreReverted(t *testing.T) {
	w := newSettledScene(t)
	good := w.text()

	w.takeEvents()
	for i, edit := range []func(){
		func() { w.write(w.rendered(), "kubectl-edit", plain) },
		func() { w.write(w.rendered(), "kubectl-edit", good+"# mine\n") },
		func() { w.must(w.client.Delete(w.Context(), w.rendered())) },
	} {
		w.now = w.now.Add(time.Minute)
		edit()
		w.settle()
		check.Equal(t, "the text", good, w.text())
		events := w.takeEvents()
		check.Must(t, len(events) == 1, "events: %q", events)
		check.Contains(t, "event", events[0], "Warning ConfigCorrected", "ConfigMap cards/cardquota-scheduler-configmap: "+[]string{"kubectl-edit wrote it", "kubectl-edit wrote it", "another client deleted it"}[i])
	}

	cm := w.rendered()
	cm.OwnerReferences = nil
	cm.Annotations = nil
	w.must(w.client.Update(w.Context(), cm))
	w.settle()
	check.That(t, len(w.rendered().OwnerReferences) == 1 && w.rendered().Annotations[v1alpha1.AnnotationRenderedFrom] != "", "it is not ours any more: %+v", w.rendered())
	check.Equal(t, "events", 0, len(w.takeEvents()))
}

// TestAManualConfigurationIsAdopted: it was there before the policy.
func TestAManualConfigurationIsAdopted(t *testing.T) {
	byHand := newConfigMap(policy.ConfigMapName, plain)
	byHand.Namespace = home
	w := newScene(t, newConfigMap(place.Name, plain), byHand, newPolicy())
	w.settleTo("True/Synced: ")
	check.NoError(t, schedulerconfig.Validate(w.text(), schedulerconfig.Shipped()))
	check.Contains(t, "events", strings.Join(w.takeEvents(), "\n"), "Warning ConfigCorrected")
}

func TestAPersistentWriterCostsOneWriteASecond(t *testing.T) {
	w := newSettledScene(t)
	puts := 0
	for range 100 {
		w.write(w.rendered(), "argocd", plain)
		before := w.text()
		_, err := w.look()

		w.must(err)
		if w.text() != before {
			puts++
		}
		w.now = w.now.Add(100 * time.Millisecond)
	}

	check.That(t, puts >= 9 && puts <= 11, "corrected %d times in ten seconds, want 10", puts)
	w.now = w.now.Add(time.Second)
	w.settle()
	check.That(t, w.text() != plain, "the last change stays")
}

func TestARefusedWriteIsReportedAndRetried(t *testing.T) {
	w := newScene(t, newConfigMap(place.Name, plain), newPolicy())
	w.refuse = func(object client.Object) error {
		if _, ok := object.(*corev1.ConfigMap); ok {
			return apierrors.NewForbidden(corev1.Resource("configmaps"), "x", nil)
		}
		return nil
	}

	result, err := w.look()
	w.must(err)
	check.Equal(t, "looks again after", shared.RefusedRetry, result.RequeueAfter)

	w.expect("False/ConfigRefused: ")
	w.refuse = nil
	w.settleTo("True/Synced: ")
}

// TestAnErrorIsReportedAndRetried: a webhook that does not answer must not freeze what the
// status says, and whether quotas are enforced is still looked at.
func TestAnErrorIsReportedAndRetried(t *testing.T) {
	w := newSettledScene(t)
	w.refuse = func(object client.Object) error {
		if _, ok := object.(*corev1.ConfigMap); ok {
			return apierrors.NewInternalError(errors.New("no answer of a webhook"))
		}
		return nil
	}

	w.change(func(spec *v1alpha1.ServiceTypePolicySpec) { spec.OverCommitPercent = 150 })
	_, err := w.look()
	check.Says(t, err, "no answer of a webhook")
	check.Contains(t, "status", w.says(), "Unknown/ConfigRefused", "no answer of a webhook")

	w.refuse = nil
	w.settle()
	check.Contains(t, "status", w.says(), "True/Synced")
}

// TestReconcileResumesAfterACrashAnywhere starts a new operator after every single write:
// nothing is done twice or left incomplete.
func TestReconcileResumesAfterACrashAnywhere(t *testing.T) {
	other := newConfigMap("other", strings.Replace(plain, "nodeorder", "binpack", 1))
	for t, change := range check.Cases(t, map[string]func(*v1alpha1.ServiceTypePolicySpec){
		"making it": nil,
		"another spec": func(s *v1alpha1.ServiceTypePolicySpec) {
			s.Reclaim = v1alpha1.ReclaimPods
			s.OverCommitPercent = 150
		},
		"another base": func(s *v1alpha1.ServiceTypePolicySpec) { s.Scheduler.BaseConfigMap.Name = "other" },
	}) {
		run := func(kill int) (string, int) {
			w := newScene(t, newConfigMap(place.Name, plain), other.DeepCopy(), newPolicy())
			if change != nil {
				w.settle()
				w.change(change)
				w.writes = 0
			}

			if kill >= 0 {
				w.allowed = kill
				for range 10 {
					if _, err := w.look(); errors.Is(err, errKilled) {
						break
					}
				}

				w.allowed = -1
				w.restart()
			}

			w.settle()
			return fmt.Sprint(w.classNames(), w.rendered().Data, w.rendered().Annotations, w.policy().Status.ServiceTypes, w.policy().Status.ConfigHash, w.says()), w.writes
		}

		want, writes := run(-1)
		check.Must(t, writes >= 2, "%d writes: there is nothing to break off", writes)
		for kill := range writes {
			got, _ := run(kill)
			check.Equal(t, fmt.Sprintf("killed after %d of %d writes", kill, writes), want, got)
		}
	}
}

// TestAStoredPolicyWithPodsInATreeSaysWhatToChange: an earlier version accepted the pair, and an upgrade
// leaves it stored.
func TestAStoredPolicyWithPodsInATreeSaysWhatToChange(t *testing.T) {
	stored := newPolicy()
	stored.Spec.Reclaim = v1alpha1.ReclaimPods
	stored.Spec.QueueHierarchy = v1alpha1.QueueHierarchyTree
	w := newScene(t, newConfigMap(place.Name, plain), stored)
	w.settleTo("False/InvalidPolicy: ")
	check.Contains(t, "condition", w.says(), "spec.reclaim: ", "set reclaim: Gangs, with which cardreclaim takes back by all rules of the tree, or Off")
	check.That(t, w.rendered() == nil, "it was rendered:\n%s", w.text())

	w.change(func(s *v1alpha1.ServiceTypePolicySpec) { s.Reclaim = v1alpha1.ReclaimGangs })
	w.settleTo("True/Synced: ")
	check.Contains(t, "configuration", w.text(), "cardreclaim", "queueHierarchy: Tree")
}
