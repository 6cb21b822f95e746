package validation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	vcbatch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// TestTruncatedResult: of many sentences a user gets a few.
func TestTruncatedResult(t *testing.T) {
	var result Result
	for i := range 5_000 {
		result.refuse(specPath, "no %d", i/2)
		result.warn(specPath, "%d%s", i, strings.Repeat("卡", 1000))
	}
	got := result.Truncated()
	shown := texts(got.Errors)
	check.That(t, len(shown) == maxShown && shown[1] == "spec: Forbidden: no 1" && got.Warnings[0] == "2480 more errors are not shown", "shown are %q and %.60s", shown, got.Warnings[0])
	size := len(strings.Join(got.Warnings, ""))
	check.That(t, size <= maxShown*maxShownBytes+100 && got.Warnings[maxShown+1] == "4980 more warnings are not shown", "%d bytes of warnings are shown, then %q", size, got.Warnings[maxShown+1:])
}

// TestTruncatedErrorsAreStillCompared: of an object that was wrong in many ways, one
// more is refused, and it alone.
func TestTruncatedErrorsAreStillCompared(t *testing.T) {
	var before, after Result
	for i := range 3 * maxShown {
		before.refuse(specPath, "no %d", i)
		after.refuse(specPath, "no %d", i)
	}
	since := after.OnlyNew(before)
	check.That(t, len(since.Errors) == 0 && len(since.Warnings) == 3*maxShown, "refused for what was wrong before: %q", since.Errors)
	after.refuse(specPath, "one more")
	check.Equal(t, "refused for", []string{"spec: Forbidden: one more"}, texts(after.OnlyNew(before).Errors))
}

// TestManyTasks: more than are looked at are refused in one sentence, since there
// may be anything in the rest.
func TestManyTasks(t *testing.T) {
	job := func(n int, change func(*vcbatch.Job)) Workload {
		tasks := make([]vcbatch.TaskSpec, n)
		for i := range tasks {
			tasks[i] = task(1, nil, nil)
		}
		j := vcjobOf("open", nil, tasks...)
		if change != nil {
			change(j)
		}
		load, _ := WorkloadOf(j)
		return load
	}
	const many = "has more than 256 pod templates, and the rest is not validated"

	byAnother := func(j *vcbatch.Job) {
		yes := true
		j.OwnerReferences = []metav1.OwnerReference{{Kind: "CronJob", Name: "c", Controller: &yes}}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		now, before      int
		change           func(*vcbatch.Job)
		scene            func(*WorkloadInput)
		refusal, warning string
	}{
		"as many as are looked at": {now: MaxTemplates},
		"one more":                 {now: MaxTemplates + 1, refusal: many},
		"very many":                {now: 50 * MaxTemplates, refusal: many},
		"as before":                {now: 2 * MaxTemplates, before: 3 * MaxTemplates, warning: "as before: spec: Forbidden: " + many},
		"newly":                    {now: 2 * MaxTemplates, before: 3, refusal: many},
		"an owner reference":       {now: 2 * MaxTemplates, change: byAnother, refusal: many},
		"nothing is refused yet":   {now: 2 * MaxTemplates, scene: func(w *WorkloadInput) { w.Policy = nil }, warning: many},
		"a total of what is not looked at": {now: 2 * MaxTemplates, change: func(j *vcbatch.Job) {
			j.Annotations = notes{request: `{"NVIDIA-H200":8}`}
		}, refusal: many},
	}) {
		var before *Workload
		if tc.before > 0 {
			load := job(tc.before, nil)
			before = &load
		}
		answers(t, judged(t, job(tc.now, tc.change), before, snapshotOf(tc.scene)), tc.refusal, tc.warning)
	}

	cron := &vcbatch.CronJob{Spec: vcbatch.CronJobSpec{JobTemplate: vcbatch.JobTemplateSpec{Spec: vcbatch.JobSpec{Tasks: make([]vcbatch.TaskSpec, 300)}}}}
	if load, _ := WorkloadOf(cron); !load.Truncated || len(load.Templates) != MaxTemplates {
		t.Errorf("of a CronJob %d templates are looked at, more: %v", len(load.Templates), load.Truncated)
	}
}

// TestManyMisspeltAnnotations, of an object and of each of its templates.
func TestManyMisspeltAnnotations(t *testing.T) {
	many := notes{}
	for i := range 13_000 {
		many[fmt.Sprintf("volcano.sh/card.%05d", i)] = ""
	}
	group := &v1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "g", Annotations: many}, Spec: v1beta1.PodGroupSpec{Queue: "open"}}
	load, _ := WorkloadOf(group)
	answer := judged(t, load, nil, snapshotOf(nil))
	check.That(t, len(answer.Warnings) == maxNamedKeys+1 && answer.Warnings[maxNamedKeys] == "metadata.annotations: 12995 more annotations that begin with volcano.sh/card. are unknown and have no effect", "warnings %q", answer.Warnings)
}

// TestLongValuesMakeShortSentences: whatever a tenant writes any length of.
func TestLongValuesMakeShortSentences(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	job := vcjobOf(long, notes{inQueue: long, request: long, ofType: long, name: long}, task(1, notes{name: long}, amounts{gpu: "1"}),
		task(1, notes{ofType: long}, amounts{gpu: "1"}), task(1, notes{name: "NVIDIA-H200"}, amounts{corev1.ResourceName("example.com/" + long): "1"}))

	job.Name = long
	job.Spec.Tasks[1].Template.Spec.NodeName = long
	job.Spec.Tasks[1].Template.Spec.SchedulerName = long
	load, _ := WorkloadOf(job)

	answer := judged(t, load, nil, snapshotOf(nil))
	check.That(t, len(answer.Errors) >= 4 && len(answer.Warnings) >= 2,
		"only %d refusals and %d warnings", len(answer.Errors), len(answer.Warnings))
	for _, text := range append(texts(answer.Errors), answer.Warnings...) {
		check.That(t, len(text) <= maxShownBytes, "a sentence of %d bytes: %.100s…", len(text), text)
	}
}

// TestValidationEndsWithItsContext: the API server waits for two seconds.
func TestValidationEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	load, _ := WorkloadOf(vcjobOf("open", nil, task(1, notes{name: "?"}, nil)))
	answer, err := ValidateWorkload(ctx, load, nil, snapshotOf(nil))
	check.That(t, errors.Is(err, context.Canceled) && len(answer.Errors) == 0, "judged: %q, %v", answer.Errors, err)
}

// TestOverlarge: not read, and refused where anything is.
func TestOverlarge(t *testing.T) {
	warn := snapshotOf(func(w *WorkloadInput) { w.Policy.Spec.Admission.SchedulerBypassPolicy = v1alpha1.SchedulerBypassWarn })

	const large = "has too many parts to be validated"
	for name, tc := range map[string]struct {
		result           Result
		refusal, warning string
	}{
		"new":              {RefuseOverlarge(false, snapshotOf(nil)), large, ""},
		"as large before":  {RefuseOverlarge(true, snapshotOf(nil)), "", "as before: spec: Forbidden: " + large},
		"where one looks":  {RefuseOverlarge(false, warn), "", large},
		"without a policy": {RefuseOverlarge(false, WorkloadInput{}), "", large},
	} {
		says(t, name+": refusals", texts(tc.result.Errors), tc.refusal)
		says(t, name+": warnings", tc.result.Warnings, tc.warning)
	}
}
