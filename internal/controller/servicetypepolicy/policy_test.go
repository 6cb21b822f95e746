package servicetypepolicy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
	shared "cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/testing/check"
)

// expect checks the beginning of condition ConfigSynced, as "status/reason: message".
func (s *scene) expect(want string) {
	got := s.configSynced()
	check.That(s.T, strings.HasPrefix(got, want), "condition ConfigSynced is %q, want %q…", got, want)
}

// settleTo settles, and checks the beginning of condition ConfigSynced then.
func (s *scene) settleTo(want string) {
	s.settle()
	s.expect(want)
}

// TestTheConfigurationIsRendered: the operator merges Volcano's ConfigMap, the base, with the ServiceTypePolicy into a
// ConfigMap of its own, which our scheduler reads. It leaves the base as it is. The policy gets no finalizer. It owns
// the ConfigMap, and the status has its hash, which the heartbeat of the scheduler must state. A change of the base is
// followed without an event. Four PriorityClasses of the defaults exist.
func TestTheConfigurationIsRendered(t *testing.T) {
	s := newScene(t, newConfigMap(place.Name, plain), newPolicy())
	s.settleTo("True/Synced: the scheduler's configuration is ConfigMap volcano-system/volcano-scheduler-configmap, key volcano-scheduler.conf merged with this policy")
	check.Equal(t, "text of the base", plain, s.base().Data[key])

	cm := s.rendered()
	check.NoError(t, schedulerconfig.Validate(cm.Data[key], schedulerconfig.Shipped()))
	check.Must(t, len(cm.OwnerReferences) == 1, "owners: %v", cm.OwnerReferences)
	check.Equal(t, "kind of the owner", "ServiceTypePolicy", cm.OwnerReferences[0].Kind)
	check.Equal(t, "UID of the owner", "this", cm.OwnerReferences[0].UID)
	check.Equal(t, "hash", schedulerconfig.Hash(cm.Data[key]), s.policy().Status.ConfigHash)
	check.Equal(t, "finalizers of the policy", 0, len(s.policy().Finalizers))
	check.Equal(t, "number of PriorityClasses", 4, len(s.classNames()))

	s.takeEvents()
	s.write(s.base(), "helm", plain+"  - name: binpack\n")
	s.settle()
	check.Contains(t, "text after a change of the base", s.text(), "- name: binpack")
	check.Equal(t, "events after a change of the base", 0, len(s.takeEvents()))
}

// TestPriorityClassesFollowThePolicy: the operator created the four PriorityClasses of the defaults. Then the policy
// lists one class, gold: the operator creates it, and deletes the four.
func TestPriorityClassesFollowThePolicy(t *testing.T) {
	s := newSettledScene(t)
	s.change(func(spec *v1alpha1.ServiceTypePolicySpec) {
		spec.PriorityClasses = []v1alpha1.PriorityClass{{Name: "gold", Value: 9}}
	})
	s.settle()
	check.Equal(t, "PriorityClasses", []string{"gold"}, s.classNames())
}

// TestAPolicyThatIsBeingDeletedCreatesNothing: another client's finalizer keeps a deleted policy for a while. A user
// has deleted the rendered ConfigMap too. The operator does not create it again, since its owner, the policy, is about
// to be deleted.
func TestAPolicyThatIsBeingDeletedCreatesNothing(t *testing.T) {
	s := newSettledScene(t)
	check.NoError(t, s.client.Delete(s.Context(), s.rendered()))
	leaving := s.policy()
	leaving.Finalizers = []string{"example.com/waits"}
	check.NoError(t, s.client.Update(s.Context(), leaving))
	check.NoError(t, s.client.Delete(s.Context(), leaving))

	s.settle()
	check.Equal(t, "rendered text", "", s.text())
}

// TestAPolicyDeletedBeforeTheFirstReconcileHasNoStatus: another client's finalizer keeps the policy. The
// operator has written no condition that it could repeat, and the API server would refuse a condition without a
// status. So it writes no status.
func TestAPolicyDeletedBeforeTheFirstReconcileHasNoStatus(t *testing.T) {
	leaving := newPolicy()
	leaving.Finalizers = []string{"example.com/waits"}
	s := newScene(t, newConfigMap(place.Name, plain), leaving)
	check.NoError(t, s.client.Delete(s.Context(), leaving))

	s.settle()
	check.Equal(t, "conditions", 0, len(s.policy().Status.Conditions))
	check.Equal(t, "rendered text", "", s.text())
}

