package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	api "cardquota.dev/operator/api/v1alpha1"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/workload"
)

func keyOf(object client.Object) types.NamespacedName { return client.ObjectKeyFromObject(object) }

// podsOf returns the live pods of a workload: those of a vcjob, or with its label.
func (s *scene) podsOf(name string) []corev1.Pod {
	pods := &corev1.PodList{}
	s.listObjects(pods, client.InNamespace(s.namespace))
	var live []corev1.Pod
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil && (pod.Labels[app] == name || pod.Labels[batchv1alpha1.JobNameKey] == name) {
			live = append(live, pod)
		}
	}
	return live
}

// countRunning counts the running pods of a workload.
func (s *scene) countRunning(name string) int { return inPhase(s.podsOf(name), corev1.PodRunning) }

func inPhase(pods []corev1.Pod, phase corev1.PodPhase) int {
	n := 0
	for _, pod := range pods {
		if pod.Status.Phase == phase {
			n++
		}
	}
	return n
}

// runningPods returns the running pods of workloads, with the workload's name.
func (s *scene) runningPods(names ...string) map[types.UID]string {
	alive := map[types.UID]string{}
	for _, name := range names {
		for _, pod := range s.podsOf(name) {
			if pod.Status.Phase == corev1.PodRunning {
				alive[pod.UID] = name
			}
		}
	}
	return alive
}

// countSurvivors counts the given pods that still run.
func (s *scene) countSurvivors(before map[types.UID]string) int {
	n := 0
	for uid := range s.runningPods(namesOf(before)...) {
		if _, ok := before[uid]; ok {
			n++
		}
	}
	return n
}

// namesOf returns the workloads of pods.
func namesOf(pods map[types.UID]string) []string {
	return slices.Compact(slices.Sorted(maps.Values(pods)))
}

// runningOfTask returns the running pods of one task of a job.
func (s *scene) runningOfTask(job, task string) []types.UID {
	var uids []types.UID
	for _, pod := range s.podsOf(job) {
		if pod.Status.Phase == corev1.PodRunning && pod.Annotations[batchv1alpha1.TaskSpecKey] == task {
			uids = append(uids, pod.UID)
		}
	}
	return uids
}

// wantRunningAndWaiting waits until exactly the given number of a workload's pods run and the rest wait,
// and checks that this stays so for some sessions.
func (s *scene) wantRunningAndWaiting(name string, run, wait int) {
	s.wantPods(map[string]string{name: runningAndWaiting(run, wait)})
}

// runningAndWaiting formats how many pods of a workload run and wait.
func runningAndWaiting(run, wait int) string { return fmt.Sprintf("%d run, %d wait", run, wait) }

// wantPods is wantRunningAndWaiting for several workloads at once.
func (s *scene) wantPods(want map[string]string) {
	count := func() any {
		got := map[string]string{}
		for name := range want {
			live := s.podsOf(name)
			n := inPhase(live, corev1.PodRunning)
			got[name] = runningAndWaiting(n, len(live)-n)
		}
		return got
	}
	s.waitUntilStable(count, want)
}

// wantNodes checks on which kinds of nodes the running pods of a workload are. At least one pod
// must run.
func (s *scene) wantNodes(name, prefix string) {
	placed := 0
	for _, pod := range s.podsOf(name) {
		if pod.Spec.NodeName != "" {
			placed++
			s.Expect(pod.Spec.NodeName).To(HavePrefix(prefix), pod.Name)
		}
	}
	s.Expect(placed).To(BeNumerically(">", 0), "no pod of %s is on a node", name)
}

// insufficientMessage returns the message of an insufficient quota.
func insufficientMessage(queue, card string, requested, capability int) string {
	return fmt.Sprintf("Queue <%s> has insufficient <%s> quota: requested <%d>, total would be <TOTAL>, but capability is <%d>",
		queue, card, requested, capability)
}

// wantReason waits until every waiting pod of a workload states why in an event, its own or its
// PodGroup's. At least one pod must wait. TOTAL stands for any number.
func (s *scene) wantReason(name, sentence string) {
	form := eventPattern(sentence)
	s.Eventually(func(g Gomega) {
		said := s.objectsWithEvent(form)
		waiting := slices.DeleteFunc(s.podsOf(name), func(pod corev1.Pod) bool { return pod.Spec.NodeName != "" })
		g.Expect(waiting).NotTo(BeEmpty(), "no pod of %s waits", name)
		for _, pod := range waiting {
			group := pod.Annotations[v1beta1.KubeGroupNameAnnotationKey]
			g.Expect(said).To(Or(HaveKey("Pod/"+pod.Name), HaveKey("PodGroup/"+group)), "pod %s has no event %q", pod.Name, form)
		}
	}).Should(Succeed())
}

