package cardreclaim

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"cardquota.dev/operator/internal/testing/check"
)

// servers are the API servers of all scenes. The plugin sends events to the first that it met.
var servers []kubernetes.Interface

// roundLoss rounds the loss in a message down to hours of a card, because the clock goes on
// during a test.
func roundLoss(message string) string {
	return losses.ReplaceAllStringFunc(message, func(text string) string {
		var seconds int
		if _, err := fmt.Sscanf(text, "%d card-seconds", &seconds); err != nil {
			return text
		}
		return fmt.Sprintf("%d card-seconds", seconds/3600*3600)
	})
}

var losses = regexp.MustCompile(`[0-9]+ card-seconds`)

// eventsAbout lists the events about an object of this scene in namespace ns, once there are any.
func eventsAbout(t *testing.T, uid, reason string) []corev1.Event {
	return eventsIn(t, "ns", uid, reason)
}

// eventsIn lists the events about an object of this scene in a namespace, once there are any.
func eventsIn(t *testing.T, namespace, uid, reason string) []corev1.Event {
	var found []corev1.Event
	eventually(t, reason+" about "+uid, func() bool {
		for _, server := range servers {
			list := check.Value(server.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{}))(t)
			for _, event := range list.Items {
				if string(event.InvolvedObject.UID) == uid && event.Reason == reason {
					event.Message = roundLoss(event.Message)
					found = append(found, event)
				}
			}
		}
		return len(found) > 0
	})

	return found
}

// isOnlyEvent reports whether there is one event: of a type, about an object of a kind, and with
// a text in its message.
func isOnlyEvent(events []corev1.Event, eventType, kind, text string) bool {
	return len(events) == 1 && events[0].Type == eventType && events[0].InvolvedObject.Kind == kind && strings.Contains(events[0].Message, text)
}

// TestReclaimEventsNameTheLossOnBothSides: the victim has a warning that says for whom it was evicted and what happens
// to it. It is on its Volcano job if it has one, else on its PodGroup. The reclaimer's PodGroup has an event that says
// whose cards it gets. Both say how much work is lost: each pod has run for 24 hours = 86400 seconds on each of its
// cards. The victim has 4 cards of node n, and one pod of inference waits. The UIDs of this test begin with the number of
// the scene: "w%d-i" is that of PodGroup i.
func TestReclaimEventsNameTheLossOnBothSides(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ victim, kind, wantOfVictim, wantOfReclaimer string }{
		"a vcjob of 4 pods that starts again": {"min=4 running=n*4 owner=vcjob", "Job",
			"4 card(s) are reclaimed for ns/i of queue inference: the whole job is evicted, and starts again when cards are free; no retry is counted; 345600 card-seconds of work are lost",
			"reclaims cards for 1 pod(s): 4 pod(s) of ns/%s are evicted, 345600 card-seconds of work are lost; its pods start when those are gone"},
		"a vcjob whose policy ends it": {"min=4 running=n*4 owner=vcjob evictionPolicy=TerminateJob", "Job",
			"the whole job is evicted, and its own policy on evicted pods ends it", "4 pod(s) of ns/%s are evicted"},
		"a gang that is no vcjob": {"min=4 running=n*4", "PodGroup", "all of its pods are evicted", "4 pod(s) of ns/%s are evicted"},
		"an elastic pod of a vcjob": {"min=3 running=n*4 owner=vcjob", "Job",
			"1 card(s) are reclaimed for ns/i of queue inference: one of its pods is evicted, the job continues; 86400 card-seconds of work are lost",
			"1 pod(s) of ns/%s are evicted, 86400 card-seconds"},
		"an elastic pod with two cards": {"min=1 running=n*2 cards=2", "PodGroup",
			"2 card(s) are reclaimed for ns/i of queue inference: one of its pods is evicted", "1 pod(s) of ns/%s are evicted, 172800 card-seconds"},
	}) {
		s := newInferenceAndTrainingScene(`
			node n model=A cards=4
			job i queue=inference min=1 pending=1`)
		victim := fmt.Sprintf("t%d", s.ID) // else events of other scenes have its name
		s.add("job " + victim + " queue=training age=24h " + tc.victim).runSession(t)
		uid := map[string]string{"Job": fmt.Sprintf("w%d-job-%s", s.ID, victim), "PodGroup": fmt.Sprintf("w%d-%s", s.ID, victim)}[tc.kind]

		events := eventsAbout(t, uid, "CardsReclaimed")
		check.That(t, isOnlyEvent(events, "Warning", tc.kind, tc.wantOfVictim),
			"the victim has %+v, want a warning %q on the %s", events, tc.wantOfVictim, tc.kind)
		check.Equal(t, "component of the event", "capacity-card", events[0].Source.Component)

		events = eventsAbout(t, fmt.Sprintf("w%d-i", s.ID), "ReclaimsCards")
		want := fmt.Sprintf(tc.wantOfReclaimer, victim)
		check.That(t, isOnlyEvent(events, "Normal", "PodGroup", want), "the reclaimer has %+v, want %q", events, want)
	}
}