// TestABaseThatAnEarlierVersionChangedRendersTheSame: an earlier version merged plugin capacity-card, action
// cardreclaim and a switch of plugin gang into Volcano's own ConfigMap. From that base the operator renders the same
// text as from the one without them. The condition says which plugin and action of the base it replaced. It does not
// write the base.
func TestABaseThatAnEarlierVersionChangedRendersTheSame(t *testing.T) {
	clean := newScene(t, newConfigMap(place.Name, plain), newPolicy())
	clean.settle()
	merged := strings.NewReplacer("backfill", "backfill, cardreclaim", "  - name: gang\n", "  - name: gang\n    enableReclaimable: false\n  - name: capacity-card\n    arguments:\n      nodeOrderWeight: 7\n").Replace(plain)
	s := newScene(t, newConfigMap(place.Name, merged), newPolicy())
	s.settleTo("True/Synced: ")
	check.Contains(t, "condition", s.configSynced(), "; changed from it: action cardreclaim, plugin capacity-card")
	check.Equal(t, "rendered text", clean.text(), s.text())
	check.Equal(t, "text of the base", merged, s.base().Data[key])
}

// TestWithoutABaseTheDefaultOfVolcanoIsRendered: a cluster may have no base, which is Volcano's ConfigMap. Then
// the operator renders Volcano's built-in default, also after a user deleted the text, until the base exists.
func TestWithoutABaseTheDefaultOfVolcanoIsRendered(t *testing.T) {
	s := newScene(t, newPolicy())
	s.settleTo("True/Synced: the scheduler's configuration is Volcano's built-in default merged with this policy; the base has never existed: there is no ConfigMap")
	builtIn := s.text()
	check.NoError(t, s.client.Delete(s.Context(), s.rendered()))
	s.settle()
	check.Equal(t, "text after it was deleted", builtIn, s.text())

	check.NoError(t, s.client.Create(s.Context(), newConfigMap(place.Name, plain)))
	s.settleTo("True/Synced: the scheduler's configuration is ConfigMap")
	check.That(t, s.text() != builtIn, "the text is the default although there is a base")
}

// TestWithoutAGoodBaseTheLastTextStays: the base, Volcano's ConfigMap, is damaged, has a hierarchy of Volcano that
// excludes our quotas, or is deleted. Then the operator restarts, and the policy is invalid. Each time the last good
// text stays, with its hash. Quotas are enforced, because the heartbeat of the scheduler states that hash. Only the
// first step has an event BaseInvalid. A text that a user writes meanwhile does not enforce quotas. It is replaced when
// the base is back.
func TestWithoutAGoodBaseTheLastTextStays(t *testing.T) {
	s := newSettledScene(t)
	good := s.text()
	// readEvidence lets the operator evaluate condition Enforced.
	readEvidence := func() {
		s.r.evidence = &evidence{
			cached: s.client, live: s.client, schedulerNamespace: home, volcanoNamespace: place.Namespace, bypasses: &bypasses{}, metric: newEnforcedMetric(),
		}
	}
	expectEnforced := func(want string) {
		c := conditions.Get(s.policy().Status.Conditions, v1alpha1.ConditionEnforced)
		check.Contains(t, "condition Enforced", string(c.Status)+"/"+c.Reason+": "+c.Message, want)
	}

	readEvidence()
	check.NoError(t, s.client.Create(s.Context(), enforcement.Report{Identity: "ours", Version: "v1", At: s.now, ConfigHash: schedulerconfig.Hash(good)}.Lease(home)))
	s.settle()
	s.takeEvents()
	for _, step := range []struct {
		name       string
		change     func()
		wantSynced string
		wantEvents int
	}{
		{"the base is no YAML", func() { s.write(s.base(), "helm", "actions: [") }, "False/BaseInvalid: ", 1},
		{"the base has a hierarchy of Volcano", func() {
			s.write(s.base(), "helm", strings.Replace(plain, "gang", "capacity\n    enableHierarchy: true", 1))
		}, "False/HierarchyNotSupported: ", 0},
		{"the base is deleted", func() { check.NoError(t, s.client.Delete(s.Context(), s.base())) }, "False/BaseMissing: ", 0},
		{"the operator restarts", func() { s.restart(); readEvidence() }, "False/BaseMissing: ", 0},
		{"the policy is invalid", func() {
			s.change(func(spec *v1alpha1.ServiceTypePolicySpec) { spec.OverCommitPercent = 50 }) // at least 100 is valid
		}, "False/InvalidPolicy: ", 0},
	} {
		step.change()
		s.settle()
		s.settle() // nothing changes any more

		s.expect(step.wantSynced)
		check.Equal(t, step.name+": rendered text", good, s.text())
		check.Equal(t, step.name+": hash", schedulerconfig.Hash(good), s.policy().Status.ConfigHash)
		expectEnforced("True/Enforced: ")
		check.Equal(t, step.name+": events of BaseInvalid", step.wantEvents, strings.Count(strings.Join(s.takeEvents(), "\n"), "BaseInvalid"))
	}

	// The policy is valid again, and the base is still missing.
	s.change(func(spec *v1alpha1.ServiceTypePolicySpec) { spec.OverCommitPercent = 100 })
	s.write(s.rendered(), "kubectl-edit", plain)
	s.settleTo("False/BaseMissing: ")
	expectEnforced("False/NotConfigured: the scheduler is not configured as the ServiceTypePolicy says: there is no ConfigMap")
	check.NoError(t, s.client.Create(s.Context(), newConfigMap(place.Name, plain)))
	s.settleTo("True/Synced: ")
	check.Equal(t, "rendered text with the base", good, s.text())
}

