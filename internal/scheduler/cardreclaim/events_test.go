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
	t.Helper()
	return eventsIn(t, "ns", uid, reason)
}

// eventsIn lists the events about an object of this scene in a namespace, once there are any.
func eventsIn(t *testing.T, namespace, uid, reason string) []corev1.Event {
	t.Helper()
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

func TestReclaimEvents(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ taken, kind, victimJob, promise string }{
		"a vcjob that starts again": {"min=4 running=n*4 owner=vcjob", "Job",
			"4 card(s) are reclaimed for ns/i of queue inf: the whole job is evicted, and starts again when cards are free; no retry is counted; 345600 card-seconds of work are lost",
			"reclaims cards for 1 pod(s): 4 pod(s) of ns/%s are evicted, 345600 card-seconds of work are lost; its pods start when those are gone"},
		"a vcjob that ends": {"min=4 running=n*4 owner=vcjob evictionPolicy=TerminateJob", "Job", "the whole job is evicted, and its own policy on evicted pods ends it", "4 pod(s) of ns/%s are evicted"},
		"a gang of others":  {"min=4 running=n*4", "PodGroup", "all of its pods are evicted", "4 pod(s) of ns/%s are evicted"},
		"a elastic pod": {"min=3 running=n*4 owner=vcjob", "Job", "1 card(s) are reclaimed for ns/i of queue inf: one of its pods is evicted, the job continues; 86400 card-seconds of work are lost",
			"1 pod(s) of ns/%s are evicted, 86400 card-seconds"},
		"elastic pods of two cards": {"min=1 running=n*2 cards=2", "PodGroup", "2 card(s) are reclaimed for ns/i of queue inf: one of its pods is evicted", "1 pod(s) of ns/%s are evicted, 172800 card-seconds"},
	}) {
		w := newScene("node n model=A cards=4; job i queue=inf min=1 pending=1")
		taken := fmt.Sprintf("t%d", w.ID)
		w.add("job " + taken + " queue=tra " + tc.taken + " age=24h").runAction(t)
		uid := fmt.Sprintf("w%d-%s", w.ID, taken)
		if tc.kind == "Job" {
			uid = fmt.Sprintf("w%d-job-%s", w.ID, taken)
		}

		events := eventsAbout(t, uid, "CardsReclaimed")
		check.That(t, isOnlyEvent(events, "Warning", tc.kind, tc.victimJob) && events[0].Source.Component == "capacity-card", "the victim job has %+v, want a warning %q on the %s", events, tc.victimJob, tc.kind)

		events = eventsAbout(t, fmt.Sprintf("w%d-i", w.ID), "ReclaimsCards")
		check.That(t, isOnlyEvent(events, "Normal", "PodGroup", fmt.Sprintf(tc.promise, taken)), "the reclaimer has %+v, want "+tc.promise, events, taken)
	}
}

// TestEventsNameNoJobsOfOtherNamespaces: the names of jobs and queues there belong to other tenants.
func TestEventsNameNoJobsOfOtherNamespaces(t *testing.T) {
	w := newScene("node n model=A cards=4; job i queue=inf min=4 pending=4 namespace=shop")
	own := fmt.Sprintf("own%d", w.ID)
	far := fmt.Sprintf("far%d", w.ID)
	w.add("job " + far + "a queue=tra min=2 running=n*2 age=24h; job " + far + "b queue=tra min=1 running=n age=24h; job " + own + " queue=tra min=1 running=n age=24h namespace=shop").runAction(t)

	message := eventsIn(t, "shop", fmt.Sprintf("w%d-i", w.ID), "ReclaimsCards")[0].Message
	check.Contains(t, "the event, with its own job by name and the others by service type", message, "4 pod(s) of shop/"+own+", 2 jobs of service type training are evicted")

	message = eventsAbout(t, fmt.Sprintf("w%d-%sa", w.ID, far), "CardsReclaimed")[0].Message
	check.That(t, strings.HasPrefix(message, "2 card(s) are reclaimed for 1 job of service type inference: all of its pods are evicted"), "the victim reads %q", message)

	message = eventsIn(t, "shop", fmt.Sprintf("w%d-%s", w.ID, own), "CardsReclaimed")[0].Message
	check.That(t, strings.HasPrefix(message, "1 card(s) are reclaimed for shop/i of queue inf: "), "the victim in the reclaimer's namespace reads %q", message)
}

// TestEventsShowOnlyTypesOfTheMatrix: in a queue without a service type the pods name it. A pod that is
// not evicted may name any text, which must not reach other tenants.
func TestEventsShowOnlyTypesOfTheMatrix(t *testing.T) {
	w := newScene("node n model=A cards=2; queue other quota=PLENTY priority=100 reclaimable=true; job t queue=other min=1 running=n*2 serviceType=training age=24h; job i queue=inf min=1 pending=1 namespace=shop", onPod("t-0", typed("any text"))).runAction(t)
	w.expectEvictedAndPlaced(t, "t-1", "i-0@n")
	message := eventsIn(t, "shop", fmt.Sprintf("w%d-i", w.ID), "ReclaimsCards")[0].Message
	check.Contains(t, "event of the reclaimer", message, "1 pod(s) of 1 job of service type training are evicted")
}

func TestDescribeJobs(t *testing.T) {
	check.Equal(t, "own jobs, then others by type", "a/1, a/2, a/3, 1 more, 1 job without service type, 2 jobs of service type training", describeJobs("a", []namedJob{
		{"b/1", "b", "training"}, {"a/1", "a", "training"}, {"c/1", "c", "training"}, {"a/2", "a", ""}, {"b/2", "b", ""}, {"a/3", "a", ""}, {"a/4", "a", ""}}))
}

