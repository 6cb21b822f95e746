package validation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	vcbatch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// TestLongResultsAreTruncated: the API server limits what it shows. There are 5000 errors, 2500 distinct ones twice
// each, and 5000 warnings of 3 KB. A user gets the first 20 distinct errors and warnings (maxShown), cut to at most 2
// KiB each. The first warning says how many more errors there are, the last one how many more warnings.
func TestLongResultsAreTruncated(t *testing.T) {
	var result Result
	for i := range 5_000 {
		result.refuse(specPath, "no %d", i/2)
		result.warn(specPath, "%d%s", i, strings.Repeat("卡", 1000))
	}
	got := result.Truncated()

	check.Must(t, len(got.Errors) == maxShown && len(got.Warnings) == 1+maxShown+1, "%d errors and %d warnings", len(got.Errors), len(got.Warnings))
	check.Equal(t, "second error", "spec: Forbidden: no 1", got.Errors[1].Error())
	check.Equal(t, "first warning", "2480 more errors are not shown", got.Warnings[0]) // 2500 - 20
	check.Equal(t, "last warning", "4980 more warnings are not shown", got.Warnings[maxShown+1])
	size := len(strings.Join(got.Warnings, ""))
	check.That(t, size <= maxShown*maxShownBytes+100, "the warnings have %d bytes, want at most 2 KiB each", size)
}

// TestTruncatedErrorsAreStillCompared: more errors than are shown must not hide a new one. An object had 60 errors,
// three times as many as are shown, before a change, and has 61 after it. The change is refused for the new error
// alone; the others are warnings.
func TestTruncatedErrorsAreStillCompared(t *testing.T) {
	var before, after Result
	for i := range 3 * maxShown {
		before.refuse(specPath, "no %d", i)
		after.refuse(specPath, "no %d", i)
	}
	since := after.OnlyNew(before)
	check.Equal(t, "errors after a change that adds none", nil, since.Errors)
	check.Equal(t, "warnings after a change that adds no error", 3*maxShown, len(since.Warnings))

	after.refuse(specPath, "one more")
	check.Equal(t, "errors after a change that adds one", []string{"spec: Forbidden: one more"}, texts(after.OnlyNew(before).Errors))
}

// TestJobsWithMoreThan256TasksAreRefused: the webhook must answer in time, so it validates at most 256 pod templates of a
// workload (MaxTemplates). The rest could request anything, so a job with more of them is refused in one sentence, also
// where it has a total of cards. It gets only a warning if it had too many before, or if no ServiceTypePolicy exists. An
// owner, which lifts other refusals, does not lift this one. A CronJob is cut to 256 templates, too.
func TestJobsWithMoreThan256TasksAreRefused(t *testing.T) {
	newJobOfTasks := func(n int, change func(*vcbatch.Job)) Workload {
		tasks := make([]vcbatch.TaskSpec, n)
		for i := range tasks {
			tasks[i] = newTask(1, nil, nil)
		}
		j := newVCJob("open", nil, tasks...)
		if change != nil {
			change(j)
		}
		return workloadFor(t, j)
	}
	const tooMany = "has more than 256 pod templates, and the rest is not validated"

	setOwner := func(j *vcbatch.Job) {
		j.OwnerReferences = []metav1.OwnerReference{{Kind: "CronJob", Name: "c", Controller: ptr.To(true)}}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		tasks, tasksBefore       int
		change                   func(*vcbatch.Job)
		changeInput              func(*WorkloadInput)
		wantRefusal, wantWarning string
	}{
		"256 tasks":             {tasks: MaxTemplates},
		"257 tasks: refused":    {tasks: MaxTemplates + 1, wantRefusal: tooMany},
		"12,800 tasks: refused": {tasks: 50 * MaxTemplates, wantRefusal: tooMany},
		"512 tasks, 768 before": {
			tasks:       2 * MaxTemplates,
			tasksBefore: 3 * MaxTemplates,
			wantWarning: "as before: spec: Forbidden: " + tooMany,
		},
		"512 tasks, 3 before: refused":              {tasks: 2 * MaxTemplates, tasksBefore: 3, wantRefusal: tooMany},
		"512 tasks of a job with an owner: refused": {tasks: 2 * MaxTemplates, change: setOwner, wantRefusal: tooMany},
		"512 tasks, no ServiceTypePolicy": {
			tasks:       2 * MaxTemplates,
			changeInput: func(w *WorkloadInput) { w.Policy = nil },
			wantWarning: tooMany,
		},
		"512 tasks and a total of cards: refused": {tasks: 2 * MaxTemplates, change: func(j *vcbatch.Job) {
			j.Annotations = annotationMap{cardRequest: `{"NVIDIA-H200":8}`}
		}, wantRefusal: tooMany},
	}) {
		var before *Workload
		if tc.tasksBefore > 0 {
			load := newJobOfTasks(tc.tasksBefore, nil)
			before = &load
		}
		checkAnswer(t, validateNow(t, newJobOfTasks(tc.tasks, tc.change), before, newInput(tc.changeInput)), tc.wantRefusal, tc.wantWarning)
	}

	cron := &vcbatch.CronJob{Spec: vcbatch.CronJobSpec{JobTemplate: vcbatch.JobTemplateSpec{Spec: vcbatch.JobSpec{Tasks: make([]vcbatch.TaskSpec, 300)}}}}
	load, _ := WorkloadOf(cron)
	check.That(t, load.Truncated, "a CronJob of 300 tasks is not truncated")
	check.Equal(t, "templates of a CronJob of 300 tasks", MaxTemplates, len(load.Templates))
}

