package vcjob

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"
)

func TestHabitOf(t *testing.T) {
	type policies = []batch.LifecyclePolicy
	on := func(event bus.Event, action bus.Action) batch.LifecyclePolicy {
		return batch.LifecyclePolicy{Event: event, Action: action}
	}
	onAny := func(action bus.Action, events ...bus.Event) batch.LifecyclePolicy {
		return batch.LifecyclePolicy{Events: events, Action: action}
	}
	onExit := func(code int32, action bus.Action) batch.LifecyclePolicy {
		return batch.LifecyclePolicy{ExitCode: &code, Action: action}
	}
	elastic, inelastic, ends := Habit{}, Habit{Inelastic: true}, Habit{Inelastic: true, Ends: true}
	tests := map[string]struct {
		job   policies
		tasks []policies
		want  Habit
	}{
		"no policy":                              {nil, nil, elastic},
		"restarts the job":                       {policies{on(bus.PodEvictedEvent, bus.RestartJobAction)}, nil, inelastic},
		"restarts the task":                      {policies{on(bus.PodEvictedEvent, bus.RestartTaskAction)}, nil, inelastic},
		"restarts the pod":                       {policies{on(bus.PodEvictedEvent, bus.RestartPodAction)}, nil, inelastic},
		"restarts a part of the job":             {policies{on(bus.PodEvictedEvent, bus.RestartPartitionAction)}, nil, inelastic},
		"resumes the job":                        {policies{on(bus.PodEvictedEvent, bus.ResumeJobAction)}, nil, inelastic},
		"an action of another version":           {policies{on(bus.PodEvictedEvent, "SomethingNew")}, nil, inelastic},
		"aborts the job":                         {policies{on(bus.PodEvictedEvent, bus.AbortJobAction)}, nil, ends},
		"terminates the job":                     {policies{on(bus.PodEvictedEvent, bus.TerminateJobAction)}, nil, ends},
		"completes the job":                      {policies{on(bus.PodEvictedEvent, bus.CompleteJobAction)}, nil, ends},
		"does what is done anyway":               {policies{on(bus.PodEvictedEvent, bus.SyncJobAction)}, nil, elastic},
		"only queues the job":                    {policies{on(bus.PodEvictedEvent, bus.EnqueueAction)}, nil, elastic},
		"no action":                              {policies{on(bus.PodEvictedEvent, "")}, nil, elastic},
		"any event":                              {policies{on(bus.AnyEvent, bus.RestartJobAction)}, nil, inelastic},
		"any event ends it":                      {policies{on(bus.AnyEvent, bus.AbortJobAction)}, nil, ends},
		"other events":                           {policies{on(bus.PodFailedEvent, bus.RestartJobAction), on(bus.TaskCompletedEvent, bus.CompleteJobAction), on(bus.JobUnknownEvent, bus.AbortJobAction)}, nil, elastic},
		"several events, eviction among them":    {policies{onAny(bus.RestartJobAction, bus.PodFailedEvent, bus.PodEvictedEvent)}, nil, inelastic},
		"several events, any among them":         {policies{onAny(bus.AbortJobAction, bus.PodFailedEvent, bus.AnyEvent)}, nil, ends},
		"several other events":                   {policies{onAny(bus.RestartJobAction, bus.PodFailedEvent, bus.PodPendingEvent)}, nil, elastic},
		"one event beside several":               {policies{{Event: bus.PodFailedEvent, Events: []bus.Event{bus.PodEvictedEvent}, Action: bus.RestartJobAction}}, nil, inelastic},
		"exit codes only":                        {policies{onExit(143, bus.AbortJobAction), onExit(1, bus.RestartJobAction)}, nil, elastic},
		"an exit code before the event":          {policies{onExit(143, bus.AbortJobAction), on(bus.PodEvictedEvent, bus.RestartJobAction)}, nil, inelastic},
		"the first of two that answer":           {policies{on(bus.PodEvictedEvent, bus.RestartJobAction), on(bus.AnyEvent, bus.AbortJobAction)}, nil, inelastic},
		"the first of two, the other way":        {policies{on(bus.AnyEvent, bus.AbortJobAction), on(bus.PodEvictedEvent, bus.RestartJobAction)}, nil, ends},
		"the first does nothing":                 {policies{on(bus.PodEvictedEvent, bus.SyncJobAction), on(bus.AnyEvent, bus.AbortJobAction)}, nil, elastic},
		"one that does not answer comes first":   {policies{on(bus.PodFailedEvent, bus.AbortJobAction), on(bus.PodEvictedEvent, bus.RestartJobAction)}, nil, inelastic},
		"a task's own policy":                    {nil, []policies{nil, {on(bus.PodEvictedEvent, bus.RestartTaskAction)}}, inelastic},
		"a task's own policy ends the job":       {nil, []policies{{on(bus.PodEvictedEvent, bus.AbortJobAction)}, nil}, ends},
		"a task ends, the job restarts":          {policies{on(bus.PodEvictedEvent, bus.RestartJobAction)}, []policies{{on(bus.AnyEvent, bus.TerminateJobAction)}}, ends},
		"every task restarts, the job ends":      {policies{on(bus.PodEvictedEvent, bus.AbortJobAction)}, []policies{{on(bus.PodEvictedEvent, bus.RestartTaskAction)}}, inelastic},
		"a task restarts, the job ends others":   {policies{on(bus.PodEvictedEvent, bus.AbortJobAction)}, []policies{{on(bus.PodEvictedEvent, bus.RestartTaskAction)}, nil}, ends},
		"a task does what is done anyway":        {policies{on(bus.PodEvictedEvent, bus.AbortJobAction)}, []policies{{on(bus.AnyEvent, bus.SyncJobAction)}}, elastic},
		"a task of other events":                 {nil, []policies{{on(bus.PodFailedEvent, bus.AbortJobAction), onExit(0, bus.CompleteJobAction)}}, elastic},
		"the usual policies of a trainer":        {policies{on(bus.PodEvictedEvent, bus.RestartJobAction), on(bus.PodFailedEvent, bus.RestartJobAction)}, []policies{{on(bus.TaskCompletedEvent, bus.CompleteJobAction)}}, inelastic},
		"restarts when pods fail, not evictions": {policies{on(bus.PodFailedEvent, bus.RestartJobAction)}, []policies{{on(bus.TaskCompletedEvent, bus.CompleteJobAction)}}, elastic},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			job := &batch.Job{Spec: batch.JobSpec{Policies: tc.job}}
			for _, of := range tc.tasks {
				job.Spec.Tasks = append(job.Spec.Tasks, batch.TaskSpec{Policies: of})
			}
			if got := HabitOf(job); got != tc.want {
				t.Errorf("habit %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestOwnerOf(t *testing.T) {
	yes, no := true, false
	owner := func(apiVersion, kind, name string, controls *bool) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, Controller: controls}
	}
	tests := map[string]struct {
		owners []metav1.OwnerReference
		want   string
	}{
		"nobody":                                     {nil, ""},
		"a Volcano job":                              {[]metav1.OwnerReference{owner("batch.volcano.sh/v1alpha1", "Job", "j", &yes)}, "j"},
		"a Kubernetes job":                           {[]metav1.OwnerReference{owner("batch/v1", "Job", "j", &yes)}, ""},
		"another kind of Volcano":                    {[]metav1.OwnerReference{owner("batch.volcano.sh/v1alpha1", "CronJob", "j", &yes)}, ""},
		"another version":                            {[]metav1.OwnerReference{owner("batch.volcano.sh/v1", "Job", "j", &yes)}, ""},
		"an owner that does not control":             {[]metav1.OwnerReference{owner("batch.volcano.sh/v1alpha1", "Job", "j", &no), owner("batch.volcano.sh/v1alpha1", "Job", "k", nil)}, ""},
		"the one of two that controls":               {[]metav1.OwnerReference{owner("v1", "ConfigMap", "c", nil), owner("batch.volcano.sh/v1alpha1", "Job", "j", &yes)}, "j"},
		"a Volcano job beside the one that controls": {[]metav1.OwnerReference{owner("apps/v1", "ReplicaSet", "r", &yes), owner("batch.volcano.sh/v1alpha1", "Job", "j", nil)}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := OwnerOf(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: tc.owners}}); got != tc.want {
				t.Errorf("owner %q, want %q", got, tc.want)
			}
		})
	}
}

