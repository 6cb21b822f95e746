package e2e

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
)

// team is the label by which the tests' queues select namespaces.
const team = "example.com/team"

// chatNamespaces selects the namespaces of the team that the tests' queues allow.
var chatNamespaces = &metav1.LabelSelector{MatchLabels: map[string]string{team: "chat"}}

// labelNamespace sets the team label of the scene's namespace.
func (s *scene) labelNamespace(value string) {
	s.mergePatch(builder.Namespace(s.namespace), `{"metadata":{"labels":{%q:%q}}}`, team, value)
}

// notAllowedMessage returns the message for a namespace that a queue does not allow.
func (s *scene) notAllowedMessage(queue string) string {
	return fmt.Sprintf("Namespace <%s> may not use queue <%s>: ask an administrator", s.namespace, queue)
}

// TestAQueueAllowsOnlySelectedNamespaces: any pod may name any queue, and only the scheduler keeps a namespace out,
// for every kind of workload. The queue is for team chat. While the namespace has no team label, or that of another
// team, nothing runs and the status of the CardQuota shows nothing. With label chat all workloads with cards run.
// When the label is removed, running pods stay, and no new one starts until the selector names the namespace. Pod
// nameless names no card. Pod cpu requests none, and later lacks CPU, of which the queue has none. The gang has no
// pods while it waits.
func TestAQueueAllowsOnlySelectedNamespaces(t *testing.T) {
	s := newScene(t, "tenancy")
	s.createAndAwaitOpen(builder.CardQuota("tenancy").Card(h200, 8).With(func(q *api.CardQuota) { q.Spec.NamespaceSelector = chatNamespaces }).Obj())
	s.createPods(podSet{name: "bare", queue: "tenancy", card: h200, count: 1, pods: 1})
	s.createObjects(
		s.deploymentOf(podSet{name: "web", queue: "tenancy", card: h200, count: 1, pods: 2}),
		s.newVCJob(podSet{name: "gang", queue: "tenancy", card: h200, count: 1, pods: 2, gang: 2}),
	)

	s.createPods(podSet{name: "nameless", queue: "tenancy", count: 1, pods: 1})
	s.createPods(podSet{name: "cpu", queue: "tenancy", pods: 1})
	out := map[string]string{"bare": runningAndWaiting(0, 1), "web": runningAndWaiting(0, 2), "gang": runningAndWaiting(0, 0), "nameless": runningAndWaiting(0, 1), "cpu": runningAndWaiting(0, 1)}

	for _, name := range []string{"bare", "web", "nameless", "cpu"} {
		s.wantReason(name, s.notAllowedMessage("tenancy"))
	}

	s.wantGroupReason("gang", s.notAllowedMessage("tenancy"))
	s.wantPods(out)
	// Any tenant can name the queue, so its status shows none of that.
	s.wantUsedPendingAndOver("tenancy", h200, 0, 0, 0)
	s.Expect(s.cardQuota("tenancy").Status.BlockedTotal).To(BeZero())

	// Another team's label does not help; the right one allows all workloads with cards.
	s.labelNamespace("lab")
	s.wantPods(out)
	s.labelNamespace("chat")
	labelled := time.Now()
	s.Eventually(func() int { return s.countRunning("bare") + s.countRunning("web") + s.countRunning("nameless") }).Should(Equal(4))
	s.Logf("the pods run %s after their namespace was labelled", time.Since(labelled).Round(100*time.Millisecond))

	in := map[string]string{"bare": runningAndWaiting(1, 0), "web": runningAndWaiting(2, 0), "gang": runningAndWaiting(2, 0), "nameless": runningAndWaiting(1, 0)}
	s.wantPods(in)
	s.wantUsedPendingAndOver("tenancy", h200, 1+2+2+1, 0, 0)

	// Without the label nothing new starts, and running pods stay and count.
	s.mergePatch(builder.Namespace(s.namespace), `{"metadata":{"labels":{%q:null}}}`, team)
	s.waitForHeartbeat() // the session that is open may not know of it
	s.waitForHeartbeat()
	s.createPods(podSet{name: "late", queue: "tenancy", card: h200, count: 1, pods: 1})
	s.createObjects(s.deploymentOf(podSet{name: "later", queue: "tenancy", card: h200, count: 1, pods: 1}))
	s.wantReason("late", s.notAllowedMessage("tenancy"))
	in["late"] = runningAndWaiting(0, 1)
	in["later"] = runningAndWaiting(0, 1)
	s.wantPods(in)
	s.wantUsedPendingAndOver("tenancy", h200, 6, 0, 0)

	// A changed selector has the same effect as a changed label.
	s.mergePatch(builder.CardQuota("tenancy").Obj(), `{"spec":{"namespaceSelector":{"matchLabels":null,"matchExpressions":[%s]}}}`,
		`{"key":"kubernetes.io/metadata.name","operator":"In","values":["tenancy"]}`)

	in["late"] = runningAndWaiting(1, 0)
	in["later"] = runningAndWaiting(1, 0)
	s.wantPods(in)
}

