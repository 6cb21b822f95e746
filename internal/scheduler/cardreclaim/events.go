package cardreclaim

import (
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/scheduler/solver"
	"cardquota.dev/operator/internal/workload"
)

// Reasons of events.
const (
	// eventReclaimed is on the victim job: its cards were reclaimed.
	eventReclaimed = "CardsReclaimed"
	// eventReclaims is on the reclaiming PodGroup: whose cards it gets.
	eventReclaims = "ReclaimsCards"
	// eventSearchCut is on a pending PodGroup: the search for victims ended at its budget.
	eventSearchCut = "ReclaimSearchEnded"
)

// maxNamedJobs is how many jobs an event names.
const maxNamedJobs = 3

// recordEvictions records events for the victim jobs and the reclaiming job, and counts the
// evictions.
func (s *reclaimSession) recordEvictions(job *api.JobInfo, evictions []*jobEviction, plan *solver.Plan) {
	if len(evictions) == 0 {
		return
	}
	var names []string
	var total evictionSum
	for _, p := range evictions {
		names = append(names, displayName(p.victimJob.job))
		sum := p.sum()
		total.add(sum)
		s.recordReclaimed(job, p, sum)
		s.action.counters.countEviction(p, sum.cardSeconds)
	}
	if more := len(names) - maxNamedJobs; more > 0 {
		names = append(names[:maxNamedJobs], fmt.Sprintf("%d more", more))
	}
	s.policy.RecordEvent(capacitycard.PodGroupReference(job), corev1.EventTypeNormal, eventReclaims, fmt.Sprintf(
		"reclaims %s for %d pod(s): %d pod(s) of %s are evicted, %s of work are lost; its pods start when those are gone",
		total.resource(), plan.Placed(), total.pods, strings.Join(names, ", "), total.loss()))
}

// recordSearchCut records that the search for victims of a job ended at its budget.
func (s *reclaimSession) recordSearchCut(job *api.JobInfo) {
	s.policy.RecordEvent(capacitycard.PodGroupReference(job), corev1.EventTypeWarning, eventSearchCut, fmt.Sprintf(
		"the search for victims for %d pending pod(s) was cut short: it is too large for one session. "+
			"It is repeated in later sessions. Fewer kinds of pods, or a smaller gang, make it smaller",
		len(job.TaskStatusIndex[api.Pending])))
}

func (s *reclaimSession) recordReclaimed(job *api.JobInfo, p *jobEviction, sum evictionSum) {
	what := "one of its pods is evicted, the job continues"
	switch {
	case p.whole && p.victimJob.evictionPolicy.Terminates:
		what = "the whole job is evicted, and its own policy on evicted pods ends it"
	case p.whole && workload.VCJobOwner(p.victimJob.tasks[0].Pod) != "":
		what = "the whole job is evicted, and starts again when cards are free; no retry is counted"
	case p.whole:
		what = "all of its pods are evicted"
	case len(p.indexes) > 1:
		what = fmt.Sprintf("%d of its pods are evicted, the job continues", len(p.indexes))
	}
	reclaimed := fmt.Sprintf("%d card(s)", sum.cards)
	if sum.cards == 0 {
		reclaimed = fmt.Sprintf("%dm cpu and %d Mi memory", sum.milliCPU, sum.memory>>20)
	}
	s.policy.RecordEvent(eventObject(p.victimJob), corev1.EventTypeWarning, eventReclaimed, fmt.Sprintf(
		"%s are reclaimed for %s of queue %s: %s; %s of work are lost",
		reclaimed, displayName(job), job.Queue, what, sum.loss()))
}

// displayName returns the name by which users know a job: that of its pods' controller,
// otherwise that of its PodGroup.
func displayName(job *api.JobInfo) string {
	for _, task := range job.Tasks {
		if owner := metav1.GetControllerOf(task.Pod); owner != nil {
			return job.Namespace + "/" + owner.Name
		}
	}
	return job.Namespace + "/" + job.Name
}

