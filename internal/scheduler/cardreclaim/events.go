package cardreclaim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/scheduler/solver"
	"cardquota.dev/operator/internal/workload"
)

// Reasons of events, beside v1alpha1.EventCardsReclaimed on the victim job.
const (
	// eventReclaims is on the reclaiming PodGroup: the jobs whose cards it gets.
	eventReclaims = "ReclaimsCards"
	// eventSearchCut is on a pending PodGroup: the search for victims ended at its budget.
	eventSearchCut = "ReclaimSearchEnded"
)

// maxNamedJobs is how many jobs an event names.
const maxNamedJobs = 3

// recordEvictions records events for the victim jobs and for the reclaiming job, and counts the
// evictions by the reclaimer's service type. Without evictions it records nothing.
func (a *planApplier) recordEvictions(job *api.JobInfo, serviceType string, evictions []*jobEviction, plan *solver.Plan) {
	if len(evictions) == 0 {
		return
	}

	var victims []namedJob
	var total evictionSum
	for _, eviction := range evictions {
		victim := eviction.victimJob
		// The reclaim matrix has the service type of an evicted pod. Other pods of the job may name any text.
		victims = append(victims, namedJob{displayName(victim.job), victim.job.Namespace, a.ServiceType(eviction.tasks[0])})
		sum := eviction.sum()
		total.add(sum)
		a.recordReclaimed(job, serviceType, eviction, sum)
		a.search.counters.countEviction(eviction, serviceType, sum.cardSeconds)
		klog.InfoS("Pods of a job are evicted for another job", "victim", displayName(victim.job), "victimQueue", victim.queue,
			"pods", sum.pods, "cards", sum.cards, "reclaimer", displayName(job), "reclaimerQueue", job.Queue)
	}

	a.events.RecordEvent(capacitycard.PodGroupReference(job), corev1.EventTypeNormal, eventReclaims, fmt.Sprintf(
		"reclaims %s for %d pod(s): %d pod(s) of %s are evicted, %s of work are lost; its pods start when those are gone",
		total.resource(), plan.Placed(), total.pods, describeJobs(job.Namespace, victims), total.loss()))
}

// recordSearchCut records that the search for victims of a job ended at its budget.
func (s *reclaimSession) recordSearchCut(job *api.JobInfo) {
	s.events.RecordEvent(capacitycard.PodGroupReference(job), corev1.EventTypeWarning, eventSearchCut, fmt.Sprintf(
		"the search for victims for %d pending pod(s) was cut short: it is too large for one session. "+
			"It is repeated in later sessions. Fewer kinds of pods, or a smaller gang, make it smaller",
		len(job.TaskStatusIndex[api.Pending])))
}

// recordReclaimed records the event of a victim job: what it loses, for whom, and what becomes of it. It names the reclaimer
// and its queue only in the reclaimer's own namespace.
func (a *planApplier) recordReclaimed(job *api.JobInfo, serviceType string, eviction *jobEviction, sum evictionSum) {
	consequence := "one of its pods is evicted, the job continues"
	switch {
	case eviction.whole && eviction.victimJob.evictionPolicy.Terminates:
		consequence = "the whole job is evicted, and its own policy on evicted pods ends it"
	case eviction.whole && workload.VCJobOwner(eviction.victimJob.tasks[0].Pod) != "":
		consequence = "the whole job is evicted, and starts again when cards are free; no retry is counted"
	case eviction.whole && eviction.victimJob.fails:
		consequence = "all of its pods are evicted, and the Job fails: that is more than its backoffLimit allows, and no podFailurePolicy ignores DisruptionTarget"
	case eviction.whole:
		consequence = "all of its pods are evicted"
	case len(eviction.indexes) > 1:
		consequence = fmt.Sprintf("%d of its pods are evicted, the job continues", len(eviction.indexes))
	}

	reclaimed := fmt.Sprintf("%d card(s)", sum.cards)
	if sum.cards == 0 {
		reclaimed = fmt.Sprintf("%dm cpu and %d Mi memory", sum.milliCPU, sum.memory>>20)
	}

	reclaimer := describeJobs(eviction.victimJob.job.Namespace, []namedJob{{displayName(job), job.Namespace, serviceType}})
	if job.Namespace == eviction.victimJob.job.Namespace {
		reclaimer += fmt.Sprintf(" of queue %s", job.Queue)
	}

	a.events.RecordEvent(eventObject(eviction.victimJob), corev1.EventTypeWarning, v1alpha1.EventCardsReclaimed, fmt.Sprintf(
		"%s are reclaimed for %s: %s; %s of work are lost", reclaimed, reclaimer, consequence, sum.loss()))
}

// namedJob is a job in an event.
type namedJob struct {
	// name is its name with its namespace.
	name, namespace, serviceType string
}