func TestManages(t *testing.T) {
	yes := true
	by := []metav1.OwnerReference{{APIVersion: "batch.volcano.sh/v1alpha1", Kind: "Job", Name: "j", Controller: &yes}}
	for name, tc := range map[string]struct {
		owners []metav1.OwnerReference
		notes  map[string]string
		want   bool
	}{
		"a pod of the job":           {by, map[string]string{"volcano.sh/job-name": "j", "volcano.sh/job-version": "0"}, true},
		"an owner that was made up":  {by, nil, false},
		"no version":                 {by, map[string]string{"volcano.sh/job-name": "j"}, false},
		"a version that is none":     {by, map[string]string{"volcano.sh/job-name": "j", "volcano.sh/job-version": "new"}, false},
		"of another job":             {by, map[string]string{"volcano.sh/job-name": "k", "volcano.sh/job-version": "0"}, false},
		"annotations without owner":  {nil, map[string]string{"volcano.sh/job-name": "j", "volcano.sh/job-version": "0"}, false},
		"an owner without any names": {nil, map[string]string{"volcano.sh/job-name": "", "volcano.sh/job-version": "0"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Manages(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: tc.owners, Annotations: tc.notes}}); got != tc.want {
				t.Errorf("managed %v, want %v", got, tc.want)
			}
		})
	}
}
