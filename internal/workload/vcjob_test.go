package workload

import (
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"

	"cardquota.dev/operator/internal/testing/check"
)

// policies reads policies, "PodEvicted:RestartJob PodFailed+*:AbortJob 143:AbortJob": of
// one event, of several, or of an exit code.
func policies(text string) (all []batch.LifecyclePolicy) {
	for _, word := range strings.Fields(text) {
		on, action, _ := strings.Cut(word, ":")
		policy := batch.LifecyclePolicy{Action: bus.Action(action)}
		if code, err := strconv.ParseInt(on, 10, 32); err == nil {
			policy.ExitCode = ptr.To(int32(code))
		} else if events := strings.Split(on, "+"); len(events) == 1 {
			policy.Event = bus.Event(on)
		} else {
			for _, event := range events {
				policy.Events = append(policy.Events, bus.Event(event))
			}
		}
		all = append(all, policy)
	}

	return all
}

// TestVCJobEvictionPolicyFollowsItsPolicies: policies of a Volcano job say what its controller does when a pod is
// evicted. No action, SyncJob or EnqueueJob: nothing, so the job is elastic. Any other action restarts something,
// so the job is inelastic: one evicted pod costs it all. Abort, terminate or complete: it also ends. In a text,
// policies EVENT:ACTION of the job come first, then those of each task behind a bar. An event may be * for any, a
// list A+B, or an exit code. The first policy for PodEvicted or * decides: for a task's pods the first one of the
// task, if it has one. The worst task decides for the job. Policies for other events and exit codes do nothing.
func TestVCJobEvictionPolicyFollowsItsPolicies(t *testing.T) {
	for want, texts := range map[EvictionPolicy][]string{
		{}: {
			"", "PodEvicted:SyncJob", "PodEvicted:EnqueueJob", "PodEvicted:", "PodFailed:RestartJob TaskCompleted:CompleteJob " +
				"Unknown:AbortJob",
			"PodFailed+PodPending:RestartJob", "143:AbortJob 1:RestartJob", "PodEvicted:SyncJob *:AbortJob", "PodEvicted:AbortJob|*:SyncJob",
			"|PodFailed:AbortJob 0:CompleteJob", "PodFailed:RestartJob|TaskCompleted:CompleteJob", // restarts when pods fail, not evictions
		},
		{Inelastic: true}: {
			"PodEvicted:RestartJob", "PodEvicted:RestartTask", "PodEvicted:RestartPod", "PodEvicted:RestartPartition", "PodEvicted:ResumeJob",
			"PodEvicted:SomethingNew", "*:RestartJob", "PodFailed+PodEvicted:RestartJob", "143:AbortJob PodEvicted:RestartJob",
			"PodEvicted:RestartJob *:AbortJob", "PodFailed:AbortJob PodEvicted:RestartJob", "||PodEvicted:RestartTask",
			"PodEvicted:AbortJob|PodEvicted:RestartTask", "PodEvicted:RestartJob PodFailed:RestartJob|TaskCompleted:CompleteJob", // as a trainer's
		},
		{Inelastic: true, Terminates: true}: {
			"PodEvicted:AbortJob", "PodEvicted:TerminateJob", "PodEvicted:CompleteJob", "*:AbortJob", "PodFailed+*:AbortJob",
			"*:AbortJob PodEvicted:RestartJob", "|PodEvicted:AbortJob|", "PodEvicted:RestartJob|*:TerminateJob",
			"PodEvicted:AbortJob|PodEvicted:RestartTask|",
		},
	} {
		for _, text := range texts {
			ofJob, ofTasks, hasTasks := strings.Cut(text, "|")
			job := &batch.Job{Spec: batch.JobSpec{Policies: policies(ofJob)}}
			for _, of := range strings.Split(ofTasks, "|") {
				if hasTasks {
					job.Spec.Tasks = append(job.Spec.Tasks, batch.TaskSpec{Policies: policies(of)})
				}
			}
			check.Equal(t, text, want, EvictionPolicyFor(job))
		}
	}

	// A policy may have one event beside a list of events.
	both := batch.LifecyclePolicy{Event: bus.PodFailedEvent, Events: []bus.Event{bus.PodEvictedEvent}, Action: bus.RestartJobAction}
	job := &batch.Job{Spec: batch.JobSpec{Policies: []batch.LifecyclePolicy{both}}}
	check.Equal(t, "one event beside several", EvictionPolicy{Inelastic: true}, EvictionPolicyFor(job))
}

