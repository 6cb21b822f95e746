package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	api "cardquota.dev/operator/api/v1alpha1"
)

// team is the label by which the tests' queues choose namespaces.
const team = "example.com/team"

// label sets the team of the scene's namespace, "" takes the label off.
func (s *scene) label(value string) {
	s.Helper()
	live := &corev1.Namespace{}
	s.get(types.NamespacedName{Name: s.namespace}, live)
	before := live.DeepCopy()
	if live.Labels == nil {
		live.Labels = map[string]string{}
	}
	live.Labels[team] = value
	if value == "" {
		delete(live.Labels, team)
	}
	s.Expect(s.Patch(s.ctx, live, client.MergeFrom(before))).To(Succeed())
}

// noticed waits until the scheduler has begun and ended a session after now: the
// one that it is in may not know of the last change.
func (s *scene) noticed() {
	s.Helper()
	s.beats()
	s.beats()
}

// quotaFor creates a CardQuota of a queue that only namespaces of a team may use.
func (s *scene) quotaFor(name, serviceType, of string, specs []api.CardSpec) {
	s.Helper()
	s.create(&api.CardQuota{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: api.CardQuotaSpec{Tenant: "tenant-of-" + s.namespace, ServiceType: serviceType, Cards: specs,
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{team: of}}},
	})
	s.condition(name, api.ConditionReady, metav1.ConditionTrue)
}

// notFor is the sentence of a namespace that is left out.
func (s *scene) notFor(queue, of string) string {
	return fmt.Sprintf("Namespace <%s> may not use queue <%s>, which is only for namespaces with <%s=%s>", s.namespace, queue, team, of)
}

// wantBlocked waits until the status of a CardQuota names all workloads as
// blocked, with a message that holds the sentence.
func (s *scene) wantBlocked(quota, sentence string, workloads ...string) {
	s.Helper()
	s.Eventually(func() []string {
		live := &api.CardQuota{}
		s.get(types.NamespacedName{Name: quota}, live)
		var named []string
		for _, b := range live.Status.Blocked {
			if strings.Contains(b.Message, sentence) {
				named = append(named, b.Workload)
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
	s.quotaFor("tenancy", "training", "chat", cards(h200, 8))
	s.run(work{name: "bare", queue: "tenancy", card: h200, count: 1, pods: 1})
	s.create(
		s.deploymentOf(work{name: "web", queue: "tenancy", card: h200, count: 1, pods: 2}),
		s.vcjob(work{name: "gang", queue: "tenancy", card: h200, count: 1, pods: 2, gang: 2}),
	)
	s.run(work{name: "nameless", queue: "tenancy", count: 1, pods: 1})
	s.run(work{name: "cpu", queue: "tenancy", pods: 1})
	out := map[string]string{"bare": pods(0, 1), "web": pods(0, 2), "gang": pods(0, 0), "nameless": pods(0, 1), "cpu": pods(0, 1)}
	for _, name := range []string{"bare", "web", "nameless", "cpu"} {
		s.wantSaid(name, s.notFor("tenancy", "chat"))
	}
	s.wantGroupSaid("gang", s.notFor("tenancy", "chat"))
	s.wantPods(out)
	s.wantBlocked("tenancy", s.notFor("tenancy", "chat"),
		"pod/tenancy/bare-0", "deployment/tenancy/web", "vcjob/tenancy/gang", "pod/tenancy/nameless-0", "pod/tenancy/cpu-0")
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
	s.label("")
	s.noticed()
	s.run(work{name: "late", queue: "tenancy", card: h200, count: 1, pods: 1})
	s.create(s.deploymentOf(work{name: "later", queue: "tenancy", card: h200, count: 1, pods: 1}))
	s.wantSaid("late", s.notFor("tenancy", "chat"))
	in["late"], in["later"] = pods(0, 1), pods(0, 1)
	s.wantPods(in)
	s.wantCard("tenancy", h200, 6, 2, 0)

	// A changed selector counts like a changed label.
	live := &api.CardQuota{}
	s.get(types.NamespacedName{Name: "tenancy"}, live)
	before := live.DeepCopy()
	live.Spec.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: []string{"tenancy"}}}}
	s.Expect(s.Patch(s.ctx, live, client.MergeFrom(before))).To(Succeed())
	in["late"], in["later"] = pods(1, 0), pods(1, 0)
	s.wantPods(in)
}

// A Queue that no CardQuota knows chooses as well; what cannot be read is nobody's.
func TestASelectorWrittenByHandIsEnforced(t *testing.T) {
	t.Parallel()
	s := newScene(t, "handmade")
	for name, selector := range map[string]string{
		"handmade-mine":   `{"matchLabels":{"kubernetes.io/metadata.name":"handmade"}}`,
		"handmade-theirs": `{"matchLabels":{"example.com/team":"chat"}}`,
		"handmade-broken": `{"matchLabel":{"kubernetes.io/metadata.name":"handmade"}}`,
	} {
		queue := s.queueByHand(name, `{"NVIDIA-H200":2}`)
		s.get(keyOf(queue), queue)
		before := queue.DeepCopy()
		queue.Annotations[api.AnnotationNamespaceSelector] = selector
		s.Expect(s.Patch(s.ctx, queue, client.MergeFrom(before))).To(Succeed())
	}
	s.noticed()
	for _, kind := range []string{"mine", "theirs", "broken"} {
		s.run(work{name: kind, queue: "handmade-" + kind, card: h200, count: 1, pods: 1})
	}
	const broken = "Queue <handmade-broken> has an invalid volcano.sh/namespace-selector, so no namespace may use it"
	s.wantSaid("theirs", s.notFor("handmade-theirs", "chat"))
	s.wantSaid("broken", broken)
	s.wantPods(map[string]string{"mine": pods(1, 0), "theirs": pods(0, 1), "broken": pods(0, 1)})
	s.Eventually(func() []string {
		events := &corev1.EventList{}
		s.list(events)
		var said []string
		for _, e := range events.Items {
			if e.InvolvedObject.Kind == "Queue" && e.InvolvedObject.Name == "handmade-broken" {
				said = append(said, e.Message)
			}
		}
		return said
	}).Should(ContainElement(HavePrefix(broken)), "the queue itself says so")

	// Put right, it takes its namespace in.
	queue := &v1beta1.Queue{}
	s.get(types.NamespacedName{Name: "handmade-broken"}, queue)
	before := queue.DeepCopy()
	queue.Annotations[api.AnnotationNamespaceSelector] = `{"matchLabels":{"kubernetes.io/metadata.name":"handmade"}}`
	s.Expect(s.Patch(s.ctx, queue, client.MergeFrom(before))).To(Succeed())
	s.wantRunning("broken", 1, 0)
}

// Inference of a namespace that its queue leaves out takes nothing from training,
// although it has priority, quota and the right service type. With the label it
// does.
func nobodyGoesForANamespaceThatIsLeftOut(t *tide) {
	t.ofType(t.queue("training"), "training", cards(t.card, 8))
	t.quotaFor(t.queue("inference"), "inference", "chat", cards(t.card, 8))
	t.trains("trainer", 8)
	stay := t.alive("trainer")
	t.serves("service", 2)
	t.wantSaid("service", t.notFor(t.queue("inference"), "chat"))
	t.stay(stay)
	t.label("chat")
	t.wantPods(map[string]string{"trainer": pods(6, 2), "service": pods(2, 0)})
}
