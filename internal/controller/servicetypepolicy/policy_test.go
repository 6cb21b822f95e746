package servicetypepolicy

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/schedulerconf"
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
	if puts < 4 || puts > 8 {
		t.Errorf("put right %d times within a minute, want 4 to 8", puts)
	}
	if got := w.says(); !strings.HasPrefix(got, "False/ConfigContested: argocd keeps writing") {
		t.Errorf("says %q", got)
	}
	for second, reason := range said[10:] {
		if reason != "False/ConfigContested" {
			t.Errorf("in second %d it says %q", second+10, reason)
		}
	}
	if events := w.told(); len(events) > 6 {
		t.Errorf("%d events: %q", len(events), events)
	}
	// It ends: the last change is put right within a minute, and after that the
	// contest is over.
	w.now = due
	w.settle()
	if !w.holds() {
		t.Error("the last change stays")
	}
	w.now = w.now.Add(time.Minute)
	w.settle()
	if got := w.says(); !strings.HasPrefix(got, "True/ConfigCorrected: argocd at ") {
		t.Errorf("afterwards it says %q", got)
	}
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
	if puts < 9 || puts > 11 {
		t.Errorf("put right %d times in ten seconds, want 10", puts)
	}
}

func TestWhatOthersMayChangeIsLeft(t *testing.T) {
	w := newWorld(t, newConfigMap(place.Name, plain), newPolicy())
	w.settle()
	w.told()
	edited := strings.Replace(w.text(), "  - name: nodeorder", "  - name: nodeorder # heavier\n    arguments:\n      leastrequested.weight: 2", 1)
	if edited == w.text() {
		t.Fatal("nothing to edit")
	}
	w.write("kubectl-edit", edited)
	w.settle()
	if diff := cmp.Diff(edited, w.text()); diff != "" {
		t.Errorf("the edit was changed (-edited +now):\n%s", diff)
	}
	if got := w.policy().Status.ConfigHash; got != schedulerconf.Hash(edited) {
		t.Errorf("the hash is %s, not that of the edited text", got)
	}
	if got := w.says(); !strings.HasPrefix(got, "True/Synced") {
		t.Errorf("says %q", got)
	}
	if events := w.told(); len(events) > 0 {
		t.Errorf("events: %q", events)
	}
}

func TestALostRecordIsFoundAgain(t *testing.T) {
	w := newWorld(t, newConfigMap(place.Name, plain), newPolicy())
	w.settle()
	cm := w.configMap(place.Name)
	record := cm.Annotations[v1alpha1.AnnotationSchedulerConfigUndo]
	if record == "" {
		t.Fatal("there is no record")
	}
	for _, spoilt := range []string{"", "{broken"} {
		cm = w.configMap(place.Name)
		base := cm.DeepCopy()
		cm.Annotations[v1alpha1.AnnotationSchedulerConfigUndo] = spoilt
		w.must(w.client.Patch(w.Context(), cm, client.MergeFrom(base), client.FieldOwner("cleaner")))
		w.now = w.now.Add(10 * time.Minute)
		w.settle()
		if got := w.configMap(place.Name).Annotations[v1alpha1.AnnotationSchedulerConfigUndo]; got != record {
			t.Errorf("after %q the record is %q, want %q", spoilt, got, record)
		}
	}
	w.must(w.client.Delete(w.Context(), w.policy()))
	w.settle()
	if diff := cmp.Diff(plain, w.text()); diff != "" {
		t.Errorf("the text is not what it was (-before +after):\n%s", diff)
	}
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
	if result.RequeueAfter != refusedRetry {
		t.Errorf("looks again after %s, want %s", result.RequeueAfter, refusedRetry)
	}
	if got := w.says(); !strings.HasPrefix(got, "False/ConfigRefused") {
		t.Errorf("says %q", got)
	}
	w.refuse = nil
	w.settle()
	if got := w.says(); !strings.HasPrefix(got, "True/Synced") {
		t.Errorf("says %q", got)
	}

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
	if got := w.says(); !strings.HasPrefix(got, "False/ConfigRefused") {
		t.Errorf("says %q", got)
	}
	w.now = w.now.Add(patience)
	w.settle()
	if w.policy() != nil {
		t.Fatal("the policy is still there")
	}
	if w.configMap(policy.OriginalName(place.Name)) == nil {
		t.Error("the copy of the text is gone although the text was not restored")
	}
	if events := strings.Join(w.told(), "\n"); !strings.Contains(events, "Warning ConfigNotRestored") {
		t.Errorf("events: %s", events)
	}
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
	if !strings.Contains(w.text(), "# by two hands") || !w.holds() {
		t.Errorf("the text says\n%s", w.text())
	}
	w.must(w.client.Delete(w.Context(), w.policy()))
	wrote, edited = false, strings.Replace(w.text(), "two hands", "three hands", 1)
	w.settle()
	if diff := cmp.Diff(strings.Replace(plain, "# by hand", "# by three hands", 1), w.text()); diff != "" {
		t.Errorf("after the policy the text differs (-want +got):\n%s", diff)
	}
}
