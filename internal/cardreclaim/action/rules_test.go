package action

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/vcjob"
)

// on applies a change to the pod of a name.
func on(name string, change func(*corev1.Pod)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if p.Name == name {
			change(p)
		}
	}
}

func protected(p *corev1.Pod) { p.Annotations["volcano.sh/preemptable"] = "false" }

func serves(service string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations["volcano.sh/service.type"] = service }
}

func TestWhoIsProtected(t *testing.T) {
	four := func(change func(*job)) *world {
		j := job{name: "t", queue: "tra", least: 4, on: repeat("n", 4), ran: day}
		change(&j)
		return tides(node("n", "A", 4)).add(j, waiter())
	}
	queues := func(w *world, name, service string, priority int32, changes ...func(*v1beta1.Queue)) *world {
		w.queue(name, service, priority, plenty, changes...)
		return w
	}
	play(t, map[string]scene{
		"a gang of which one pod is protected": {four(func(j *job) { j.pod = on("t-2", protected) }), "", ""},
		"a protected pod of an elastic job":    {four(func(j *job) { j.least, j.pod = 1, on("t-0", protected) }), "t-1", "i-0@n"},
		"an elastic job of which only a protected pod could go": {
			four(func(j *job) {
				j.least, j.pod = 3, on("t-0", protected)
				j.roles = map[string]int32{"ps": 0, "w": 3}
				j.role = firstIsPS
			}), "", ""},
		"a protected PodGroup": {four(func(j *job) {
			j.group = func(g *v1beta1.PodGroup) { g.Annotations["volcano.sh/preemptable"] = "false" }
		}), "", ""},
		"pods that are critical to the system": {four(func(j *job) { j.pod = func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-node-critical" } }), "", ""},
		"a gang of which a pod is being placed": {tides(node("n", "A", 4)).add(job{name: "t", queue: "tra", least: 4, on: repeat("n", 3), waits: 1, ran: day},
			job{name: "i", queue: "inf", least: 1, waits: 1, cards: 2}), "", ""},
		"a queue that is not reclaimable": {
			queues(four(func(*job) {}), "tra", "training", 20000, func(q *v1beta1.Queue) { *q.Spec.Reclaimable = false }), "", ""},
		"a queue of equal priority":  {queues(four(func(*job) {}), "tra", "training", 80000), "", ""},
		"a queue of higher priority": {queues(four(func(*job) {}), "tra", "training", 90000), "", ""},
		"the same queue":             {four(func(j *job) { j.queue = "inf" }), "", ""},
		"another inference queue":    {queues(four(func(j *job) { j.queue = "other" }), "other", "inference", 100), "", ""},
		"a queue of unknown type":    {queues(four(func(j *job) { j.queue = "other" }), "other", "batch", 100), "", ""},
		"a queue without type, pods of no type": {
			queues(four(func(j *job) { j.queue = "other" }), "other", "", 100), "", ""},
		"a queue without type, pods that are training": {
			queues(four(func(j *job) { j.queue, j.pod = "other", serves("training") }), "other", "", 100), "t*4", "i-0@n"},
		"a queue without type, one pod that is not training": {
			queues(four(func(j *job) { j.queue = "other"; j.pod = except("t-3", serves("training")) }), "other", "", 100), "", ""},
		"training takes from nobody": {queues(four(func(*job) {}), "inf", "training", 80000), "", ""},
		"unknown types take nothing": {queues(four(func(*job) {}), "inf", "batch", 80000), "", ""},
		"a closed queue takes nothing": {
			queues(four(func(*job) {}), "inf", "inference", 80000, func(q *v1beta1.Queue) { q.Status.State = v1beta1.QueueStateClosed }), "", ""},
		"a vcjob that is not known": {forget(four(func(j *job) { j.vcjob = true })), "", ""},
		"an owner of another kind":  {four(func(j *job) { j.pod = ownedBy("batch/v1", "Job") }), "t*4", "i-0@n"},
	})
}

func firstIsPS(i int) string {
	if i == 0 {
		return "ps"
	}
	return "w"
}

func except(name string, change func(*corev1.Pod)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if p.Name != name {
			change(p)
		}
	}
}

func forget(w *world) *world {
	clear(w.habits)
	return w
}

func ownedBy(apiVersion, kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = ownerOf(apiVersion, kind)
	}
}

func TestMinimumRuntime(t *testing.T) {
	least := func(w *world) *world {
		w.args = framework.Arguments{"serviceTypes": map[string]any{
			"inference": map[string]any{"reclaimFrom": []any{"training"}},
			"training":  map[string]any{"reclaimable": true, "minimumRuntime": "1h"},
		}}
		return w
	}
	gang := func(name string, ran time.Duration, least int32) job {
		return job{name: name, queue: "tra", least: least, on: repeat("n", 4), ran: ran}
	}
	eight := func() *world { return least(tides(node("n", "A", 8))) }
	bound := func(p *corev1.Pod) { p.Status.Phase, p.Status.StartTime = corev1.PodPending, nil }
	play(t, map[string]scene{
		"a job that has run for less is not taken":     {eight().add(gang("a", 59*time.Minute, 4), gang("b", 30*time.Minute, 4), waiter()), "", ""},
		"nor are its spare pods":                       {eight().add(gang("a", 59*time.Minute, 1), gang("b", 30*time.Minute, 1), waiter()), "", ""},
		"one that has run for as long is":              {eight().add(gang("a", 61*time.Minute, 4), gang("b", 30*time.Minute, 4), waiter()), "a*4", "i-0@n"},
		"the job counts from its oldest pod":           {eight().add(restarted(gang("a", 5*time.Minute, 4), "a-2", 2*hour), gang("b", 30*time.Minute, 4), waiter()), "a*4", "i-0@n"},
		"a job of which nothing has started stays":     {eight().add(started(gang("a", 9*hour, 4), bound), gang("b", 30*time.Minute, 4), waiter()), "", ""},
		"one that works in init containers counts":     {eight().add(started(gang("a", 2*hour, 4), inInit), gang("b", 30*time.Minute, 4), waiter()), "a*4", "i-0@n"},
		"but not before its time":                      {eight().add(started(gang("a", 59*time.Minute, 4), inInit), gang("b", 30*time.Minute, 4), waiter()), "", ""},
		"one that has had its nodes for as long is":    {eight().add(started(gang("a", 9*hour, 4), boundFor(61*time.Minute)), gang("b", 30*time.Minute, 4), waiter()), "a*4", "i-0@n"},
		"one that was just given them stays":           {eight().add(started(gang("a", 9*hour, 4), boundFor(time.Minute)), gang("b", 30*time.Minute, 4), waiter()), "", ""},
		"without a minimum it is taken before it runs": {tides(node("n", "A", 8)).add(started(gang("a", 9*hour, 4), bound), gang("b", hour, 4), waiter()), "a*4", "i-0@n"},
	})
}

// inInit leaves a pod that the kubelet has started in its init containers.
func inInit(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }

// boundFor leaves a pod on its node for so long, and not started.
func boundFor(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Add(-d))}}}
	}
}

// restarted lets one pod of a job have started earlier than the others.
func restarted(j job, name string, ran time.Duration) job {
	j.pod = on(name, func(p *corev1.Pod) { p.Status.StartTime.Time = p.Status.StartTime.Add(j.ran - ran) })
	return j
}

func started(j job, change func(*corev1.Pod)) job {
	j.pod = change
	return j
}

func TestHabits(t *testing.T) {
	// A vcjob of which the policy ends it may be taken, but only as a whole.
	w := tides(node("n", "A", 8)).add(job{name: "t", queue: "tra", least: 1, on: repeat("n", 8), vcjob: true}, waiter())
	w.habits["ns/t"] = vcjob.Habit{Inelastic: true, Ends: true}
	w.run(t).expect(t, "t*8", "i-0@n")
}
