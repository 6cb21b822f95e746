package admission

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

// TestAnAnswerIsShort: whoever asks for many sentences gets a few.
func TestAnAnswerIsShort(t *testing.T) {
	var answer Answer
	for i := range 5_000 {
		answer.refuse("no %d", i/2)
		answer.warn("%d%s", i, strings.Repeat("卡", 1000))
	}
	check.Equal(t, "refusals", 2_500, len(answer.Refusals))
	short := answer.Short()
	got := short.Refusals
	check.That(t, len(got) == mostSentences+1 && got[0] == "no 0" && got[mostSentences] == "and 2480 more", "shown are %q", got)
	size := len(strings.Join(short.Warnings, ""))
	check.That(t, size <= mostSentences*mostBytes+100, "%d bytes of warnings are shown", size)
	whole := (&Answer{Refusals: []string{"a"}, Warnings: []string{"b"}}).Short()
	check.That(t, whole.Text() == "a" && whole.Warnings[0] == "b", "a short answer becomes %+v", whole)
}

// TestWhatIsNotShownIsStillCompared: of an object that was wrong in many ways, one
// more is refused, and it alone.
func TestWhatIsNotShownIsStillCompared(t *testing.T) {
	var before, after Answer
	for i := range 3 * mostSentences {
		before.refuse("no %d", i)
		after.refuse("no %d", i)
	}
	since := after.Since(before)
	check.That(t, since.Allowed() && len(since.Warnings) == 3*mostSentences, "refused for what was wrong before: %q", since.Refusals)
	after.refuse("one more")
	if since := after.Since(before); since.Text() != "one more" {
		t.Errorf("refused for %q", since.Refusals)
	}
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
	const many = "Job j: has more than 256 pod templates, and no more are looked at"
	byAnother := func(j *vcbatch.Job) {
		yes := true
		j.OwnerReferences = []metav1.OwnerReference{{Kind: "CronJob", Name: "c", Controller: &yes}}
	}
	for t, tc := range check.Cases(t, map[string]struct {
		now, before      int
		change           func(*vcbatch.Job)
		world            func(*World)
		refusal, warning string
	}{
		"as many as are looked at": {now: MostTemplates},
		"one more":                 {now: MostTemplates + 1, refusal: many},
		"very many":                {now: 50 * MostTemplates, refusal: many},
		"as before":                {now: 2 * MostTemplates, before: 3 * MostTemplates, warning: "as before: " + many},
		"newly":                    {now: 2 * MostTemplates, before: 3, refusal: many},
		"made by another object":   {now: 2 * MostTemplates, change: byAnother, warning: many},
		"nobody is refused yet":    {now: 2 * MostTemplates, world: func(w *World) { w.Policy = nil }, warning: many},
		"a total of what is not looked at": {now: 2 * MostTemplates, change: func(j *vcbatch.Job) {
			j.Annotations = notes{request: `{"NVIDIA-H200":8}`}
		}, refusal: many},
	}) {
		var before *Workload
		if tc.before > 0 {
			load := job(tc.before, nil)
			before = &load
		}
		answers(t, judged(t, job(tc.now, tc.change), before, worldOf(tc.world)), tc.refusal, tc.warning)
	}
	cron := &vcbatch.CronJob{Spec: vcbatch.CronJobSpec{JobTemplate: vcbatch.JobTemplateSpec{Spec: vcbatch.JobSpec{Tasks: make([]vcbatch.TaskSpec, 300)}}}}
	if load, _ := WorkloadOf(cron); !load.More || len(load.Templates) != MostTemplates {
		t.Errorf("of a CronJob %d templates are looked at, more: %v", len(load.Templates), load.More)
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
	answer := judged(t, load, nil, worldOf(nil))
	if len(answer.Warnings) != mostKeys+1 || answer.Warnings[mostKeys] != "PodGroup g: nobody reads 12995 more annotations that begin with volcano.sh/card." {
		t.Errorf("warnings %q", answer.Warnings)
	}
}

// TestLongValuesMakeShortSentences: whatever a tenant writes any length of.
func TestLongValuesMakeShortSentences(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	job := vcjobOf(long, notes{inQueue: long, request: long, ofType: long, name: long}, task(1, notes{name: long}, amounts{gpu: "1"}),
		task(1, notes{ofType: long}, amounts{gpu: "1"}), task(1, notes{name: "NVIDIA-H200"}, amounts{corev1.ResourceName("example.com/" + long): "1"}))
	job.Name = long
	job.Spec.Tasks[1].Template.Spec.NodeName, job.Spec.Tasks[1].Template.Spec.SchedulerName = long, long
	load, _ := WorkloadOf(job)
	answer := judged(t, load, nil, worldOf(nil))
	check.That(t, len(answer.Refusals) >= 4 && len(answer.Warnings) >= 2,
		"only %d refusals and %d warnings", len(answer.Refusals), len(answer.Warnings))
	for _, text := range append(answer.Refusals, answer.Warnings...) {
		check.That(t, len(text) <= mostBytes, "a sentence of %d bytes: %.100s…", len(text), text)
	}
}

// TestNobodyIsJudgedForNobody: the API server waits for two seconds.
func TestNobodyIsJudgedForNobody(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	load, _ := WorkloadOf(vcjobOf("open", nil, task(1, notes{name: "?"}, nil)))
	answer, err := Judge(ctx, load, nil, worldOf(nil))
	check.That(t, errors.Is(err, context.Canceled) && len(answer.Refusals) == 0, "judged: %q, %v", answer.Refusals, err)
}

// TestOverlarge: not read, and refused where anything is.
func TestOverlarge(t *testing.T) {
	warn := worldOf(func(w *World) { w.Policy.Spec.Admission.SchedulerBypassPolicy = v1alpha1.SchedulerBypassWarn })
	const large = "Job j: has too many parts to be looked at"
	for name, tc := range map[string]struct {
		answer           Answer
		refusal, warning string
	}{
		"new":              {Overlarge("Job j", false, worldOf(nil)), large, ""},
		"as large before":  {Overlarge("Job j", true, worldOf(nil)), "", "as before: " + large},
		"where one looks":  {Overlarge("Job j", false, warn), "", large},
		"without a policy": {Overlarge("Job j", false, World{}), "", large},
	} {
		says(t, name+": refusals", tc.answer.Refusals, tc.refusal)
		says(t, name+": warnings", tc.answer.Warnings, tc.warning)
	}
}
