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

func TestVCJobDefaults(t *testing.T) {
	restart := []vcbatch.LifecyclePolicy{{Event: bus.PodEvictedEvent, Action: bus.RestartJobAction}}
	both := JobDefaults{DefaultMaxRetry, restart}
	retries := JobDefaults{MaxRetry: DefaultMaxRetry}
	none := JobDefaults{}
	job := func(change func(*vcbatch.Job)) *vcbatch.Job {
		j := vcjobOf("training", nil, task(2, notes{name: "NVIDIA-H200"}, amounts{gpu: "4"}))
		if change != nil {
			change(j)
		}
		return j
	}

	on := func(event bus.Event, action bus.Action) func(*vcbatch.Job) {
		return func(j *vcbatch.Job) { j.Spec.Policies = []vcbatch.LifecyclePolicy{{Event: event, Action: action}} }
	}
	parts := func(least int32) func(*vcbatch.Job) {
		return func(j *vcbatch.Job) {
			j.Spec.Tasks[0].PartitionPolicy = &vcbatch.PartitionPolicySpec{TotalPartitions: 2, PartitionSize: 1, MinPartitions: least}
		}
	}

	off := func(w *WorkloadInput) { w.Policy.Spec.Admission.VCJobEvictionPolicy = v1alpha1.VCJobUnchanged }
	for t, tc := range check.Cases(t, map[string]struct {
		job   *vcbatch.Job
		scene func(*WorkloadInput)
		want  JobDefaults
	}{
		"says nothing":                  {job(nil), nil, both},
		"says what Volcano says for it": {job(func(j *vcbatch.Job) { j.Spec.MaxRetry = 3 }), nil, both},
		"says how often":                {job(func(j *vcbatch.Job) { j.Spec.MaxRetry = 1 }), nil, JobDefaults{Policies: restart}},
		"restarts when it is evicted":   {job(on(bus.PodEvictedEvent, bus.RestartJobAction)), nil, retries},
		"restarts a task":               {job(on(bus.PodEvictedEvent, bus.RestartTaskAction)), nil, retries},
		"restarts whatever happens":     {job(on(bus.AnyEvent, bus.RestartJobAction)), nil, retries},
		"ends when it is evicted":       {job(on(bus.PodEvictedEvent, bus.AbortJobAction)), nil, none},
		"ends whatever happens":         {job(on(bus.AnyEvent, bus.TerminateJobAction)), nil, none},
		"goes on when it is evicted":    {job(on(bus.PodEvictedEvent, bus.SyncJobAction)), nil, retries},
		"restarts when a pod fails":     {job(on(bus.PodFailedEvent, bus.RestartJobAction)), nil, both},
		"ends when a task completes":    {job(on(bus.TaskCompletedEvent, bus.CompleteJobAction)), nil, both},
		"several events, eviction among them": {job(func(j *vcbatch.Job) {
			j.Spec.Policies = []vcbatch.LifecyclePolicy{{Events: []bus.Event{bus.PodFailedEvent, bus.PodEvictedEvent}, Action: bus.RestartJobAction}}
		}), nil, retries},
		"a task says what becomes of it":   {job(func(j *vcbatch.Job) { j.Spec.Tasks[0].Policies = restart }), nil, retries},
		"runs with fewer pods":             {job(func(j *vcbatch.Job) { j.Spec.MinAvailable = 1 }), nil, retries},
		"runs with all of them":            {job(func(j *vcbatch.Job) { j.Spec.MinAvailable = 2 }), nil, both},
		"a task runs with fewer":           {job(func(j *vcbatch.Job) { j.Spec.Tasks[0].MinAvailable = new(int32) }), nil, retries},
		"runs with fewer parts":            {job(parts(1)), nil, retries},
		"runs with all parts":              {job(parts(2)), nil, both},
		"asks for no card":                 {vcjobOf("training", nil, task(2, nil, amounts{"cpu": "1"})), nil, none},
		"asks for a card of a future node": {vcjobOf("training", nil, task(2, notes{name: "NVIDIA-B300"}, amounts{"example.com/card": "1"})), nil, both},
		"a queue that is not reclaimable":  {job(func(j *vcbatch.Job) { j.Spec.Queue = "serving" }), nil, none},
		"a queue of no type":               {job(func(j *vcbatch.Job) { j.Spec.Queue = "open" }), nil, none},
		"a queue that is not known":        {job(func(j *vcbatch.Job) { j.Spec.Queue = "nowhere" }), nil, none},
		"switched off":                     {job(nil), off, none},
		"without a policy":                 {job(nil), func(w *WorkloadInput) { w.Policy = nil }, none},
	}) {
		scene := snapshotOf(func(w *WorkloadInput) {
			w.Policy.Spec.Admission.VCJobEvictionPolicy = v1alpha1.VCJobRestartOnEviction
			if tc.scene != nil {
				tc.scene(w)
			}
		})

		got := VCJobDefaults(tc.job, scene)
		check.Must(t, reflect.DeepEqual(got, tc.want), "defaults %+v, want %+v", got, tc.want)
		check.Equal(t, "none", reflect.DeepEqual(tc.want, none), got.IsEmpty())

		tc.job.Spec.Policies = append(tc.job.Spec.Policies, got.Policies...)
		habit := workload.EvictionPolicyFor(tc.job)
		check.That(t, len(got.Policies) == 0 || (!habit.Terminates && habit.Inelastic), "the completed job %+v does not start again as a whole", habit)
	}
}
