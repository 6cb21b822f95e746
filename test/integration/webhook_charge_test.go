package integration

import (
	"context"
	"fmt"
	"testing"

	"github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
)

// payers is who tries to change what cards are charged to.
type payers struct{ tenant, volcano, scheduler, admin client.Client }

// merge is a merge patch as a dry run: every admission check, and nothing stays.
func merge(t *testing.T, as client.Client, object client.Object, patch string) error {
	t.Helper()
	return as.Patch(t.Context(), object.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(patch)), client.DryRunAll)
}

// payers prepares them: the tenant has all of Volcano that lives in its namespace.
func (w *gate) payers(t *testing.T) payers {
	t.Helper()
	g := gomega.NewWithT(t)
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "volcano"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"batch.volcano.sh", "bus.volcano.sh"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{APIGroups: []string{v1beta1.GroupName}, Resources: []string{"podgroups"}, Verbs: []string{"*"}},
	}}
	w.temporary(t, role)
	tenant := w.tenant(t, "chat")
	w.temporary(t, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "volcano"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "volcano"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "somebody@chat"}},
	})
	g.Eventually(func() error { return tenant.List(t.Context(), &v1beta1.PodGroupList{}, client.InNamespace("chat")) }).WithTimeout(waitLong).Should(gomega.Succeed())
	account := func(name string) client.Client {
		return w.as(t, "system:serviceaccount:volcano-system:"+name, "system:serviceaccounts", "system:serviceaccounts:volcano-system")
	}
	return payers{tenant: tenant, volcano: account("volcano-controllers"), scheduler: account("cardquota-scheduler"), admin: w}
}

// group makes a PodGroup of a state that Volcano's scheduler would have written.
func (w *gate) group(t *testing.T, namespace, name string, phase v1beta1.PodGroupPhase, running int32) *v1beta1.PodGroup {
	t.Helper()
	group := &v1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1beta1.PodGroupSpec{MinMember: 1, Queue: "paying"}}
	w.temporary(t, group)
	// Volcano's own controllers and webhooks fill in the rest; the status is written last.
	gomega.NewWithT(t).Eventually(func() error {
		return w.Patch(t.Context(), group, client.RawPatch(types.MergePatchType, []byte(fmt.Sprintf(`{"status":{"phase":%q,"running":%d}}`, phase, running))))
	}).WithTimeout(waitLong).Should(gomega.Succeed())
	return group
}

// placed makes a pod on a node, past the scheduler, before the guard is there or as
// an exempt account.
func (w *gate) placed(t *testing.T, as client.Client, name string, spec corev1.PodSpec, nodeName string) *corev1.Pod {
	t.Helper()
	spec.NodeName = nodeName
	pod := podOf("chat", spec)
	pod.Name, pod.GenerateName = name, ""
	pod.Annotations = map[string]string{v1alpha1.AnnotationPodGroup: "mine", v1alpha1.AnnotationQueueName: "paying"}
	gomega.NewWithT(t).Expect(as.Create(t.Context(), pod)).To(gomega.Succeed())
	t.Cleanup(func() { w.remove(t, pod) })
	return pod
}

// chargeTests are the rules about what is held, with the guard in force. exempt may
// bypass the scheduler.
func chargeTests(t *testing.T, w *gate, exempt client.Client) {
	p := w.payers(t)
	chargeInForce(t, p.tenant)
	for _, name := range []string{"paying", "other"} {
		w.temporary(t, newQuota(name, nil))
		w.openQueue(t, name)
	}
	held, waiting := w.group(t, "chat", "held", v1beta1.PodGroupRunning, 1), w.group(t, "chat", "waiting", v1beta1.PodGroupInqueue, 0)
	const move, label = `{"spec":{"queue":"other"}}`, `{"metadata":{"labels":{"a":"b"}}}`
	t.Run("groups", func(t *testing.T) {
		groupTests(t, p, held, waiting, move, label)
	})
	t.Run("a namespace takes its groups along", func(t *testing.T) {
		w.namespace(t, "leaving", nil)
		w.group(t, "leaving", "held", v1beta1.PodGroupRunning, 1)
		w.remove(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "leaving"}})
	})
	t.Run("pods", func(t *testing.T) { annotationTests(t, w, p, exempt) })
	t.Run("templates", func(t *testing.T) { templateTests(t, w, p) })
	t.Run("goodbyes", func(t *testing.T) { goodbyeTests(t, w, p, exempt) })
	t.Run("commands", func(t *testing.T) { commandTests(t, p) })
	t.Run("the API server finds no fault in the rules", func(t *testing.T) {
		policy := &admissionv1.ValidatingAdmissionPolicy{}
		g := gomega.NewWithT(t)
		g.Eventually(func() (int64, error) {
			err := w.Get(t.Context(), client.ObjectKey{Name: v1alpha1.ChargePolicyName}, policy)
			return policy.Status.ObservedGeneration, err
		}).WithTimeout(waitLong).Should(gomega.BeNumerically(">", 0))
		g.Expect(policy.Status.TypeChecking).To(gomega.Or(gomega.BeNil(), gomega.HaveField("ExpressionWarnings", gomega.BeEmpty())))
	})
}

