package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
)

// team is the label by which the tests' queues choose namespaces.
const team = "example.com/team"

// ofChat are the namespaces of the team that the tests' queues choose.
var ofChat = &metav1.LabelSelector{MatchLabels: map[string]string{team: "chat"}}

// label sets the team of the scene's namespace.
func (s *scene) label(value string) {
	s.Helper()
	s.merge(builder.Namespace(s.namespace), `{"metadata":{"labels":{%q:%q}}}`, team, value)
}

// notFor is the sentence of a namespace that is left out.
func (s *scene) notFor(queue string) string {
	return fmt.Sprintf("Namespace <%s> may not use queue <%s>, which is only for namespaces with <%s=chat>", s.namespace, queue, team)
}

// wantBlocked waits until the status of a CardQuota names all workloads as
// blocked, with a message that holds the sentence.
func (s *scene) wantBlocked(quota, sentence string, workloads ...string) {
	s.Helper()
	s.Eventually(func() []string {
		var named []string
		for _, b := range s.cardQuota(quota).Status.Blocked {
			if strings.Contains(b.Message, sentence) {
				named = append(named, b.Workload.Kind+"/"+b.Workload.Name)
			}
		}
		return named
	}).Should(ContainElements(workloads))
}

// Any pod may name any queue: what keeps a namespace out is the scheduler alone,
// with every kind of workload.
func TestAQueueTakesTheNamespacesItChoosesOnly(t *testing.T) {
	t.Parallel()
	s := newScene(t, "tenancy")
	s.open(builder.CardQuota("tenancy").Card(h200, 8).With(func(q *api.CardQuota) { q.Spec.NamespaceSelector = ofChat }).Obj())
	s.run(work{name: "bare", queue: "tenancy", card: h200, count: 1, pods: 1})
	s.create(
		s.deploymentOf(work{name: "web", queue: "tenancy", card: h200, count: 1, pods: 2}),
		s.vcjob(work{name: "gang", queue: "tenancy", card: h200, count: 1, pods: 2, gang: 2}),
	)
	s.run(work{name: "nameless", queue: "tenancy", count: 1, pods: 1})
	s.run(work{name: "cpu", queue: "tenancy", pods: 1})
	out := map[string]string{"bare": pods(0, 1), "web": pods(0, 2), "gang": pods(0, 0), "nameless": pods(0, 1), "cpu": pods(0, 1)}
	for _, name := range []string{"bare", "web", "nameless", "cpu"} {
		s.wantSaid(name, s.notFor("tenancy"))
	}
	s.wantGroupSaid("gang", s.notFor("tenancy"))
	s.wantPods(out)
	s.wantBlocked("tenancy", s.notFor("tenancy"),
		"Pod/bare-0", "Deployment/web", "Job/gang", "Pod/nameless-0", "Pod/cpu-0")
	s.wantCard("tenancy", h200, 0, 6, 0)

	// Another team's label is no help; the right one lets everybody in.
	s.label("lab")
	s.wantPods(out)
	s.label("chat")
	labelled := time.Now()
	s.Eventually(func() int { return s.running("bare") + s.running("web") + s.running("nameless") }).Should(Equal(4))
	s.Logf("the pods run %s after their namespace was labelled", time.Since(labelled).Round(100*time.Millisecond))
	in := map[string]string{"bare": pods(1, 0), "web": pods(2, 0), "gang": pods(2, 0), "nameless": pods(1, 0)}
	s.wantPods(in)
	s.wantCard("tenancy", h200, 6, 0, 0)

	// Without the label nothing new starts, and what runs stays and counts.
	s.merge(builder.Namespace(s.namespace), `{"metadata":{"labels":{%q:null}}}`, team)
	s.beats() // the session that is open may not know of it
	s.beats()
	s.run(work{name: "late", queue: "tenancy", card: h200, count: 1, pods: 1})
	s.create(s.deploymentOf(work{name: "later", queue: "tenancy", card: h200, count: 1, pods: 1}))
	s.wantSaid("late", s.notFor("tenancy"))
	in["late"], in["later"] = pods(0, 1), pods(0, 1)
	s.wantPods(in)
	s.wantCard("tenancy", h200, 6, 2, 0)

	// A changed selector counts like a changed label.
	s.merge(builder.CardQuota("tenancy").Obj(), `{"spec":{"namespaceSelector":{"matchLabels":null,"matchExpressions":[%s]}}}`,
		`{"key":"kubernetes.io/metadata.name","operator":"In","values":["tenancy"]}`)
	in["late"], in["later"] = pods(1, 0), pods(1, 0)
	s.wantPods(in)
}

// A Queue that no CardQuota knows chooses as well; what cannot be read is nobody's.
func TestASelectorWrittenByHandIsEnforced(t *testing.T) {
	t.Parallel()
	s := newScene(t, "handmade")
	const mine = `{"matchLabels":{"kubernetes.io/metadata.name":"handmade"}}`
	for name, selector := range map[string]string{
		"mine":   mine,
		"theirs": `{"matchLabels":{"example.com/team":"chat"}}`,
		"broken": `{"matchLabel":{"kubernetes.io/metadata.name":"handmade"}}`,
	} {
		s.open(builder.Queue("handmade-"+name).Quota(`{"NVIDIA-H200":2}`).Annotation(api.AnnotationNamespaceSelector, selector).Obj())
		s.run(work{name: name, queue: "handmade-" + name, card: h200, count: 1, pods: 1})
	}
	const broken = "Queue <handmade-broken> has an invalid volcano.sh/namespace-selector, so no namespace may use it"
	s.wantSaid("theirs", s.notFor("handmade-theirs"))
	s.wantSaid("broken", broken)
	s.wantPods(map[string]string{"mine": pods(1, 0), "theirs": pods(0, 1), "broken": pods(0, 1)})
	s.Eventually(func() []string { return s.told("", "Queue", "handmade-broken", "InvalidNamespaceSelector") }).
		Should(ContainElement(HavePrefix(broken)), "the queue itself says so")

	// Put right, it takes its namespace in.
	s.annotate(builder.Queue("handmade-broken").Obj(), api.AnnotationNamespaceSelector, mine)
	s.wantRunning("broken", 1, 0)
}

// Inference of a namespace that its queue leaves out takes nothing from training,
// although it has priority, quota and the right service type. With the label it
// does.
func nobodyGoesForANamespaceThatIsLeftOut(t *tide) {
	t.ofType(t.queue("training"), "training", cards(t.card, 8))
	t.open(builder.CardQuota(t.queue("inference")).ServiceType("inference").Card(t.card, 8).
		With(func(q *api.CardQuota) { q.Spec.NamespaceSelector = ofChat }).Obj())
	t.trains("trainer", 8)
	stay := t.alive("trainer")
	t.serves("service", 2)
	t.wantSaid("service", t.notFor(t.queue("inference")))
	t.stay(stay)
	t.label("chat")
	t.wantPods(map[string]string{"trainer": pods(6, 2), "service": pods(2, 0)})
}