// TestManualChangesAreReverted: the text that our scheduler reads is the policy's. The operator replaces a change by
// another client, and an event says who made it. Without another text it repairs owner and annotations silently.
func TestManualChangesAreReverted(t *testing.T) {
	s := newSettledScene(t)
	good := s.text()

	s.takeEvents()
	for _, step := range []struct {
		change    func()
		wantEvent string
	}{
		{func() { s.write(s.rendered(), "kubectl-edit", plain) }, "kubectl-edit wrote it"},
		{func() { s.write(s.rendered(), "kubectl-edit", good+"# mine\n") }, "kubectl-edit wrote it"},
		{func() { check.NoError(t, s.client.Delete(s.Context(), s.rendered())) }, "another client deleted it"},
	} {
		s.now = s.now.Add(time.Minute) // the operator corrects the text at most once a second
		step.change()
		s.settle()

		check.Equal(t, "text", good, s.text())
		events := s.takeEvents()
		check.Must(t, len(events) == 1, "events: %q", events)
		check.Contains(t, "event", events[0], "Warning ConfigCorrected", "ConfigMap cards/cardquota-scheduler-configmap: "+step.wantEvent)
	}

	cm := s.rendered()
	cm.OwnerReferences = nil
	cm.Annotations = nil
	check.NoError(t, s.client.Update(s.Context(), cm))
	s.settle()
	check.Equal(t, "owners", 1, len(s.rendered().OwnerReferences))
	check.That(t, s.rendered().Annotations[v1alpha1.AnnotationRenderedFrom] != "", "the annotation is not repaired")
	check.Equal(t, "events", 0, len(s.takeEvents()))
}

// TestAManualConfigurationIsAdopted: an administrator wrote the ConfigMap of our scheduler by hand before there was a
// ServiceTypePolicy. The operator replaces its text, and an event says so.
func TestAManualConfigurationIsAdopted(t *testing.T) {
	byHand := newConfigMap(policy.ConfigMapName, plain)
	byHand.Namespace = home
	s := newScene(t, newConfigMap(place.Name, plain), byHand, newPolicy())
	s.settleTo("True/Synced: ")
	check.NoError(t, schedulerconfig.Validate(s.text(), schedulerconfig.Shipped()))
	check.Contains(t, "events", strings.Join(s.takeEvents(), "\n"), "Warning ConfigCorrected")
}

// TestAPersistentWriterCostsOneWriteASecond: another client, here a GitOps tool, writes its own text every 100
// ms for ten seconds. The operator replaces that text only once a second, so that both do not write as fast as
// they can. When the tool stops, the text of the operator stays.
func TestAPersistentWriterCostsOneWriteASecond(t *testing.T) {
	s := newSettledScene(t)
	corrections := 0
	for range 100 {
		s.write(s.rendered(), "argocd", plain)
		check.Value(s.reconcile())(t)
		if s.text() != plain {
			corrections++
		}
		s.now = s.now.Add(100 * time.Millisecond)
	}
	check.That(t, corrections >= 9 && corrections <= 11, "corrected %d times in ten seconds, want 10", corrections)

	s.now = s.now.Add(time.Second)
	s.settle()
	check.That(t, s.text() != plain, "the last change of the other client stays")
}

// refuseConfigMaps lets the API server answer each write of a ConfigMap with an error.
func (s *scene) refuseConfigMaps(answer error) {
	s.refuse = func(object client.Object) error {
		if _, ok := object.(*corev1.ConfigMap); ok {
			return answer
		}
		return nil
	}
}