// wantBlocked waits until the status of a CardQuota lists a workload as blocked, with a message that
// contains the sentence.
func (s *scene) wantBlocked(quota, sentence, workload string) {
	s.Eventually(func() []string {
		var named []string
		for _, b := range s.cardQuota(quota).Status.Blocked {
			if strings.Contains(b.Message, sentence) {
				named = append(named, b.Workload.Kind+"/"+b.Workload.Name)
			}
		}
		return named
	}).Should(ContainElement(workload))
}

// wantGroupReason waits for an event on the PodGroup of a vcjob without pods, and for a condition
// with the same message.
func (s *scene) wantGroupReason(job, sentence string) {
	form := eventPattern(sentence)
	s.Eventually(func() map[string]bool { return s.objectsWithEvent(form) }).Should(HaveKey(HavePrefix("PodGroup/"+job+"-")), "no event %q", form)
	s.Eventually(func() string { return s.groupMessage(job) }).Should(MatchRegexp(form.String()))
	refusal, _ := workload.ReadRefusalData(s.groupCondition(job, workload.PodGroupCardsRefused))
	s.Expect(refusal.Message()).To(MatchRegexp(form.String()), "what PodGroup %s says to programs", job)
}

// eventPattern matches texts that start with a sentence.
func eventPattern(sentence string) *regexp.Regexp {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(sentence), "TOTAL", "[0-9]+"))
}

// groupMessage returns why a job's PodGroup is not scheduled, "" for no reason.
func (s *scene) groupMessage(job string) string {
	return s.groupCondition(job, v1beta1.PodGroupUnschedulableType)
}

// groupCondition returns the message of a condition of a job's PodGroup, "" for none.
func (s *scene) groupCondition(job string, of v1beta1.PodGroupConditionType) string {
	groups := &v1beta1.PodGroupList{}
	s.listObjects(groups, client.InNamespace(s.namespace))
	for _, group := range groups.Items {
		if !strings.HasPrefix(group.Name, job+"-") {
			continue
		}
		for _, c := range group.Status.Conditions {
			if c.Type == of && c.Status == corev1.ConditionTrue {
				return c.Message
			}
		}
	}

	return ""
}

// objectsWithEvent returns the objects of the scene with an event of this form.
func (s *scene) objectsWithEvent(form *regexp.Regexp) map[string]bool {
	events := &corev1.EventList{}
	s.listObjects(events, client.InNamespace(s.namespace))
	said := map[string]bool{}
	for _, event := range events.Items {
		if form.MatchString(event.Message) {
			said[event.InvolvedObject.Kind+"/"+event.InvolvedObject.Name] = true
		}
	}
	return said
}

// waitForCondition waits until a CardQuota has a condition, and returns its message.
func (s *scene) waitForCondition(quota, kind string, status metav1.ConditionStatus) *metav1.Condition {
	var found *metav1.Condition
	s.Eventually(func() error {
		live := s.cardQuota(quota)
		found = meta.FindStatusCondition(live.Status.Conditions, kind)
		if found == nil || found.Status != status || live.Status.ObservedGeneration != live.Generation {
			return fmt.Errorf("conditions of %s (generation %d, observed %d): %+v", quota, live.Generation, live.Status.ObservedGeneration, live.Status.Conditions)
		}
		return nil
	}).Should(Succeed())
	return found
}

// wantUsedPendingAndOver waits until the status of a CardQuota has these numbers for a card.
func (s *scene) wantUsedPendingAndOver(quota, card string, used, pending, overQuotaBy int64) {
	s.Eventually(func() string {
		for _, c := range s.cardQuota(quota).Status.Cards {
			if c.Name == card {
				return fmt.Sprintf("used %d pending %d overQuotaBy %d", c.Used, c.Pending, c.OverQuotaBy)
			}
		}
		return "not in the status"
	}).Should(Equal(fmt.Sprintf("used %d pending %d overQuotaBy %d", used, pending, overQuotaBy)))
}

// setQuota sets the quota of a CardQuota.
func (s *scene) setQuota(name string, specs []api.Card) {
	s.mergePatch(&api.CardQuota{ObjectMeta: metav1.ObjectMeta{Name: name}}, `{"spec":{"cards":%s}}`, check.Value(json.Marshal(specs))(s))
}