// TestEventsNameNoJobsOfOtherNamespaces: names of jobs and queues in other namespaces belong to other tenants. A
// gang in namespace shop reclaims 4 cards: of one job in shop, which its event names, and of two jobs in
// namespace ns, which it counts by service type. The victims name the reclaimer in the same way. "w%d-i" is the
// UID of PodGroup i, with the number of the scene. The names of the victims end in this number.
func TestEventsNameNoJobsOfOtherNamespaces(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		node n model=A cards=4
		job i queue=inference min=4 pending=4 namespace=shop`)
	s.add(fmt.Sprintf(`
		job a%[1]d queue=training min=2 running=n*2 age=24h
		job b%[1]d queue=training min=1 running=n age=24h
		job own%[1]d queue=training min=1 running=n age=24h namespace=shop`, s.ID)).runSession(t)

	message := eventsIn(t, "shop", fmt.Sprintf("w%d-i", s.ID), "ReclaimsCards")[0].Message
	check.Contains(t, "event of the reclaimer", message, fmt.Sprintf("4 pod(s) of shop/own%d, 2 jobs of service type training are evicted", s.ID))

	message = eventsAbout(t, fmt.Sprintf("w%[1]d-a%[1]d", s.ID), "CardsReclaimed")[0].Message
	check.Contains(t, "event of the victim in namespace ns", message,
		"2 card(s) are reclaimed for 1 job of service type inference: all of its pods are evicted")

	message = eventsIn(t, "shop", fmt.Sprintf("w%[1]d-own%[1]d", s.ID), "CardsReclaimed")[0].Message
	check.Contains(t, "event of the victim in the reclaimer's namespace", message, "1 card(s) are reclaimed for shop/i of queue inference: ")
}

// TestEventsShowOnlyServiceTypesOfTheMatrix: in a queue without a service type each pod names one, and may write any
// text. The pod t-0 names "any text", and is not evicted, because only training is reclaimable. The event in the
// reclaimer's namespace has the type of the evicted pod t-1. "w%d-i" is the UID of PodGroup i, with the number of the
// scene.
func TestEventsShowOnlyServiceTypesOfTheMatrix(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		queue other quota=1000 priority=100
		node n model=A cards=2
		job t queue=other min=1 running=n*2 serviceType=training age=24h
		job i queue=inference min=1 pending=1 namespace=shop`, onPod("t-0", ofServiceType("any text"))).runSession(t)
	s.expectEvictedAndPlaced(t, "t-1", "i-0@n")

	message := eventsIn(t, "shop", fmt.Sprintf("w%d-i", s.ID), "ReclaimsCards")[0].Message
	check.Contains(t, "event of the reclaimer", message, "1 pod(s) of 1 job of service type training are evicted")
}

// TestAnEventListsJobs: an event in namespace a names at most three jobs of a. It counts the fourth, and those of other
// namespaces by service type. Each namedJob has a name, a namespace and a service type.
func TestAnEventListsJobs(t *testing.T) {
	got := describeJobs("a", []namedJob{
		{"b/1", "b", "training"}, {"a/1", "a", "training"}, {"c/1", "c", "training"},
		{"a/2", "a", ""}, {"b/2", "b", ""}, {"a/3", "a", ""}, {"a/4", "a", ""},
	})
	check.Equal(t, "list", "a/1, a/2, a/3, 1 more, 1 job without service type, 2 jobs of service type training", got)
}

// TestAnEventNamesThreeJobs: five jobs of one card each are evicted for a gang of 5. Its event names three of them, and
// has the loss of all: 5 × 24 hours = 432000 card-seconds. "w%d-i" is the UID of PodGroup i, with the number of the
// scene.
func TestAnEventNamesThreeJobs(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		node n model=A cards=5
		job t0 queue=training min=1 running=n age=24h
		job t1 queue=training min=1 running=n age=24h
		job t2 queue=training min=1 running=n age=24h
		job t3 queue=training min=1 running=n age=24h
		job t4 queue=training min=1 running=n age=24h
		job i queue=inference min=5 pending=5`).runSession(t)

	message := eventsAbout(t, fmt.Sprintf("w%d-i", s.ID), "ReclaimsCards")[0].Message
	check.Contains(t, "event of the reclaimer", message, "for 5 pod(s): 5 pod(s) of ns/t", ", 2 more are evicted, 432000 card-seconds")
	check.Equal(t, "named jobs", 3, strings.Count(message, "ns/"))
}

// TestPlacementsOnFreeCardsAreNotCounted: cardreclaim places the pod on a free card, and evicts none. So the counter of
// evicted pods has no series.
func TestPlacementsOnFreeCardsAreNotCounted(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		node n model=A cards=4
		job i queue=inference min=1 pending=1`)
	s.withoutAllocate = true // else allocate would place it
	s.runSession(t).expectEvictedAndPlaced(t, "", "i-0@n")

	check.Equal(t, "queues with counted pods", 0, testutil.CollectAndCount(s.search.counters.pods))
}