// TestManyUnknownAnnotationsAreCounted: of 13,000 unknown annotations with the prefix of card quota, the warnings name the
// first five (maxNamedKeys) and count the rest.
func TestManyUnknownAnnotationsAreCounted(t *testing.T) {
	many := annotationMap{}
	for i := range 13_000 {
		many[fmt.Sprintf("volcano.sh/card.%05d", i)] = ""
	}
	group := &v1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "g", Annotations: many}, Spec: v1beta1.PodGroupSpec{Queue: "open"}}
	answer := validateNow(t, workloadFor(t, group), nil, newInput(nil))
	check.Must(t, len(answer.Warnings) == maxNamedKeys+1, "warnings %q", answer.Warnings)
	check.Equal(t, "last warning", "metadata.annotations: 12995 more annotations that begin with volcano.sh/card. are unknown and have no effect", answer.Warnings[maxNamedKeys])
}

// TestLongValuesMakeShortSentences: the errors and warnings quote what users write. A job whose names, queue and annotations
// have 1 MiB each still causes sentences of at most 2 KiB.
func TestLongValuesMakeShortSentences(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	job := newVCJob(long, annotationMap{queueName: long, cardRequest: long, serviceType: long, cardName: long}, newTask(1, annotationMap{cardName: long}, amounts{gpu: "1"}),
		newTask(1, annotationMap{serviceType: long}, amounts{gpu: "1"}), newTask(1, annotationMap{cardName: "NVIDIA-H200"}, amounts{corev1.ResourceName("example.com/" + long): "1"}))

	job.Name = long
	job.Spec.Tasks[1].Template.Spec.NodeName = long
	job.Spec.Tasks[1].Template.Spec.SchedulerName = long

	answer := validateNow(t, workloadFor(t, job), nil, newInput(nil))
	check.That(t, len(answer.Errors) >= 4, "only %d errors", len(answer.Errors))
	check.That(t, len(answer.Warnings) >= 2, "only %d warnings", len(answer.Warnings))
	for _, text := range append(texts(answer.Errors), answer.Warnings...) {
		check.That(t, len(text) <= maxShownBytes, "a sentence of %d bytes: %.100s…", len(text), text)
	}
}

// TestValidationEndsWithItsContext: the API server waits two seconds for the webhook. Work after that is in vain, so the
// validation ends with the context of its request, without a result.
func TestValidationEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	invalid := newVCJob("open", nil, newTask(1, annotationMap{cardName: "?"}, nil))
	answer, err := ValidateWorkload(ctx, workloadFor(t, invalid), nil, newInput(nil))
	check.That(t, errors.Is(err, context.Canceled), "error %v", err)
	check.Equal(t, "result", Result{}, answer)
}

// TestOverlargeObjectsAreRefusedUnread: an object with too many parts would cost too much memory to read, so the webhook
// refuses it unread. It only warns if the object was as large before, or where nothing is refused yet: without a policy,
// and with schedulerBypassPolicy Warn.
func TestOverlargeObjectsAreRefusedUnread(t *testing.T) {
	warn := newInput(func(w *WorkloadInput) { w.Policy.Spec.Admission.SchedulerBypassPolicy = v1alpha1.SchedulerBypassWarn })

	const large = "has too many parts to be validated"
	for name, tc := range map[string]struct {
		result                   Result
		wantRefusal, wantWarning string
	}{
		"a new object: refused": {result: RefuseOverlarge(false, newInput(nil)), wantRefusal: large},
		"an object that was as large before": {
			result:      RefuseOverlarge(true, newInput(nil)),
			wantWarning: "as before: spec: Forbidden: " + large,
		},
		"schedulerBypassPolicy Warn": {result: RefuseOverlarge(false, warn), wantWarning: large},
		"no ServiceTypePolicy":       {result: RefuseOverlarge(false, WorkloadInput{}), wantWarning: large},
	} {
		checkOnlyText(t, name+": refusals", texts(tc.result.Errors), tc.wantRefusal)
		checkOnlyText(t, name+": warnings", tc.result.Warnings, tc.wantWarning)
	}
}