// TestARefusedWriteIsReportedAndRetried: the operator lacks the right to write the ConfigMap. It reports that and
// tries again after RefusedRetry, since no watch says when the right comes.
func TestARefusedWriteIsReportedAndRetried(t *testing.T) {
	s := newScene(t, newConfigMap(place.Name, plain), newPolicy())
	s.refuseConfigMaps(apierrors.NewForbidden(corev1.Resource("configmaps"), "x", nil))

	check.Equal(t, "delay of the retry", shared.RefusedRetry, check.Value(s.reconcile())(t).RequeueAfter)
	s.expect("False/ConfigRefused: ")

	s.refuse = nil
	s.settleTo("True/Synced: ")
}

// TestAnErrorIsReportedAndRetried: a webhook that does not answer must not freeze the status. The condition is
// Unknown, since the write may have been stored, and names the error. The error makes the controller try again.
func TestAnErrorIsReportedAndRetried(t *testing.T) {
	s := newSettledScene(t)
	s.refuseConfigMaps(apierrors.NewInternalError(errors.New("no answer of a webhook")))

	s.change(func(spec *v1alpha1.ServiceTypePolicySpec) { spec.OverCommitPercent = 150 })
	_, err := s.reconcile()
	check.Says(t, err, "no answer of a webhook")
	check.Contains(t, "condition", s.configSynced(), "Unknown/ConfigRefused", "no answer of a webhook")

	s.refuse = nil
	s.settleTo("True/Synced")
}

// TestReconcileResumesAfterACrashAnywhere: the operator may die at any write. A new one then reaches the same
// objects and the same status as an operator that did not die. The test counts the writes of a change, and
// lets the operator die before each of them.
func TestReconcileResumesAfterACrashAnywhere(t *testing.T) {
	other := newConfigMap("other", strings.Replace(plain, "nodeorder", "binpack", 1))
	for t, change := range check.Cases(t, map[string]func(*v1alpha1.ServiceTypePolicySpec){
		"the policy is new": nil,
		"the spec changes": func(spec *v1alpha1.ServiceTypePolicySpec) {
			spec.Reclaim = v1alpha1.ReclaimPods
			spec.OverCommitPercent = 150
		},
		"the spec names another base": func(spec *v1alpha1.ServiceTypePolicySpec) { spec.Scheduler.BaseConfigMap.Name = "other" },
	}) {
		// run makes the change with an operator that dies after some writes, -1 for never. It returns what exists in
		// the end, and the number of writes.
		run := func(dieAfter int) (string, int) {
			s := newScene(t, newConfigMap(place.Name, plain), other.DeepCopy(), newPolicy())
			if change != nil {
				s.settle()
				s.change(change)
				s.writes = 0
			}

			if dieAfter >= 0 {
				s.allowed = dieAfter
				for range 10 {
					if _, err := s.reconcile(); errors.Is(err, errKilled) {
						break
					}
				}

				s.allowed = -1
				s.restart()
			}

			s.settle()
			return fmt.Sprint(s.classNames(), s.rendered().Data, s.rendered().Annotations, s.policy().Status.ServiceTypes, s.policy().Status.ConfigHash, s.configSynced()), s.writes
		}

		want, writes := run(-1)
		check.Must(t, writes >= 2, "%d writes: the operator cannot die between two", writes)
		for dieAfter := range writes {
			got, _ := run(dieAfter)
			check.Equal(t, fmt.Sprintf("the operator died after %d of %d writes", dieAfter, writes), want, got)
		}
	}
}

// TestAStoredPolicyWithPodsInATreeSaysWhatToChange: an earlier version accepted reclaim: Pods with a tree of queues,
// and an upgrade leaves such a policy stored. The scheduler cannot enforce the rules of the tree then. So nothing is
// rendered, and the condition says which values of reclaim are possible. With one of them, Gangs, it is rendered.
func TestAStoredPolicyWithPodsInATreeSaysWhatToChange(t *testing.T) {
	stored := newPolicy()
	stored.Spec.Reclaim = v1alpha1.ReclaimPods
	stored.Spec.QueueHierarchy = v1alpha1.QueueHierarchyTree
	s := newScene(t, newConfigMap(place.Name, plain), stored)
	s.settleTo("False/InvalidPolicy: ")
	check.Contains(t, "condition", s.configSynced(), "spec.reclaim: ", "set reclaim: Gangs, with which cardreclaim takes back by all rules of the tree, or Off")
	check.Equal(t, "rendered text", "", s.text())

	s.change(func(spec *v1alpha1.ServiceTypePolicySpec) { spec.Reclaim = v1alpha1.ReclaimGangs })
	s.settleTo("True/Synced: ")
	check.Contains(t, "configuration", s.text(), "cardreclaim", "queueHierarchy: Tree")
}