// TestReclaimCountersCountJobsPodsAndLoss: three counters of the victim's queue count jobs that were evicted as
// a whole, pods, and card-seconds of lost work. They have the service type of the reclaimer. The eviction of an
// elastic pod counts as no job. "t*4" are the pods t-0 to t-3, "i@n*2" are i-0 and i-1 on node n.
func TestReclaimCountersCountJobsPodsAndLoss(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		victim, wantEvicted          string
		wantJobs, wantPods, wantLoss float64
	}{
		"a gang of 4 pods and one hour":         {"min=4 running=n*4", "t*4", 1, 4, 4 * 3600},
		"2 of 4 pods of minimum 2, of one hour": {"min=2 running=n*4", "t-0 t-1", 0, 2, 2 * 3600},
	}) {
		s := newInferenceAndTrainingScene(`
			node n model=A cards=4
			job i queue=inference min=2 pending=2`)
		queue := fmt.Sprintf("training%d", s.ID) // else it shares the counters of other scenes
		s.add(fmt.Sprintf(`
			queue %[1]s quota=1000 priority=20000 serviceType=training
			job t queue=%[1]s age=1h %[2]s`, queue, tc.victim))
		s.runSession(t).expectEvictedAndPlaced(t, tc.wantEvicted, "i@n*2")

		counters := s.search.counters
		check.Equal(t, "jobs", tc.wantJobs, testutil.ToFloat64(counters.jobs.WithLabelValues(queue, "inference")))
		check.Equal(t, "pods", tc.wantPods, testutil.ToFloat64(counters.pods.WithLabelValues(queue, "inference")))
		loss := testutil.ToFloat64(counters.loss.WithLabelValues(queue, "inference"))
		check.That(t, loss >= tc.wantLoss && loss <= tc.wantLoss+40,
			"the loss is %v card-seconds, want %v and at most 40 for the time of the test", loss, tc.wantLoss)
	}
}

// TestCountersOfADeletedQueueAreDropped: otherwise the number of series would grow with each tenant that is removed. A
// gang of the queue is evicted. Its counters stay as long as the queue exists, and the first session without the
// queue drops them. "t*4" are the pods t-0 to t-3, "i@n*4" are i-0 to i-3 on node n.
func TestCountersOfADeletedQueueAreDropped(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		node n model=A cards=4
		job i queue=inference min=4 pending=4`)
	queue := fmt.Sprintf("training%d", s.ID)
	s.add(fmt.Sprintf(`
		queue %[1]s quota=1000 priority=20000 serviceType=training
		job t queue=%[1]s min=4 running=n*4 age=1h`, queue))
	s.runSession(t).expectEvictedAndPlaced(t, "t*4", "i@n*4")
	s.runSession(t)

	vecs := map[string]*prometheus.CounterVec{"jobs": s.search.counters.jobs, "pods": s.search.counters.pods, "card-seconds": s.search.counters.loss}
	for what, vec := range vecs {
		check.That(t, testutil.ToFloat64(vec.WithLabelValues(queue, "inference")) > 0, "no %s are counted while the queue exists", what)
	}

	s.Cache.DeleteQueueV1beta1(s.Queues[len(s.Queues)-1]) // the queue of job t
	s.runSession(t)
	for what, vec := range vecs {
		check.Equal(t, "series of the queue that count "+what, 0, vec.DeletePartialMatch(prometheus.Labels{"queue": queue}))
	}
}

// TestMetricsAreWellFormed: the action has three metrics, of jobs, pods and card-seconds that were reclaimed. Prometheus
// reads a series only once it has a value, so each gets one. Prometheus' own linter accepts their names and helps.
func TestMetricsAreWellFormed(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	search := New(NewEvictions(cards, fakePolicies{}))
	registry.MustRegister(search.Metrics()...)
	search.counters.jobs.WithLabelValues("q", "inference").Inc()
	search.counters.pods.WithLabelValues("q", "inference").Inc()
	search.counters.loss.WithLabelValues("q", "inference").Inc()

	check.Equal(t, "problems", nil, check.Value(testutil.GatherAndLint(registry))(t))
	var names []string
	for _, family := range check.Value(registry.Gather())(t) {
		names = append(names, family.GetName())
	}
	want := []string{"cardquota_reclaimed_card_seconds_total", "cardquota_reclaimed_jobs_total", "cardquota_reclaimed_pods_total"}
	check.Equal(t, "metrics", want, names)
}
