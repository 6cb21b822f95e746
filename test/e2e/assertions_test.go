package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	api "cardquota.dev/operator/api/v1alpha1"
)

func keyOf(object client.Object) types.NamespacedName { return client.ObjectKeyFromObject(object) }

// podsOf lists the live pods of a workload.
func (s *scene) podsOf(name string) []corev1.Pod {
	s.Helper()
	pods := &corev1.PodList{}
	s.Expect(s.List(s.ctx, pods, client.InNamespace(s.namespace), client.MatchingLabels{app: name})).To(Succeed())
	var live []corev1.Pod
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil {
			live = append(live, pod)
		}
	}
	return live
}

// running counts the pods of a workload that run.
func (s *scene) running(name string) int {
	n := 0
	for _, pod := range s.podsOf(name) {
		if pod.Status.Phase == corev1.PodRunning {
			n++
		}
	}
	return n
}

// wantRunning waits until exactly so many of a workload's pods run and the
// rest waits, and until that has stayed so for some sessions.
func (s *scene) wantRunning(name string, running, waiting int) {
	s.Helper()
	count := func() string {
		pods := s.podsOf(name)
		n := 0
		for _, pod := range pods {
			if pod.Status.Phase == corev1.PodRunning {
				n++
			}
		}
		return fmt.Sprintf("%d run, %d wait", n, len(pods)-n)
	}
	want := fmt.Sprintf("%d run, %d wait", running, waiting)
	s.Eventually(count).Should(Equal(want), name)
	s.Consistently(count).Should(Equal(want), name)
}

// wantNodes checks on which kinds of nodes the running pods of a workload are.
func (s *scene) wantNodes(name, prefix string) {
	s.Helper()
	for _, pod := range s.podsOf(name) {
		if pod.Spec.NodeName != "" {
			s.Expect(pod.Spec.NodeName).To(HavePrefix(prefix), pod.Name)
		}
	}
}

// insufficient is the sentence of a missing quota.
func insufficient(queue, card string, requested, capability int) string {
	return fmt.Sprintf("Queue <%s> has insufficient <%s> quota: requested <%d>, total would be <TOTAL>, but capability is <%d>",
		queue, card, requested, capability)
}

// wantSaid waits until every waiting pod of a workload says why in an event,
// its own or its PodGroup's. TOTAL stands for any number.
func (s *scene) wantSaid(name, sentence string) {
	s.Helper()
	form := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(sentence), "TOTAL", "[0-9]+"))
	s.Eventually(func() error {
		said := s.events(form)
		for _, pod := range s.podsOf(name) {
			group := pod.Annotations[api.AnnotationPodGroup]
			if pod.Spec.NodeName == "" && !said["Pod/"+pod.Name] && !said["PodGroup/"+group] {
				return fmt.Errorf("pod %s has no event %q", pod.Name, form)
			}
		}
		return nil
	}).Should(Succeed())
}

// wantGroupSaid waits for an event on the PodGroup of a vcjob without pods, and
// for a condition that says the same.
func (s *scene) wantGroupSaid(job, sentence string) {
	s.Helper()
	form := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(sentence), "TOTAL", "[0-9]+"))
	s.Eventually(func() error {
		said := s.events(form)
		for object := range said {
			if strings.HasPrefix(object, "PodGroup/"+job+"-") {
				return nil
			}
		}
		return fmt.Errorf("no event %q on the PodGroup of %s, only %v", form, job, said)
	}).Should(Succeed())
	s.Eventually(func() string { return s.groupCondition(job) }).Should(MatchRegexp(strings.TrimPrefix(form.String(), "^")))
}

func (s *scene) groupCondition(job string) string {
	groups := &v1beta1.PodGroupList{}
	s.Expect(s.List(s.ctx, groups, client.InNamespace(s.namespace))).To(Succeed())
	for _, group := range groups.Items {
		if !strings.HasPrefix(group.Name, job+"-") {
			continue
		}
		for _, c := range group.Status.Conditions {
			if c.Type == v1beta1.PodGroupUnschedulableType && c.Status == corev1.ConditionTrue {
				return c.Message
			}
		}
	}
	return ""
}

// events finds the objects of the scene that have an event of this form.
func (s *scene) events(form *regexp.Regexp) map[string]bool {
	events := &corev1.EventList{}
	s.Expect(s.List(s.ctx, events, client.InNamespace(s.namespace))).To(Succeed())
	said := map[string]bool{}
	for _, event := range events.Items {
		if form.MatchString(event.Message) {
			said[event.InvolvedObject.Kind+"/"+event.InvolvedObject.Name] = true
		}
	}
	return said
}

// condition waits until a CardQuota has a condition, and returns its message.
func (s *scene) condition(quota, kind string, status metav1.ConditionStatus) *metav1.Condition {
	s.Helper()
	var found *metav1.Condition
	s.Eventually(func() error {
		live := &api.CardQuota{}
		if err := s.Get(s.ctx, types.NamespacedName{Name: quota}, live); err != nil {
			return err
		}
		found = meta.FindStatusCondition(live.Status.Conditions, kind)
		if found == nil || found.Status != status || live.Status.ObservedGeneration != live.Generation {
			return fmt.Errorf("conditions of %s (generation %d, observed %d): %+v", quota, live.Generation, live.Status.ObservedGeneration, live.Status.Conditions)
		}
		return nil
	}).Should(Succeed())
	return found
}

// wantCard waits until the status of a CardQuota shows these numbers of a card.
func (s *scene) wantCard(quota, card string, used, pending, overQuotaBy int64) {
	s.Helper()
	s.Eventually(func() string {
		live := &api.CardQuota{}
		s.Expect(s.Get(s.ctx, types.NamespacedName{Name: quota}, live)).To(Succeed())
		for _, c := range live.Status.Cards {
			if c.Name == card {
				return fmt.Sprintf("used %d pending %d overQuotaBy %d", c.Used, c.Pending, c.OverQuotaBy)
			}
		}
		return "not in the status"
	}).Should(Equal(fmt.Sprintf("used %d pending %d overQuotaBy %d", used, pending, overQuotaBy)))
}

// change sets the quota of a CardQuota and returns when that was.
func (s *scene) change(name string, specs []api.CardSpec) time.Time {
	s.Helper()
	live := &api.CardQuota{}
	s.Expect(s.Get(s.ctx, types.NamespacedName{Name: name}, live)).To(Succeed())
	before := live.DeepCopy()
	live.Spec.Cards = specs
	at := time.Now()
	s.Expect(s.Patch(s.ctx, live, client.MergeFrom(before))).To(Succeed())
	return at
}

// scale sets the replicas of a Deployment.
func (s *scene) scale(name string, replicas int) {
	s.Helper()
	live := &appsv1.Deployment{}
	s.Expect(s.Get(s.ctx, types.NamespacedName{Namespace: s.namespace, Name: name}, live)).To(Succeed())
	before := live.DeepCopy()
	live.Spec.Replicas = ptr.To(int32(replicas))
	s.Expect(s.Patch(s.ctx, live, client.MergeFrom(before))).To(Succeed())
}

// quotaOfQueue is what a Queue carries.
func (s *scene) quotaOfQueue(name string) string {
	live := &v1beta1.Queue{}
	if err := s.Get(s.ctx, types.NamespacedName{Name: name}, live); err != nil {
		return err.Error()
	}
	return live.Annotations[api.AnnotationCardQuota]
}
