package servicetypepolicy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/schedulerconf"
	"cardquota.dev/operator/internal/testing/check"
)

func TestAWriterWhoNeverGivesInCostsFewWrites(t *testing.T) {
	w := newWorld(t, newConfigMap(place.Name, plain), newPolicy())
	w.settle()
	w.told()
	w.writes = 0
	puts, due := 0, time.Time{}
	var said []string
	for second := range 60 {
		w.now = noon.Add(time.Hour + time.Duration(second)*time.Second)
		w.write("argocd", plain)
		for range 10 { // ten looks a second, and those that were asked for
			before := w.text()
			result, err := w.look()
			w.must(err)
			if w.text() != before {
				puts++
			}
			if result.RequeueAfter > 0 {
				due = w.now.Add(result.RequeueAfter)
			}
			w.now = w.now.Add(100 * time.Millisecond)
		}
		said = append(said, strings.SplitN(w.says(), ":", 2)[0])
	}
	check.That(t, puts >= 4 && puts <= 8, "put right %d times within a minute, want 4 to 8", puts)
	got := w.says()
	check.That(t, strings.HasPrefix(got, "False/ConfigContested: argocd keeps writing"), "says %q", got)
	for second, reason := range said[10:] {
		check.Equal(t, fmt.Sprintf("in second %d it says", second+10), "False/ConfigContested", reason)
	}
	events := w.told()
	check.That(t, len(events) <= 6, "%d events: %q", len(events), events)
	// It ends: the last change is put right within a minute, and after that the
	// contest is over.
	w.now = due
	w.settle()
	check.That(t, w.holds(), "the last change stays")
	w.now = w.now.Add(time.Minute)
	w.settle()
	got = w.says()
	check.That(t, strings.HasPrefix(got, "True/ConfigCorrected: argocd at "), "afterwards it says %q", got)
}

func TestManyWritersOfManyNamesCostOneWriteASecond(t *testing.T) {
	w := newWorld(t, newConfigMap(place.Name, plain), newPolicy())
	w.settle()
	puts := 0
	for i := range 100 {
		w.write(strings.Repeat("x", i+1), plain)
		before := w.text()
		_, err := w.look()
		w.must(err)
		if w.text() != before {
			puts++
		}
		w.now = w.now.Add(100 * time.Millisecond)
	}
	check.That(t, puts >= 9 && puts <= 11, "put right %d times in ten seconds, want 10", puts)
}

func TestWhatOthersMayChangeIsLeft(t *testing.T) {
	w := newWorld(t, newConfigMap(place.Name, plain), newPolicy())
	w.settle()
	w.told()
	edited := strings.Replace(w.text(), "  - name: nodeorder", "  - name: nodeorder # heavier\n    arguments:\n      leastrequested.weight: 2", 1)
	check.Must(t, edited != w.text(), "nothing to edit")
	w.write("kubectl-edit", edited)
	w.settle()
	check.Equal(t, "the edit was changed", edited, w.text())
	check.Equal(t, "the hash of the edited text", schedulerconf.Hash(edited), w.policy().Status.ConfigHash)
	got := w.says()
	check.That(t, strings.HasPrefix(got, "True/Synced"), "says %q", got)
	events := w.told()
	check.That(t, len(events) == 0, "events: %q", events)
}

func TestALostRecordIsFoundAgain(t *testing.T) {
	w := newWorld(t, newConfigMap(place.Name, plain), newPolicy())
	w.settle()
	cm := w.configMap(place.Name)
	record := cm.Annotations[v1alpha1.AnnotationSchedulerConfigUndo]
	check.Must(t, record != "", "there is no record")
	for _, spoilt := range []string{"", "{broken"} {
		cm = w.configMap(place.Name)
		base := cm.DeepCopy()
		cm.Annotations[v1alpha1.AnnotationSchedulerConfigUndo] = spoilt
		w.must(w.client.Patch(w.Context(), cm, client.MergeFrom(base), client.FieldOwner("cleaner")))
		w.now = w.now.Add(10 * time.Minute)
		w.settle()
		check.Equal(t, fmt.Sprintf("after %q the record", spoilt), record, w.configMap(place.Name).Annotations[v1alpha1.AnnotationSchedulerConfigUndo])
	}
	w.must(w.client.Delete(w.Context(), w.policy()))
	w.settle()
	check.Equal(t, "the text is not what it was", plain, w.text())
}

func TestARefusalIsToldAndTriedAgain(t *testing.T) {
	w := newWorld(t, newConfigMap(place.Name, plain), newPolicy())
	w.refuse = func(object client.Object) error {
		if cm, ok := object.(*corev1.ConfigMap); ok {
			return apierrors.NewForbidden(corev1.Resource("configmaps"), cm.Name, nil)
		}
		return nil
	}
	result, err := w.look()
	w.must(err)
	check.Equal(t, "looks again after", refusedRetry, result.RequeueAfter)
	got := w.says()
	check.That(t, strings.HasPrefix(got, "False/ConfigRefused"), "says %q", got)
	w.refuse = nil
	w.settle()
	got = w.says()
	check.That(t, strings.HasPrefix(got, "True/Synced"), "says %q", got)

	t.Log("a deleted policy waits for a while, and no longer")
	w.told()
	w.refuse = func(object client.Object) error {
		if cm, ok := object.(*corev1.ConfigMap); ok {
			return apierrors.NewForbidden(corev1.Resource("configmaps"), cm.Name, nil)
		}
		return nil
	}
	w.must(w.client.Delete(w.Context(), w.policy()))
	w.now = w.policy().DeletionTimestamp.Time
	_, err = w.look()
	w.must(err)
	got = w.says()
	check.That(t, strings.HasPrefix(got, "False/ConfigRefused"), "says %q", got)
	w.now = w.now.Add(patience)
	w.settle()
	check.Must(t, w.policy() == nil, "the policy is still there")
	check.That(t, w.configMap(policy.OriginalName(place.Name)) != nil, "the copy of the text is gone although the text was not restored")
	events := strings.Join(w.told(), "\n")
	check.That(t, strings.Contains(events, "Warning ConfigNotRestored"), "events: %s", events)
}

func TestAWriteInTheSameMomentIsNotLost(t *testing.T) {
	w := newWorld(t, newConfigMap(place.Name, plain), newPolicy())
	edited := strings.Replace(plain, "# by hand", "# by two hands", 1)
	wrote := false
	w.refuse = func(object client.Object) error {
		if cm, ok := object.(*corev1.ConfigMap); ok && cm.Name == place.Name && !wrote {
			wrote = true
			w.write("kubectl-edit", edited) // after it was read, before it is written
		}
		return nil
	}
	w.settle()
	check.That(t, strings.Contains(w.text(), "# by two hands") && w.holds(), "the text says\n%s", w.text())
	w.must(w.client.Delete(w.Context(), w.policy()))
	wrote, edited = false, strings.Replace(w.text(), "two hands", "three hands", 1)
	w.settle()
	check.Equal(t, "after the policy the text", strings.Replace(plain, "# by hand", "# by three hands", 1), w.text())
}