// TestASelectorWrittenByHandIsEnforced: a Queue without a CardQuota may select namespaces by an annotation. Queue
// "mine", which selects this namespace, runs its pod. Queue "theirs", which selects another team, does not. Queue
// "broken", whose selector cannot be read, allows no namespace until the selector is corrected. An event says why.
func TestASelectorWrittenByHandIsEnforced(t *testing.T) {
	s := newScene(t, "handmade")
	const mine = `{"matchLabels":{"kubernetes.io/metadata.name":"handmade"}}`
	for name, selector := range map[string]string{
		"mine":   mine,
		"theirs": `{"matchLabels":{"example.com/team":"chat"}}`,
		"broken": `{"matchLabel":{"kubernetes.io/metadata.name":"handmade"}}`, // matchLabels without its s
	} {
		s.createAndAwaitOpen(builder.Queue("handmade-"+name).Quota(`{"NVIDIA-H200":2}`).Annotation(api.AnnotationNamespaceSelector, selector).Obj())
		s.createPods(podSet{name: name, queue: "handmade-" + name, card: h200, count: 1, pods: 1})
	}

	const broken = "Queue <handmade-broken> has an invalid volcano.sh/namespace-selector, so no namespace may use it"
	s.wantReason("theirs", s.notAllowedMessage("handmade-theirs"))
	s.wantReason("broken", broken)
	s.wantPods(map[string]string{"mine": runningAndWaiting(1, 0), "theirs": runningAndWaiting(0, 1), "broken": runningAndWaiting(0, 1)})
	s.Eventually(func() []string { return s.eventMessages("", "Queue", "handmade-broken", "InvalidNamespaceSelector") }).
		Should(ContainElement(HavePrefix(broken)), "the queue itself says so")

	// Once corrected, it allows its namespace.
	s.setAnnotation(builder.Queue("handmade-broken").Obj(), api.AnnotationNamespaceSelector, mine)
	s.wantRunningAndWaiting("broken", 1, 0)
}

// noEvictionForADisallowedNamespace: inference in a namespace that its queue does not allow takes no cards back
// from training, although it has priority, quota and the right service type. With the label of team chat it takes 2
// of 8.
func noEvictionForADisallowedNamespace(t *reclaimTest) {
	t.createQuotaOfType(t.queueName("training"), "training", cardList(t.card, 8))
	t.createAndAwaitOpen(builder.CardQuota(t.queueName("inference")).ServiceType("inference").Card(t.card, 8).
		With(func(q *api.CardQuota) { q.Spec.NamespaceSelector = chatNamespaces }).Obj())
	t.startTraining("trainer", 8)
	stay := t.runningPods("trainer")
	t.createInference("service", 2)
	t.wantReason("service", t.notAllowedMessage(t.queueName("inference")))
	t.checkSamePods(stay)
	t.labelNamespace("chat")
	t.wantPods(map[string]string{"trainer": runningAndWaiting(6, 2), "service": runningAndWaiting(2, 0)})
}