// describeJobs returns what an event in a namespace says about jobs. It names at most maxNamedJobs of the same
// namespace. It counts those of other namespaces by service type, because their names belong to
// other tenants.
func describeJobs(namespace string, jobs []namedJob) string {
	var texts []string
	own := 0
	others := map[string]int{}
	for _, job := range jobs {
		if job.namespace != namespace {
			others[job.serviceType]++
			continue
		}
		own++
		if own <= maxNamedJobs {
			texts = append(texts, job.name)
		}
	}

	if own > maxNamedJobs {
		texts = append(texts, fmt.Sprintf("%d more", own-maxNamedJobs))
	}
	for _, serviceType := range slices.Sorted(maps.Keys(others)) {
		texts = append(texts, countJobs(others[serviceType], serviceType))
	}

	return strings.Join(texts, ", ")
}

// countJobs returns the number of jobs of a service type, in words. Jobs may have no service type.
func countJobs(count int, serviceType string) string {
	text := "1 job"
	if count != 1 {
		text = fmt.Sprintf("%d jobs", count)
	}
	if serviceType == "" {
		return text + " without service type"
	}
	return text + " of service type " + serviceType
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

// sum returns what an eviction releases, and the work that it destroys. WholeLoss is what a whole job loses
// beside its pods: card-seconds if the job uses cards, core-seconds otherwise.
func (e *jobEviction) sum() (sum evictionSum) {
	for k, i := range e.indexes {
		sum.pods++
		sum.cards = sum.cards.Add(e.victimJob.cards[i])
		sum.milliCPU += int64(e.tasks[k].Resreq.MilliCPU)
		sum.memory += int64(e.tasks[k].Resreq.Memory)
		if loss := e.victimJob.solverJob.Pods[i].Loss; e.victimJob.cards[i] > 0 {
			sum.cardSeconds += loss
		} else {
			sum.coreSeconds += loss
		}
	}

	if e.whole && sum.cards > 0 {
		sum.cardSeconds += e.victimJob.solverJob.WholeLoss
	} else if e.whole {
		sum.coreSeconds += e.victimJob.solverJob.WholeLoss
	}
	return sum
}

// add adds what the event of the reclaimer states, which is without CPU and memory.
func (e *evictionSum) add(other evictionSum) {
	e.pods += other.pods
	e.cards = e.cards.Add(other.cards)
	e.cardSeconds += other.cardSeconds
	e.coreSeconds += other.coreSeconds
}

// resource returns what is reclaimed, in words.
func (e *evictionSum) resource() string {
	if e.cards == 0 {
		return "cpu and memory"
	}
	return "cards"
}

// loss returns the work that is destroyed, in words.
func (e *evictionSum) loss() string {
	switch {
	case e.coreSeconds == 0:
		return fmt.Sprintf("%d card-seconds", e.cardSeconds)
	case e.cardSeconds == 0:
		return fmt.Sprintf("%d core-seconds", e.coreSeconds)
	}
	return fmt.Sprintf("%d card-seconds and %d core-seconds", e.cardSeconds, e.coreSeconds)
}

// eventObject returns the object on which users look for events of their job: the Volcano job, or else the PodGroup.
func eventObject(victim *victimJob) runtime.Object {
	owner := metav1.GetControllerOf(victim.tasks[0].Pod)
	if workload.VCJobOwner(victim.tasks[0].Pod) == "" {
		return capacitycard.PodGroupReference(victim.job)
	}
	return &batch.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: owner.APIVersion, Kind: owner.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: victim.job.Namespace, Name: owner.Name, UID: owner.UID},
	}
}

// counters are the metrics of what was reclaimed.
type counters struct {
	jobs, pods, loss *prometheus.CounterVec
	// queues are the queues that were counted. Only sessions access them, one at a time.
	queues map[api.QueueID]bool
}

// newCounters returns counters by the queue that lost pods and the service type of the reclaimer.
func newCounters() counters {
	vec := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"queue", "reclaimer_service_type"})
	}
	return counters{
		queues: map[api.QueueID]bool{},
		jobs:   vec("cardquota_reclaimed_jobs_total", "Jobs of the queue that were evicted as a whole so that another queue gets their cards, by the service type of the reclaimer. Empty with `spec.reclaim: Pods`."),
		pods:   vec("cardquota_reclaimed_pods_total", "Pods of the queue that were evicted so that another queue gets their cards. Empty with `spec.reclaim: Pods`."),
		loss:   vec("cardquota_reclaimed_card_seconds_total", "Work of the queue that these evictions destroyed: cards × seconds since the start or the last checkpoint. Empty with `spec.reclaim: Pods`."),
	}
}

// countEviction counts an eviction. reclaimer is the reclaimer's service type, loss the lost work in card-seconds.
func (c *counters) countEviction(eviction *jobEviction, reclaimer string, loss int64) {
	queue := string(eviction.victimJob.queue)
	c.queues[eviction.victimJob.queue] = true
	if eviction.whole {
		c.jobs.WithLabelValues(queue, reclaimer).Inc()
	}
	c.pods.WithLabelValues(queue, reclaimer).Add(float64(len(eviction.indexes)))
	c.loss.WithLabelValues(queue, reclaimer).Add(float64(loss))
}