func TestEventNamesFewJobs(t *testing.T) {
	w := newScene("node n model=A cards=5; job t0 queue=tra min=1 running=n age=24h; job t1 queue=tra min=1 running=n age=24h; job t2 queue=tra min=1 running=n age=24h; job t3 queue=tra min=1 running=n age=24h; job t4 queue=tra min=1 running=n age=24h; job i queue=inf min=5 pending=5").runAction(t)
	message := eventsAbout(t, fmt.Sprintf("w%d-i", w.ID), "ReclaimsCards")[0].Message
	check.Contains(t, "event of the reclaimer", message, "for 5 pod(s): 5 pod(s) of ns/t", ", 2 more are evicted, 432000 card-seconds")
	check.Equal(t, "jobs in it", 3, strings.Count(message, "ns/"))
}

// TestNoEventWithoutEviction: pods that are placed on free cards evict none.
func TestNoEventWithoutEviction(t *testing.T) {
	w := newScene("node n model=A cards=4; job i queue=inf min=1 pending=1")
	w.alone = true
	w.runAction(t).expectEvictedAndPlaced(t, "", "i-0@n")
	check.Equal(t, "queues that are counted", 0, testutil.CollectAndCount(w.action.counters.pods))
}

func TestReclaimCounters(t *testing.T) {
	w := newScene("node n model=A cards=8; job i queue=inf min=3 pending=3")
	queue := fmt.Sprintf("tra%d", w.ID)
	w.add(fmt.Sprintf("queue %s quota=PLENTY priority=20000 serviceType=training; job t queue=%s min=4 running=n*4 age=1h; job u queue=%s min=3 running=n*4 age=24h", queue, queue, queue)).runAction(t).expectEvictedAndPlaced(t, "t*4", "i@n*3")
	for what, tc := range map[string]struct {
		vec  *prometheus.CounterVec
		want float64
	}{"jobs": {w.action.counters.jobs, 1}, "pods": {w.action.counters.pods, 4}, "card-seconds": {w.action.counters.loss, 4 * 3600}} {
		got := testutil.ToFloat64(tc.vec.WithLabelValues(queue, "inference"))
		check.That(t, got >= tc.want && got <= tc.want+40, "%v %s, want %v", got, what, tc.want) // the clock went on
	}

	w = newScene(fmt.Sprintf("node n model=A cards=4; queue %sb quota=PLENTY priority=20000 serviceType=training; job t queue=%sb min=2 running=n*4 age=1h; job i queue=inf min=2 pending=2", queue, queue)).runAction(t)
	w.expectEvictedAndPlaced(t, "t-0 t-1", "i@n*2")
	check.Equal(t, "counted jobs of elastic pods", 0, testutil.ToFloat64(w.action.counters.jobs.WithLabelValues(queue+"b", "inference")))
	check.Equal(t, "counted pods", 2, testutil.ToFloat64(w.action.counters.pods.WithLabelValues(queue+"b", "inference")))
}

// TestCountersOfDeletedQueueAreDropped: otherwise the series would grow as tenants come and
// go.
func TestCountersOfDeletedQueueAreDropped(t *testing.T) {
	w := newScene("node n model=A cards=4; job i queue=inf min=4 pending=4")
	queue := fmt.Sprintf("tra%d", w.ID)
	w.add(fmt.Sprintf("queue %s quota=PLENTY priority=20000 serviceType=training; job t queue=%s min=4 running=n*4 age=1h", queue, queue)).runAction(t).expectEvictedAndPlaced(t, "t*4", "i@n*4")

	vecs := map[string]*prometheus.CounterVec{"jobs": w.action.counters.jobs, "pods": w.action.counters.pods, "card-seconds": w.action.counters.loss}
	for what, vec := range vecs {
		check.That(t, testutil.ToFloat64(vec.WithLabelValues(queue, "inference")) > 0, "no %s are counted", what)
	}

	w.openSession().executeActions()
	check.That(t, testutil.ToFloat64(w.action.counters.pods.WithLabelValues(queue, "inference")) > 0, "the pods of a queue that exists are forgotten")

	for _, known := range w.Queues {
		if known.Name == queue {
			w.Cache.DeleteQueueV1beta1(known)
		}
	}

	w.openSession().executeActions()
	for what, vec := range vecs {
		check.That(t, vec.DeletePartialMatch(prometheus.Labels{"queue": queue}) == 0, "the series of %s is still there", what)
	}
}

func TestMetricsAreWellFormed(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	action := New(cards, fakePolicies{})
	registry.MustRegister(action.Metrics()...)

	fresh := action.counters
	fresh.jobs.WithLabelValues("q", "inference").Inc()
	fresh.pods.WithLabelValues("q", "inference").Inc()
	fresh.loss.WithLabelValues("q", "inference").Inc()
	problems, err := testutil.GatherAndLint(registry)
	check.That(t, err == nil && len(problems) == 0, "problems %v, error %v", problems, err)

	var names []string
	for _, family := range check.Value(registry.Gather())(t) {
		names = append(names, family.GetName())
	}

	check.Equal(t, "metrics", []string{"cardquota_reclaimed_card_seconds_total", "cardquota_reclaimed_jobs_total", "cardquota_reclaimed_pods_total"}, names)
}