// evictionSum is what evictions release, and the work that they destroy.
type evictionSum struct {
	pods             int
	cards            card.Count
	milliCPU, memory int64
	// coreSeconds is the loss of pods without cards.
	cardSeconds, coreSeconds int64
}

// sum returns the sum of an eviction.
func (j *jobEviction) sum() (sum evictionSum) {
	for k, i := range j.indexes {
		sum.pods++
		sum.cards = sum.cards.Add(j.victimJob.cards[i])
		sum.milliCPU += int64(j.tasks[k].Resreq.MilliCPU)
		sum.memory += int64(j.tasks[k].Resreq.Memory)
		if loss := j.victimJob.solverJob.Pods[i].Loss; j.victimJob.cards[i] > 0 {
			sum.cardSeconds += loss
		} else {
			sum.coreSeconds += loss
		}
	}
	return sum
}

func (e *evictionSum) add(other evictionSum) {
	e.pods += other.pods
	e.cards = e.cards.Add(other.cards)
	e.cardSeconds += other.cardSeconds
	e.coreSeconds += other.coreSeconds
}

// resource returns what is reclaimed.
func (e *evictionSum) resource() string {
	if e.cards == 0 {
		return "cpu and memory"
	}
	return "cards"
}

// loss formats the work that is destroyed.
func (e *evictionSum) loss() string {
	switch {
	case e.coreSeconds == 0:
		return fmt.Sprintf("%d card-seconds", e.cardSeconds)
	case e.cardSeconds == 0:
		return fmt.Sprintf("%d core-seconds", e.coreSeconds)
	}
	return fmt.Sprintf("%d card-seconds and %d core-seconds", e.cardSeconds, e.coreSeconds)
}

// eventObject returns the object on which users look for events of their job.
func eventObject(g *victimJob) runtime.Object {
	owner := metav1.GetControllerOf(g.tasks[0].Pod)
	if workload.VCJobOwner(g.tasks[0].Pod) == "" {
		return capacitycard.PodGroupReference(g.job)
	}
	return &batch.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: owner.APIVersion, Kind: owner.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: g.job.Namespace, Name: owner.Name, UID: owner.UID},
	}
}

// counters count what was reclaimed.
type counters struct {
	jobs, pods, loss *prometheus.CounterVec
	// queues are the queues that were counted. Only sessions access them, one at a time.
	queues map[api.QueueID]bool
}

func newCounters() counters {
	vec := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"queue"})
	}
	return counters{
		queues: map[api.QueueID]bool{},
		jobs:   vec("cardquota_reclaimed_jobs_total", "Jobs of the queue that were evicted as a whole so that another queue gets its cards back."),
		pods:   vec("cardquota_reclaimed_pods_total", "Pods of the queue that were evicted so that another queue gets its cards back."),
		loss:   vec("cardquota_reclaimed_card_seconds_total", "Work of the queue that was lost with evicted pods, in card-seconds."),
	}
}

// Metrics returns the action's metrics for the program to register.
func (a *Action) Metrics() []prometheus.Collector {
	return []prometheus.Collector{a.counters.jobs, a.counters.pods, a.counters.loss}
}

func (c *counters) countEviction(p *jobEviction, loss int64) {
	queue := string(p.victimJob.job.Queue)
	c.queues[p.victimJob.job.Queue] = true
	if p.whole {
		c.jobs.WithLabelValues(queue).Inc()
	}
	c.pods.WithLabelValues(queue).Add(float64(len(p.indexes)))
	c.loss.WithLabelValues(queue).Add(float64(loss))
}

// dropGoneQueues drops the counters of deleted queues.
func (c *counters) dropGoneQueues(queues map[api.QueueID]*api.QueueInfo) {
	for queue := range c.queues {
		if queues[queue] != nil {
			continue
		}
		delete(c.queues, queue)
		for _, vec := range []*prometheus.CounterVec{c.jobs, c.pods, c.loss} {
			vec.DeleteLabelValues(string(queue))
		}
	}
}