// TestVCJobOwnerControlsThePod: only a Volcano job of API version v1alpha1 that controls a pod is its job.
func TestVCJobOwnerControlsThePod(t *testing.T) {
	owner := func(apiVersion, kind, name string, controls *bool) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, Controller: controls}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		owners []metav1.OwnerReference
		want   string
	}{
		"no owner": {},
		"a Volcano job that controls the pod": {
			owners: []metav1.OwnerReference{owner("batch.volcano.sh/v1alpha1", "Job", "j", ptr.To(true))},
			want:   "j",
		},
		"a Kubernetes Job": {
			owners: []metav1.OwnerReference{owner("batch/v1", "Job", "j", ptr.To(true))},
		},
		"a CronJob of Volcano": {
			owners: []metav1.OwnerReference{owner("batch.volcano.sh/v1alpha1", "CronJob", "j", ptr.To(true))},
		},
		"another API version": {
			owners: []metav1.OwnerReference{owner("batch.volcano.sh/v1", "Job", "j", ptr.To(true))},
		},
		"two Volcano jobs that do not control the pod": {
			owners: []metav1.OwnerReference{
				owner("batch.volcano.sh/v1alpha1", "Job", "j", ptr.To(false)),
				owner("batch.volcano.sh/v1alpha1", "Job", "k", nil),
			},
		},
		"a ConfigMap, and a Volcano job that controls the pod": {
			owners: []metav1.OwnerReference{owner("v1", "ConfigMap", "c", nil), owner("batch.volcano.sh/v1alpha1", "Job", "j", ptr.To(true))},
			want:   "j",
		},
		"a ReplicaSet that controls the pod, and a Volcano job": {
			owners: []metav1.OwnerReference{owner("apps/v1", "ReplicaSet", "r", ptr.To(true)), owner("batch.volcano.sh/v1alpha1", "Job", "j", nil)},
		},
	}) {
		check.Equal(t, "owner", tc.want, VCJobOwner(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: tc.owners}}))
	}
}

// TestVCJobPodsHaveOwnerAndAnnotations: a user may write any owner reference. A pod is managed by a Volcano job only
// if it has the annotations, too, that the job controller writes: the name of the same job, and a version.
func TestVCJobPodsHaveOwnerAndAnnotations(t *testing.T) {
	by := []metav1.OwnerReference{{APIVersion: "batch.volcano.sh/v1alpha1", Kind: "Job", Name: "j", Controller: ptr.To(true)}}

	for t, tc := range check.Cases(t, map[string]struct {
		owners      []metav1.OwnerReference
		annotations map[string]string
		want        bool
	}{
		"owner, name and version": {
			owners:      by,
			annotations: map[string]string{"volcano.sh/job-name": "j", "volcano.sh/job-version": "0"},
			want:        true,
		},
		"only the owner": {
			owners: by,
		},
		"owner and name, no version": {
			owners:      by,
			annotations: map[string]string{"volcano.sh/job-name": "j"},
		},
		"owner, name, and a version that is no number": {
			owners:      by,
			annotations: map[string]string{"volcano.sh/job-name": "j", "volcano.sh/job-version": "new"},
		},
		"owner, and the name of another job":    {by, map[string]string{"volcano.sh/job-name": "k", "volcano.sh/job-version": "0"}, false},
		"name and version, no owner":            {nil, map[string]string{"volcano.sh/job-name": "j", "volcano.sh/job-version": "0"}, false},
		"an empty name and a version, no owner": {nil, map[string]string{"volcano.sh/job-name": "", "volcano.sh/job-version": "0"}, false},
	}) {
		check.Equal(t, "managed", tc.want, ManagedByVCJob(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			OwnerReferences: tc.owners,
			Annotations:     tc.annotations,
		}}))
	}
}
