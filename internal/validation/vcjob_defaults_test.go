package validation

import (
	"reflect"
	"testing"

	vcbatch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/workload"
)

// TestVCJobsGetDefaultsForEvictions: reclaim evicts pods of a gang. By default Volcano's job controller then ends the
// job after 3 retries, or leaves it with too few pods. With vcjobEvictionPolicy RestartOnEviction the webhook adds
// two things to a new gang in a reclaimable queue. These are a policy to restart it as a whole after an eviction, and
// maxRetry 100. It changes nothing that the user has decided: a job that an eviction is to end gets nothing. The job is
// in queue training, which is reclaimable, with 2 pods of 4 cards each. In rows that do not say what the job gets, it
// gets only maxRetry. The user has a policy for evicted pods there, or an evicted pod does not stop the job.
func TestVCJobsGetDefaultsForEvictions(t *testing.T) {
	restart := []vcbatch.LifecyclePolicy{{Event: bus.PodEvictedEvent, Action: bus.RestartJobAction}}
	both := JobDefaults{DefaultMaxRetry, restart}
	retries := JobDefaults{MaxRetry: DefaultMaxRetry}
	none := JobDefaults{}
	newGang := func(changes ...func(*vcbatch.Job)) *vcbatch.Job {
		j := newVCJob("training", nil, newTask(2, annotationMap{cardName: "NVIDIA-H200"}, amounts{gpu: "4"}))
		for _, change := range changes {
			change(j)
		}
		return j
	}

	withPolicy := func(event bus.Event, action bus.Action) func(*vcbatch.Job) {
		return func(j *vcbatch.Job) { j.Spec.Policies = []vcbatch.LifecyclePolicy{{Event: event, Action: action}} }
	}
	withMinPartitions := func(least int32) func(*vcbatch.Job) {
		return func(j *vcbatch.Job) {
			j.Spec.Tasks[0].PartitionPolicy = &vcbatch.PartitionPolicySpec{TotalPartitions: 2, PartitionSize: 1, MinPartitions: least}
		}
	}

	setUnchanged := func(w *WorkloadInput) { w.Policy.Spec.Admission.VCJobEvictionPolicy = v1alpha1.VCJobUnchanged }
	for t, tc := range check.Cases(t, map[string]struct {
		job         *vcbatch.Job
		changeInput func(*WorkloadInput)
		want        JobDefaults
	}{
		"a job without policies: gets both": {job: newGang(), want: both},
		"maxRetry is 3, Volcano's own default: gets both": {
			job:  newGang(func(j *vcbatch.Job) { j.Spec.MaxRetry = 3 }),
			want: both,
		},
		"maxRetry is 1, which the user wrote: gets only the policy": {
			job:  newGang(func(j *vcbatch.Job) { j.Spec.MaxRetry = 1 }),
			want: JobDefaults{Policies: restart},
		},
		"restarts when a pod is evicted": {
			job:  newGang(withPolicy(bus.PodEvictedEvent, bus.RestartJobAction)),
			want: retries,
		},
		"restarts a task when a pod is evicted": {
			job:  newGang(withPolicy(bus.PodEvictedEvent, bus.RestartTaskAction)),
			want: retries,
		},
		"restarts at any event":                      {job: newGang(withPolicy(bus.AnyEvent, bus.RestartJobAction)), want: retries},
		"aborts when a pod is evicted: gets nothing": {job: newGang(withPolicy(bus.PodEvictedEvent, bus.AbortJobAction)), want: none},
		"terminates at any event: gets nothing":      {job: newGang(withPolicy(bus.AnyEvent, bus.TerminateJobAction)), want: none},
		"synchronises when a pod is evicted": {
			job:  newGang(withPolicy(bus.PodEvictedEvent, bus.SyncJobAction)),
			want: retries,
		},
		"restarts when a pod fails, not when it is evicted: gets both": {
			job:  newGang(withPolicy(bus.PodFailedEvent, bus.RestartJobAction)),
			want: both,
		},
		"completes with a task: gets both": {
			job:  newGang(withPolicy(bus.TaskCompletedEvent, bus.CompleteJobAction)),
			want: both,
		},
		"restarts at several events, eviction among them": {
			job: newGang(func(j *vcbatch.Job) {
				j.Spec.Policies = []vcbatch.LifecyclePolicy{{Events: []bus.Event{bus.PodFailedEvent, bus.PodEvictedEvent}, Action: bus.RestartJobAction}}
			}),
			want: retries,
		},
		"a task has a policy for eviction": {
			job:  newGang(func(j *vcbatch.Job) { j.Spec.Tasks[0].Policies = restart }),
			want: retries,
		},
		"minAvailable 1 of 2 pods: an evicted pod does not stop it": {
			job:  newGang(func(j *vcbatch.Job) { j.Spec.MinAvailable = 1 }),
			want: retries,
		},
		"minAvailable 2 of 2 pods: gets both": {
			job:  newGang(func(j *vcbatch.Job) { j.Spec.MinAvailable = 2 }),
			want: both,
		},
		"a task with minAvailable 0": {
			job:  newGang(func(j *vcbatch.Job) { j.Spec.Tasks[0].MinAvailable = new(int32) }),
			want: retries,
		},
		"runs with 1 of 2 partitions":            {job: newGang(withMinPartitions(1)), want: retries},
		"runs with 2 of 2 partitions: gets both": {job: newGang(withMinPartitions(2)), want: both},
		"requests no card: gets nothing": {
			job:  newVCJob("training", nil, newTask(2, nil, amounts{"cpu": "1"})),
			want: none,
		},
		"requests a card that no node offers yet: gets both": {
			job:  newVCJob("training", nil, newTask(2, annotationMap{cardName: "NVIDIA-B300"}, amounts{"example.com/card": "1"})),
			want: both,
		},
		"in a queue of inference, which is not reclaimable: gets nothing": {
			job:  newGang(func(j *vcbatch.Job) { j.Spec.Queue = "serving" }),
			want: none,
		},
		"in a queue without a service type: gets nothing": {
			job:  newGang(func(j *vcbatch.Job) { j.Spec.Queue = "open" }),
			want: none,
		},
		"in a queue that does not exist: gets nothing": {
			job:  newGang(func(j *vcbatch.Job) { j.Spec.Queue = "nowhere" }),
			want: none,
		},
		"vcjobEvictionPolicy Unchanged: gets nothing": {newGang(), setUnchanged, none},
		"no ServiceTypePolicy: gets nothing":          {newGang(), func(w *WorkloadInput) { w.Policy = nil }, none},
	}) {
		input := newInput(func(w *WorkloadInput) {
			w.Policy.Spec.Admission.VCJobEvictionPolicy = v1alpha1.VCJobRestartOnEviction
			if tc.changeInput != nil {
				tc.changeInput(w)
			}
		})

		got := VCJobDefaults(tc.job, input)
		check.Must(t, reflect.DeepEqual(got, tc.want), "defaults %+v, want %+v", got, tc.want)
		check.Equal(t, "the defaults are empty", reflect.DeepEqual(tc.want, none), got.IsEmpty())

		// as the scheduler reads the job with the added policy: all its pods start again
		tc.job.Spec.Policies = append(tc.job.Spec.Policies, got.Policies...)
		read := workload.EvictionPolicyFor(tc.job)
		check.That(t, len(got.Policies) == 0 || (!read.Terminates && read.Inelastic), "the completed job %+v does not start again as a whole", read)
	}
}