// chargeInForce waits until the API server holds to the rules: it learns of them
// within seconds, and of each policy by itself.
func chargeInForce(t *testing.T, tenant client.Client) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() error {
		return tenant.Create(t.Context(), commandTo("Queue", "scheduling.volcano.sh/v1beta1", "default"), client.DryRunAll)
	}).WithTimeout(waitLong).Should(forbidden(v1alpha1.ChargePolicyName))
}

// commandTo closes an object of Volcano.
func commandTo(kind, apiVersion, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command",
		"metadata": map[string]any{"namespace": "chat", "generateName": "close-"},
		"action":   "CloseQueue",
		"target":   map[string]any{"apiVersion": apiVersion, "kind": kind, "name": name, "uid": "x"},
	}}
}

func verdict(t *testing.T, err error, want ...string) {
	t.Helper()
	if len(want) == 0 {
		gomega.NewWithT(t).Expect(err).NotTo(gomega.HaveOccurred())
	} else {
		gomega.NewWithT(t).Expect(err).To(forbidden(append(want, v1alpha1.ChargePolicyName)...))
	}
}

func groupTests(t *testing.T, p payers, held, waiting *v1beta1.PodGroup, move, label string) {
	again := []string{"is in queue paying", "may not move it to queue other", "submit it again with the other queue"}
	for name, tc := range map[string]struct {
		as    client.Client
		group *v1beta1.PodGroup
		patch string
		want  []string
	}{
		"a tenant moves what runs":                       {p.tenant, held, move, append(again, "somebody@chat", "PodGroup held of namespace chat")},
		"a tenant moves what waits":                      {p.tenant, waiting, move, again},
		"a tenant moves nothing":                         {p.tenant, held, `{"spec":{"queue":"paying"}}`, nil},
		"a tenant labels":                                {p.tenant, held, label, nil},
		"a tenant says that nothing runs":                {p.tenant, held, `{"status":{"phase":"Pending","running":0}}`, []string{"may not change its status.phase"}},
		"a tenant gives it to nobody":                    {p.tenant, held, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"x"}]}}`, []string{"or its owners"}},
		"Volcano's controllers move what waits":          {p.volcano, waiting, move, nil},
		"Volcano's controllers move what runs":           {p.volcano, held, move, again},
		"Volcano's controllers change the rest":          {p.volcano, held, `{"spec":{"minMember":2}}`, nil},
		"the scheduler's status":                         {p.scheduler, held, `{"status":{"phase":"Unknown","running":0}}`, nil},
		"an administrator moves what runs":               {p.admin, held, move, nil},
		"an administrator moves what waits, in dry runs": {p.admin, waiting, move, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.as == p.scheduler { // it may update, not patch
				group := &v1beta1.PodGroup{}
				gomega.NewWithT(t).Expect(p.admin.Get(t.Context(), client.ObjectKeyFromObject(tc.group), group)).To(gomega.Succeed())
				group.Status.Phase, group.Status.Running = v1beta1.PodGroupUnknown, 0
				verdict(t, tc.as.Update(t.Context(), group, client.DryRunAll))
				return
			}
			verdict(t, merge(t, tc.as, tc.group, tc.patch), tc.want...)
		})
	}
	for name, tc := range map[string]struct {
		as    client.Client
		group *v1beta1.PodGroup
		want  []string
	}{
		"a tenant deletes what runs":             {p.tenant, held, []string{"has placed pods", "charged to its queue paying"}},
		"a tenant deletes what waits":            {p.tenant, waiting, nil},
		"Volcano's controllers delete it":        {p.volcano, held, nil},
		"an administrator deletes what runs":     {p.admin, held, nil},
		"a tenant deletes all, one of them runs": {p.tenant, nil, []string{"has placed pods"}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.group == nil {
				verdict(t, tc.as.DeleteAllOf(t.Context(), &v1beta1.PodGroup{}, client.InNamespace("chat"), client.DryRunAll), tc.want...)
				return
			}
			verdict(t, tc.as.Delete(t.Context(), tc.group.DeepCopy(), client.DryRunAll), tc.want...)
		})
	}
}

func annotationTests(t *testing.T, w *gate, p payers, exempt client.Client) {
	on := w.placed(t, exempt, "on", asking("volcano", gpu, 1), "h200-0")
	off := w.placed(t, exempt, "off", asking("volcano", gpu, 1), "")
	free := w.placed(t, exempt, "free", asking("volcano", gpu, 0), "h200-0")
	past := w.placed(t, exempt, "past", asking("", gpu, 0), "")
	again := podOf("chat", asking("volcano", gpu, 1)) // read out of a cluster
	again.Name, again.GenerateName, again.Annotations = "again", "", map[string]string{v1alpha1.AnnotationChargedQueue: "paying"}
	w.temporary(t, again)
	unbound := []string{"has not been placed", "may not write its annotation cardquota.dev/charged-queue", "leave the annotation out, and name the queue by scheduling.volcano.sh/queue-name"}
	set := func(key, value string) string { return fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, key, value) }
	stays := []string{"pod on of namespace chat has been placed with nvidia.com/gpu", "somebody@chat", "submit it again with the other queue"}
	for name, tc := range map[string]struct {
		as    client.Client
		pod   *corev1.Pod
		patch string
		want  []string
	}{
		"another group":                      {p.tenant, on, set(v1alpha1.AnnotationPodGroup, `"other"`), stays},
		"no group":                           {p.tenant, on, set(v1alpha1.AnnotationPodGroup, `null`), stays},
		"the other key of a group":           {p.tenant, on, set("scheduling.volcano.sh/group-name", `"other"`), stays},
		"another queue":                      {p.tenant, on, set(v1alpha1.AnnotationQueueName, `"other"`), stays},
		"a vcjob's queue":                    {p.tenant, on, set(v1alpha1.AnnotationJobQueueName, `"other"`), stays},
		"all annotations away":               {p.tenant, on, `{"metadata":{"annotations":null}}`, stays},
		"the same queue":                     {p.tenant, on, set(v1alpha1.AnnotationQueueName, `"paying"`), nil},
		"a label":                            {p.tenant, on, `{"metadata":{"labels":{"a":"b"}}}`, nil},
		"another annotation":                 {p.tenant, on, set("a", `"b"`), nil},
		"a pod that waits":                   {p.tenant, off, set(v1alpha1.AnnotationQueueName, `"other"`), nil},
		"a record before another's binding":  {p.tenant, past, set(v1alpha1.AnnotationChargedQueue, `"other"`), append(unbound, "pod past of namespace chat", "somebody@chat")},
		"a record before our binding":        {p.tenant, off, set(v1alpha1.AnnotationChargedQueue, `"other"`), unbound},
		"that, by an administrator":          {p.admin, past, set(v1alpha1.AnnotationChargedQueue, `"other"`), unbound},
		"that, by an exempt account":         {exempt, past, set(v1alpha1.AnnotationChargedQueue, `"other"`), nil},
		"a pod made again, labelled":         {p.tenant, again, `{"metadata":{"labels":{"a":"b"}}}`, nil},
		"a pod made again, its record away":  {p.tenant, again, set(v1alpha1.AnnotationChargedQueue, `null`), nil},
		"a pod made again, another record":   {p.tenant, again, set(v1alpha1.AnnotationChargedQueue, `"other"`), unbound},
		"a record of CPU and memory alone":   {p.tenant, free, set(v1alpha1.AnnotationChargedQueue, `"other"`), []string{"pod free of namespace chat has been placed with its CPU and memory"}},
		"a pod without cards":                {p.tenant, free, set(v1alpha1.AnnotationPodGroup, `"other"`), nil},
		"Volcano's controllers give a group": {p.volcano, on, set(v1alpha1.AnnotationPodGroup, `"other"`), nil},
		"an administrator":                   {p.admin, on, set(v1alpha1.AnnotationQueueName, `"other"`), nil},
		"an exempt account":                  {exempt, on, set(v1alpha1.AnnotationQueueName, `"other"`), nil},
	} {
		t.Run(name, func(t *testing.T) { verdict(t, merge(t, tc.as, tc.pod, tc.patch), tc.want...) })
	}
}

func templateTests(t *testing.T, w *gate, p payers) {
	labels := map[string]string{"app": "set"}
	none := int32(0)
	template := func(cards int64) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{v1alpha1.AnnotationQueueName: "paying"}},
			Spec:       asking("volcano", gpu, cards),
		}
	}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "chat", Name: name} }
	selector := &metav1.LabelSelector{MatchLabels: labels}
	set := &appsv1.StatefulSet{ObjectMeta: meta("set"), Spec: appsv1.StatefulSetSpec{Replicas: &none, Selector: selector, Template: template(1)}}
	replicas := &appsv1.ReplicaSet{ObjectMeta: meta("replicas"), Spec: appsv1.ReplicaSetSpec{Replicas: &none, Selector: selector, Template: template(1)}}
	free := &appsv1.StatefulSet{ObjectMeta: meta("free"), Spec: appsv1.StatefulSetSpec{Replicas: &none, Selector: selector, Template: template(0)}}
	web := deploymentOf("chat", "web", asking("volcano", gpu, 1), map[string]string{v1alpha1.AnnotationQueueName: "paying"}, nil)
	for _, object := range []client.Object{set, replicas, free, web} {
		w.temporary(t, object)
	}
	const other = `{"spec":{"template":{"metadata":{"annotations":{"scheduling.volcano.sh/queue-name":"other"}}}}}`
	const unsaid = `{"spec":{"template":{"metadata":{"annotations":null}}}}`
	const without = `{"spec":{"template":{"metadata":{"annotations":null},"spec":{"containers":[{"name":"main","image":"none","resources":null}]}}}}`
	const scaled = `{"spec":{"replicas":1,"template":{"metadata":{"annotations":{"a":"b"}}}}}`
	for name, tc := range map[string]struct {
		as     client.Client
		object client.Object
		patch  string
		want   []string
	}{
		"a StatefulSet":                     {p.tenant, set, other, []string{"StatefulSet set of namespace chat asks for nvidia.com/gpu", "somebody@chat", "delete it and submit it again"}},
		"a StatefulSet, no queue":           {p.tenant, set, unsaid, []string{"StatefulSet set"}},
		"a StatefulSet that asks no more":   {p.tenant, set, without, []string{"StatefulSet set"}},
		"a ReplicaSet":                      {p.tenant, replicas, other, []string{"ReplicaSet replicas"}},
		"a StatefulSet's scale and others":  {p.tenant, set, scaled, nil},
		"a StatefulSet without cards":       {p.tenant, free, other, nil},
		"a Deployment: a new group anyway":  {p.tenant, web, other, nil},
		"a StatefulSet by an administrator": {p.admin, set, other, nil},
	} {
		t.Run(name, func(t *testing.T) { verdict(t, merge(t, tc.as, tc.object, tc.patch), tc.want...) })
	}
}

func goodbyeTests(t *testing.T, w *gate, p payers, exempt client.Client) {
	long, day := asking("volcano", gpu, 1), int64(86400)
	long.TerminationGracePeriodSeconds = &day
	slow := asking("volcano", gpu, 0)
	slow.TerminationGracePeriodSeconds = &day
	limit := asking("volcano", gpu, 1)
	limit.TerminationGracePeriodSeconds = new(int64)
	*limit.TerminationGracePeriodSeconds = 3600
	for name, tc := range map[string]struct {
		as   client.Client
		spec corev1.PodSpec
		want []string
	}{
		"a day":               {p.tenant, long, []string{"spec.terminationGracePeriodSeconds 86400", "write 3600 or less"}},
		"an hour":             {p.tenant, limit, nil},
		"a day without cards": {p.tenant, slow, nil},
		"an exempt account":   {exempt, long, nil},
	} {
		t.Run("new: "+name, func(t *testing.T) {
			err := tc.as.Create(t.Context(), podOf("chat", tc.spec), client.DryRunAll)
			if tc.want == nil {
				gomega.NewWithT(t).Expect(err).NotTo(gomega.HaveOccurred())
			} else {
				gomega.NewWithT(t).Expect(err).To(forbidden(tc.want...))
			}
		})
	}
	on := w.placed(t, exempt, "leaving", asking("volcano", gpu, 1), "h200-0")
	free := w.placed(t, exempt, "leaving-free", asking("volcano", gpu, 0), "h200-0")
	late := []string{"grace period of 3601 seconds", "give it at most 3600 seconds"}
	remove := func(as client.Client, pod *corev1.Pod, seconds int64) error {
		return as.Delete(t.Context(), pod.DeepCopy(), client.GracePeriodSeconds(seconds), client.DryRunAll)
	}
	evict := func(as client.Client, pod *corev1.Pod, seconds *int64) error {
		return as.SubResource("eviction").Create(t.Context(), pod.DeepCopy(), &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: seconds, DryRun: []string{metav1.DryRunAll}},
		}, client.DryRunAll)
	}
	over := int64(3601)
	within := int64(60)
	t.Run("deleted in an hour", func(t *testing.T) { verdict(t, remove(p.tenant, on, 3600)) })
	// Kubernetes' way to get rid of a pod on a dead node; docs/security.md tells what it costs.
	t.Run("deleted by force", func(t *testing.T) { verdict(t, remove(p.tenant, on, 0)) })
	t.Run("deleted later", func(t *testing.T) {
		verdict(t, remove(p.tenant, on, over), append(late, "pod leaving of namespace chat asks for nvidia.com/gpu")...)
	})
	t.Run("deleted as it says itself", func(t *testing.T) {
		verdict(t, p.tenant.Delete(t.Context(), on.DeepCopy(), client.DryRunAll))
	})
	older := w.placed(t, exempt, "leaving-older", long, "h200-0")
	for who, as := range map[string]client.Client{"the tenant": p.tenant, "Volcano's controllers": p.volcano, "the scheduler": p.scheduler, "an administrator": p.admin} {
		t.Run("longer than the bound, as it says itself, by "+who, func(t *testing.T) {
			verdict(t, as.Delete(t.Context(), older.DeepCopy(), client.DryRunAll))
			verdict(t, remove(as, older, day))
			verdict(t, remove(as, older, day+1), "grace period of 86401 seconds")
		})
	}
	t.Run("without cards", func(t *testing.T) { verdict(t, remove(p.tenant, free, over)) })
	t.Run("by an exempt account", func(t *testing.T) { verdict(t, remove(exempt, on, over)) })
	t.Run("by an administrator", func(t *testing.T) { verdict(t, remove(p.admin, on, over), late...) })
	t.Run("with all others", func(t *testing.T) {
		verdict(t, p.tenant.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace("chat"), client.GracePeriodSeconds(over), client.DryRunAll), late...)
	})
	t.Run("evicted", func(t *testing.T) { verdict(t, evict(p.tenant, on, &within)) })
	t.Run("evicted as it says itself", func(t *testing.T) { verdict(t, evict(p.tenant, on, nil)) })
	t.Run("evicted late", func(t *testing.T) {
		verdict(t, evict(p.tenant, on, &over), append(late, "pod leaving of namespace chat", "evicts it")...)
	})
}

func commandTests(t *testing.T, p payers) {
	queue, job := commandTo("Queue", "scheduling.volcano.sh/v1beta1", "paying"), commandTo("Job", "batch.volcano.sh/v1alpha1", "mine")
	try := func(as client.Client, object *unstructured.Unstructured) error {
		return as.Create(context.WithoutCancel(t.Context()), object.DeepCopy(), client.DryRunAll)
	}
	t.Run("a tenant's to a queue", func(t *testing.T) {
		verdict(t, try(p.tenant, queue), "is to Queue paying", "somebody@chat may not update Queues")
	})
	t.Run("a tenant's to a job", func(t *testing.T) { verdict(t, try(p.tenant, job)) })
	t.Run("an administrator's", func(t *testing.T) { verdict(t, try(p.admin, queue)) })
}