// scaleDeployment sets the replicas of a Deployment.
func (s *scene) scaleDeployment(name string, replicas int) {
	s.mergePatch(&appsv1.Deployment{ObjectMeta: s.objectMeta(name)}, `{"spec":{"replicas":%d}}`, replicas)
}

// quotaOfQueue returns the quota in a Queue's annotation.
func (s *scene) quotaOfQueue(name string) string {
	return s.readQueue(name).Annotations[api.AnnotationCardQuota]
}

// eventsOn returns the events of an object with a reason; the namespace may be "".
func (s *scene) eventsOn(namespace, kind, name, reason string) []corev1.Event {
	events := &corev1.EventList{}
	s.listObjects(events, client.InNamespace(namespace),
		client.MatchingFields{"involvedObject.kind": kind, "involvedObject.name": name, "reason": reason})
	return events.Items
}

// eventMessages returns the messages of these events.
func (s *scene) eventMessages(namespace, kind, name, reason string) []string {
	var messages []string
	for _, event := range s.eventsOn(namespace, kind, name, reason) {
		messages = append(messages, event.Message)
	}
	return messages
}

// wantPhase waits until a vcjob is in a phase.
func (s *scene) wantPhase(job string, phase batchv1alpha1.JobPhase) {
	s.Eventually(func() batchv1alpha1.JobPhase { return s.readJob(job).Status.State.Phase }).Should(Equal(phase), job)
}

// cardOf returns the card of a node's resource, from the node's labels and independently of the
// tested code.
func cardOf(node *corev1.Node, resource corev1.ResourceName) string {
	model := node.Labels["nvidia.com/gpu.product"]
	switch profile, isSlice := strings.CutPrefix(string(resource), "nvidia.com/mig-"); {
	case isSlice:
		return model + "/mig-" + profile + "-mixed"
	case resource == "nvidia.com/gpu":
		return model
	case resource == "nvidia.com/gpu.shared":
		mebi, _ := strconv.ParseFloat(node.Labels["nvidia.com/gpu.memory"], 64)
		return fmt.Sprintf("%s/mps-%.0fg*1/%s", model, mebi/1024, node.Labels["nvidia.com/gpu.replicas"])
	case resource == "huawei.com/Ascend910":
		return node.Labels["huawei.com/npu.product"]
	}

	return ""
}

// usedCards recounts the cards of running pods from the labels of their nodes.
func (s *scene) usedCards(running []corev1.Pod) map[string]int64 {
	sum := map[string]int64{}
	for _, pod := range running {
		if pod.Status.Phase != corev1.PodRunning {
			continue
		}

		node := readObject(s, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: pod.Spec.NodeName}})
		for _, container := range pod.Spec.Containers {
			for resource, quantity := range container.Resources.Requests {
				if card := cardOf(node, resource); card != "" {
					sum[card] += quantity.Value()
				}
			}
		}
	}

	return sum
}

// wantUsedCards checks which cards the running pods of a workload use.
func (s *scene) wantUsedCards(name string, want map[string]int64) {
	s.Expect(s.usedCards(s.podsOf(name))).To(Equal(want), name)
}

// wantAllocated waits until card.allocated on a Queue is what its running pods
// use.
func (s *scene) wantAllocated(queue string) {
	s.Eventually(func(g Gomega) {
		said := map[string]int64{}
		g.Expect(json.Unmarshal([]byte(s.readQueue(queue).Annotations[api.AnnotationCardAllocated]), &said)).To(Succeed())
		maps.DeleteFunc(said, func(_ string, n int64) bool { return n == 0 })
		g.Expect(said).To(Equal(s.usedCards(s.podsIn(queue))), queue)
	}).Should(Succeed())
}

// podsIn returns the pods of a queue: those whose PodGroup is in it.
func (s *scene) podsIn(queue string) []corev1.Pod {
	groups := &v1beta1.PodGroupList{}
	pods := &corev1.PodList{}
	s.listObjects(groups, client.InNamespace(s.namespace))
	s.listObjects(pods, client.InNamespace(s.namespace))
	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool {
		return !slices.ContainsFunc(groups.Items, func(group v1beta1.PodGroup) bool {
			return group.Name == pod.Annotations[v1beta1.KubeGroupNameAnnotationKey] && group.Spec.Queue == queue
		})
	})
}
