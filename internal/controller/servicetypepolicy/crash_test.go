package servicetypepolicy

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/testing/check"
)

// stored is everything that lasts, in words.
func (w *world) stored() map[string]string {
	w.Helper()
	out := map[string]string{"classes": fmt.Sprint(w.classNames())}
	for _, name := range []string{place.Name, policy.OriginalName(place.Name), "second", policy.OriginalName("second")} {
		if cm := w.configMap(name); cm != nil {
			out[name] = fmt.Sprint(cm.Data, cm.Annotations)
		}
	}
	if p := w.policy(); p != nil {
		out["policy"] = fmt.Sprint(p.Finalizers, p.Status.ServiceTypes, p.Status.ConfigMap, p.Status.ConfigHash, w.says())
	}
	return out
}

// TestItGoesOnWhereverItWasKilled does the same with a new process after every
// single write: whatever was done is done neither twice nor by halves.
func TestItGoesOnWhereverItWasKilled(t *testing.T) {
	second := func(w *world) {
		w.change(func(s *v1alpha1.ServiceTypePolicySpec) { s.Scheduler.ConfigMap.Name = "second" })
	}
	for t, before := range check.Cases(t, map[string][]func(*world){
		"making it": nil,
		"another spec": {func(w *world) {
			w.change(func(s *v1alpha1.ServiceTypePolicySpec) { s.Reclaim, s.OverCommitPercent = v1alpha1.ReclaimPods, 150 })
		}},
		"another ConfigMap":          {second},
		"deleting it":                {func(w *world) { w.must(w.client.Delete(w.Context(), w.policy())) }},
		"deleting it after it moved": {second, func(w *world) { w.must(w.client.Delete(w.Context(), w.policy())) }},
		"deleting it while others changed the text": {func(w *world) { w.write("kubectl-edit", w.text()+"  - name: binpack\n") },
			func(w *world) { w.must(w.client.Delete(w.Context(), w.policy())) }},
	}) {
		run := func(kill int) (*world, int) {
			objects := []client.Object{newConfigMap(place.Name, plain), newConfigMap("second", plain), newPolicy()}
			w := newWorld(t, objects...)
			for i, step := range before {
				w.settle()
				step(w)
				if i == len(before)-1 {
					w.writes = 0
				}
			}
			if kill >= 0 {
				w.killAfter(kill)
			}
			w.settle()
			return w, w.writes
		}
		whole, writes := run(-1)
		check.Must(t, writes >= 2, "%d writes: there is nothing to break off", writes)
		want := whole.stored()
		for kill := range writes {
			broken, _ := run(kill)
			check.Equal(t, fmt.Sprintf("killed after %d of %d writes", kill, writes), want, broken.stored())
		}
	}
}

// killAfter ends the process after so many writes, and starts another.
func (w *world) killAfter(writes int) {
	w.allowed = writes
	for range 10 {
		if _, err := w.look(); errors.Is(err, errKilled) {
			break
		}
	}
	w.allowed = -1
	w.restart()
}

// TestWhatWasBegunIsUndoneElsewhere: nothing is left behind in the first
// ConfigMap when the policy names another one, or goes, while the process is dead
// after any of its writes.
func TestWhatWasBegunIsUndoneElsewhere(t *testing.T) {
	for t, meanwhile := range check.Cases(t, map[string]func(*world){
		"it moved": func(w *world) {
			w.change(func(s *v1alpha1.ServiceTypePolicySpec) { s.Scheduler.ConfigMap.Name = "second" })
		},
		"it was deleted": func(w *world) { w.must(w.client.Delete(w.Context(), w.policy())) },
		"it moved and was deleted": func(w *world) {
			w.change(func(s *v1alpha1.ServiceTypePolicySpec) { s.Scheduler.ConfigMap.Name = "second" })
			if p := w.policy(); p != nil {
				w.must(w.client.Delete(w.Context(), p))
			}
		},
	}) {
		for kill := range 10 {
			w := newWorld(t, newConfigMap(place.Name, plain), newConfigMap("second", plain), newPolicy())
			w.killAfter(kill)
			meanwhile(w)
			w.settle()
			cm := w.configMap(place.Name)
			check.That(t, cm.Data[key] == plain && len(cm.Annotations) == 0,
				"killed after %d writes: the first ConfigMap has annotations %v and says\n%s", kill, cm.Annotations, cm.Data[key])
			check.That(t, w.configMap(policy.OriginalName(place.Name)) == nil,
				"killed after %d writes: the copy of the first ConfigMap is left", kill)
			if w.policy() == nil && len(w.classNames()) > 0 {
				t.Errorf("killed after %d writes: PriorityClasses %q are left", kill, w.classNames())
			}
		}
	}
}

// TestTheOldPlaceIsKeptUntilThereIsANewOne: a name that is wrong must not leave the cluster
// without quotas.
func TestTheOldPlaceIsKeptUntilThereIsANewOne(t *testing.T) {
	w := newWorld(t, newConfigMap(place.Name, plain), newPolicy())
	w.settle()
	written := w.text()
	w.change(func(s *v1alpha1.ServiceTypePolicySpec) { s.Scheduler.ConfigMap.Name = "second" })
	w.settle()
	status := w.policy().Status
	check.That(t, status.ConfigMap != nil && status.ConfigMap.Name == place.Name,
		"nothing is written in the new place, and the status says %v", status.ConfigMap)
	synced := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionConfigSynced)
	check.That(t, synced != nil && synced.Reason == v1alpha1.ReasonConfigMapMissing, "ConfigSynced is %v, want the reason ConfigMapMissing", synced)
	check.That(t, w.text() == written && written != plain, "the old place says\n%s", w.text())
}
