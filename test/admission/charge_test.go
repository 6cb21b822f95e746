package admission

import (
	"fmt"
	"slices"
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/controller/admissionpolicy"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/framework"
)

// chargeClients are clients that try to change what cards are charged to.
type chargeClients struct{ tenant, volcano, scheduler, admin client.Client }

// attempt is a request of a client. It must be denied with all of the words, or allowed without
// words.
type attempt struct {
	as   client.Client
	do   func(as client.Client) error
	want []string
}

// runAttempts runs attempts; the policy denies those with words.
func runAttempts(t *testing.T, policy string, cases map[string]attempt) {
	for t, tc := range check.Cases(t, cases) {
		if len(tc.want) > 0 {
			tc.want = append(slices.Clone(tc.want), policy)
		}
		expectAnswer(t, tc.do(tc.as), tc.want...)
	}
}

// dryRunPatch, dryRunCreate, dryRunDelete and dryRunEvict run every admission check and change
// nothing.
func dryRunPatch(t *testing.T, object client.Object, patch string) func(client.Client) error {
	return func(as client.Client) error { return framework.MergePatch(t, as, object, patch, client.DryRunAll) }
}

func dryRunCreate(t *testing.T, object client.Object) func(client.Client) error {
	return func(as client.Client) error { return dryRun(t, as, object) }
}

func dryRunDelete(t *testing.T, object client.Object, options ...client.DeleteOption) func(client.Client) error {
	return func(as client.Client) error {
		return as.Delete(t.Context(), object.DeepCopyObject().(client.Object), append(options, client.DryRunAll)...)
	}
}

func dryRunEvict(t *testing.T, pod *corev1.Pod, seconds *int64) func(client.Client) error {
	return func(as client.Client) error {
		return as.SubResource("eviction").Create(t.Context(), pod.DeepCopy(), &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: seconds, DryRun: []string{metav1.DryRunAll}},
		}, client.DryRunAll)
	}
}

// newChargeClients returns the clients; the tenant has all rights on Volcano's objects in its
// namespace.
func (w *env) newChargeClients(t *testing.T) chargeClients {
	g := framework.NewGomega(t)
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "volcano"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"batch.volcano.sh", "bus.volcano.sh"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{APIGroups: []string{v1beta1.GroupName}, Resources: []string{"podgroups"}, Verbs: []string{"*"}},
	}}

	w.CreateWithCleanup(t, role)
	tenant := w.tenantClient(t, "chat")

	w.CreateWithCleanup(t, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "volcano"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "volcano"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "tenant@chat"}},
	})
	g.Eventually(func() error { return tenant.List(t.Context(), &v1beta1.PodGroupList{}, client.InNamespace("chat")) }).Should(gomega.Succeed())

	return chargeClients{tenant: tenant, volcano: w.ServiceAccountClient(t, "volcano-controllers"), scheduler: w.ServiceAccountClient(t, "cardquota-scheduler"), admin: w}
}

// createPodGroup creates a PodGroup in a state that Volcano's scheduler would have written.
func (w *env) createPodGroup(t *testing.T, namespace, name string, phase v1beta1.PodGroupPhase, running int32) *v1beta1.PodGroup {
	group := builder.PodGroup(namespace, name).Queue("paying").Obj()
	w.CreateWithCleanup(t, group)
	// Volcano's own controllers and webhooks fill in the rest; the status is written last.
	framework.NewGomega(t).Eventually(func() error {
		return framework.MergePatch(t, w, group, fmt.Sprintf(`{"status":{"phase":%q,"running":%d}}`, phase, running))
	}).Should(gomega.Succeed())
	return group
}

// createPlacedPod creates a pod on a node without a scheduler, before the admission policy
// exists or as an exempt account.
func (w *env) createPlacedPod(t *testing.T, as client.Client, name string, spec corev1.PodSpec, nodeName string) *corev1.Pod {
	spec.NodeName = nodeName
	pod := podOf("chat", spec)
	pod.Name = name
	pod.GenerateName = ""
	pod.Annotations = map[string]string{v1beta1.KubeGroupNameAnnotationKey: "mine", v1beta1.QueueNameAnnotationKey: "paying"}
	gomega.NewWithT(check.Trail(t)).Expect(as.Create(t.Context(), pod)).To(gomega.Succeed())
	t.Cleanup(func() { w.DeleteAndWait(t, pod) })
	return pod
}

// chargeTests: a placed pod is charged to its queue, and no request of a tenant may move or end that charge: not of its
// PodGroup, its annotations, its workload, its grace period, or by a command of Volcano. Refused requests name the
// charge policy. Queue paying has a PodGroup "placed" with one running pod and a PodGroup "waiting" without pods.
func chargeTests(t *testing.T, w *env, exempt client.Client) {
	p := w.newChargeClients(t)
	waitForChargePolicy(t, p.tenant)

	for _, name := range []string{"paying", "other"} {
		w.CreateWithCleanup(t, newQuota(name, nil))
		w.openQueue(t, name)
	}
	placed := w.createPodGroup(t, "chat", "placed", v1beta1.PodGroupRunning, 1)
	waiting := w.createPodGroup(t, "chat", "waiting", v1beta1.PodGroupInqueue, 0)

	t.Run("groups", func(t *testing.T) { groupTests(t, p, placed, waiting) })
	t.Run("a namespace takes its groups along", func(t *testing.T) {
		w.createNamespace(t, "leaving")
		w.createPodGroup(t, "leaving", "placed", v1beta1.PodGroupRunning, 1)
		w.DeleteAndWait(t, builder.Namespace("leaving"))
	})

	t.Run("pods", func(t *testing.T) { annotationTests(t, w, p, exempt) })
	t.Run("templates", func(t *testing.T) { templateTests(t, w, p) })
	t.Run("grace-periods", func(t *testing.T) { gracePeriodTests(t, w, p, exempt) })
	t.Run("commands", func(t *testing.T) { commandTests(t, w, p) })

	t.Run("the API server finds no fault in the rules", func(t *testing.T) {
		w.ExpectTyped(t, admissionpolicy.ChargePolicyName)
	})
}

// waitForChargePolicy waits until the API server applies the rules: it learns each policy within
// seconds.
func waitForChargePolicy(t *testing.T, tenant client.Client) {
	framework.NewGomega(t).Eventually(func() error {
		return tenant.Create(t.Context(), newCommand("Queue", "scheduling.volcano.sh/v1beta1", "default"), client.DryRunAll)
	}).Should(beDenied(admissionpolicy.ChargePolicyName))
}

// newCommand returns a Command that closes an object of Volcano.
func newCommand(kind, apiVersion, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command",
		"metadata": map[string]any{"namespace": "chat", "generateName": "close-"},
		"action":   "CloseQueue",
		"target":   map[string]any{"apiVersion": apiVersion, "kind": kind, "name": name, "uid": "x"},
	}}
}

// groupTests: Volcano charges a pod to the queue of its PodGroup. While a PodGroup has placed pods, a tenant may
// not move it, delete it, change its status or its owners. What waits may be deleted, but moved only by Volcano's
// controllers and administrators. With placed pods, administrators may move and delete it, and Volcano's controllers
// only delete it. The scheduler writes its status.
func groupTests(t *testing.T, p chargeClients, placed, waiting *v1beta1.PodGroup) {
	const (
		move  = `{"spec":{"queue":"other"}}`
		label = `{"metadata":{"labels":{"a":"b"}}}`
	)

	again := []string{"is in queue paying", "may not move it to queue other", "submit it again with the other queue"}
	ended := func(as client.Client) error { // the scheduler may update, not patch
		group := &v1beta1.PodGroup{}
		if err := p.admin.Get(t.Context(), client.ObjectKeyFromObject(placed), group); err != nil {
			return err
		}
		group.Status.Phase = v1beta1.PodGroupUnknown
		group.Status.Running = 0
		return as.Update(t.Context(), group, client.DryRunAll)
	}

	all := func(as client.Client) error {
		return as.DeleteAllOf(t.Context(), &v1beta1.PodGroup{}, client.InNamespace("chat"), client.DryRunAll)
	}

	nothingRuns := `{"status":{"phase":"Pending","running":0}}`
	noOwner := `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"x"}]}}`
	runAttempts(t, admissionpolicy.ChargePolicyName, map[string]attempt{
		"a tenant moves a group with a running pod":               {p.tenant, dryRunPatch(t, placed, move), append(again, "tenant@chat", "PodGroup placed of namespace chat")},
		"a tenant moves a group that waits":                       {p.tenant, dryRunPatch(t, waiting, move), again},
		"a tenant writes the same queue":                          {p.tenant, dryRunPatch(t, placed, `{"spec":{"queue":"paying"}}`), nil},
		"a tenant writes a label":                                 {p.tenant, dryRunPatch(t, placed, label), nil},
		"a tenant says that nothing runs":                         {p.tenant, dryRunPatch(t, placed, nothingRuns), []string{"may not change its status.phase"}},
		"a tenant writes another owner":                           {p.tenant, dryRunPatch(t, placed, noOwner), []string{"or its owners"}},
		"Volcano's controllers move a group that waits":           {p.volcano, dryRunPatch(t, waiting, move), nil},
		"Volcano's controllers move a group with a running pod":   {p.volcano, dryRunPatch(t, placed, move), again},
		"Volcano's controllers write minMember":                   {p.volcano, dryRunPatch(t, placed, `{"spec":{"minMember":2}}`), nil},
		"the scheduler writes that nothing runs":                  {p.scheduler, ended, nil},
		"an administrator moves a group with a running pod":       {p.admin, dryRunPatch(t, placed, move), nil},
		"an administrator moves a group that waits":               {p.admin, dryRunPatch(t, waiting, move), nil},
		"a tenant deletes a group with a running pod":             {p.tenant, dryRunDelete(t, placed), []string{"has placed pods", "charged to its queue paying"}},
		"a tenant deletes a group that waits":                     {p.tenant, dryRunDelete(t, waiting), nil},
		"Volcano's controllers delete a group with a running pod": {p.volcano, dryRunDelete(t, placed), nil},
		"an administrator deletes a group with a running pod":     {p.admin, dryRunDelete(t, placed), nil},
		"a tenant deletes all, one of them runs":                  {p.tenant, all, []string{"has placed pods"}},
	})
}

// annotationTests: annotations of a pod say which PodGroup and queue it belongs to. Of a placed pod with cards
// ("on") a tenant may not change them, but Volcano's controllers, administrators and exempt accounts may. Of one
// without cards ("free") a tenant may. A pod that waits ("off") may change its queue. Our scheduler writes the record of
// the charged queue at the binding. Before that only an exempt account may write it. A tenant may not write it later
// either, also not without cards. A copy may lose its record. Pod "past" waits for another scheduler, and "again" was
// created from a copy with a record.
func annotationTests(t *testing.T, w *env, p chargeClients, exempt client.Client) {
	on := w.createPlacedPod(t, exempt, "on", podSpecWith("volcano", gpu, 1), "h200-0")
	off := w.createPlacedPod(t, exempt, "off", podSpecWith("volcano", gpu, 1), "")
	free := w.createPlacedPod(t, exempt, "free", podSpecWith("volcano", gpu, 0), "h200-0")
	past := w.createPlacedPod(t, exempt, "past", podSpecWith("", gpu, 0), "")
	again := podOf("chat", podSpecWith("volcano", gpu, 1)) // read out of a cluster
	again.Name = "again"
	again.GenerateName = ""
	again.Annotations = map[string]string{v1alpha1.AnnotationChargedQueue: "paying"}
	w.CreateWithCleanup(t, again)

	unbound := []string{"has not been placed", "may not write its annotation cardquota.dev/charged-queue", "leave the annotation out, and name the queue by scheduling.volcano.sh/queue-name"}
	set := func(key, value string) string { return fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, key, value) }
	stays := []string{"pod on of namespace chat has been placed with nvidia.com/gpu", "tenant@chat", "submit it again with the other queue"}
	runAttempts(t, admissionpolicy.ChargePolicyName, map[string]attempt{
		"another group":                       {p.tenant, dryRunPatch(t, on, set(v1beta1.KubeGroupNameAnnotationKey, `"other"`)), stays},
		"no group":                            {p.tenant, dryRunPatch(t, on, set(v1beta1.KubeGroupNameAnnotationKey, `null`)), stays},
		"the other key of a group":            {p.tenant, dryRunPatch(t, on, set("scheduling.volcano.sh/group-name", `"other"`)), stays},
		"another queue":                       {p.tenant, dryRunPatch(t, on, set(v1beta1.QueueNameAnnotationKey, `"other"`)), stays},
		"another queue by the key of a vcjob": {p.tenant, dryRunPatch(t, on, set(batchv1alpha1.QueueNameKey, `"other"`)), stays},
		"no annotations":                      {p.tenant, dryRunPatch(t, on, `{"metadata":{"annotations":null}}`), stays},
		"the same queue":                      {p.tenant, dryRunPatch(t, on, set(v1beta1.QueueNameAnnotationKey, `"paying"`)), nil},
		"a label":                             {p.tenant, dryRunPatch(t, on, `{"metadata":{"labels":{"a":"b"}}}`), nil},
		"another annotation":                  {p.tenant, dryRunPatch(t, on, set("a", `"b"`)), nil},
		"a pod that waits":                    {p.tenant, dryRunPatch(t, off, set(v1beta1.QueueNameAnnotationKey, `"other"`)), nil},
		"a record before another's binding":   {p.tenant, dryRunPatch(t, past, set(v1alpha1.AnnotationChargedQueue, `"other"`)), append(unbound, "pod past of namespace chat", "tenant@chat")},
		"a record before our binding":         {p.tenant, dryRunPatch(t, off, set(v1alpha1.AnnotationChargedQueue, `"other"`)), unbound},
		"a record before another's binding, by an administrator":  {p.admin, dryRunPatch(t, past, set(v1alpha1.AnnotationChargedQueue, `"other"`)), unbound},
		"a record before another's binding, by an exempt account": {exempt, dryRunPatch(t, past, set(v1alpha1.AnnotationChargedQueue, `"other"`)), nil},
		"a pod created from a copy gets a label":                  {p.tenant, dryRunPatch(t, again, `{"metadata":{"labels":{"a":"b"}}}`), nil},
		"a pod created from a copy loses its record":              {p.tenant, dryRunPatch(t, again, set(v1alpha1.AnnotationChargedQueue, `null`)), nil},
		"a pod created from a copy gets another record":           {p.tenant, dryRunPatch(t, again, set(v1alpha1.AnnotationChargedQueue, `"other"`)), unbound},
		"a record of CPU and memory alone":                        {p.tenant, dryRunPatch(t, free, set(v1alpha1.AnnotationChargedQueue, `"other"`)), []string{"pod free of namespace chat has been placed with its CPU and memory"}},
		"a pod without cards":                                     {p.tenant, dryRunPatch(t, free, set(v1beta1.KubeGroupNameAnnotationKey, `"other"`)), nil},
		"another group, by Volcano's controllers":                 {p.volcano, dryRunPatch(t, on, set(v1beta1.KubeGroupNameAnnotationKey, `"other"`)), nil},
		"another queue, by an administrator":                      {p.admin, dryRunPatch(t, on, set(v1beta1.QueueNameAnnotationKey, `"other"`)), nil},
		"another queue, by an exempt account":                     {exempt, dryRunPatch(t, on, set(v1beta1.QueueNameAnnotationKey, `"other"`)), nil},
		"another card name":                                       {p.tenant, dryRunPatch(t, on, set(v1alpha1.AnnotationCardName, `"NVIDIA-GeForce-RTX-4090"`)), nil},
	})
}

// templateTests: a StatefulSet or ReplicaSet with cards recreates its pods by its template. A tenant may not change
// the queue there, also not together with the cards, because its placed pods would be charged to another one. It may
// where the template had no cards before, and in a Deployment, which creates a new PodGroup for each template. An
// administrator may.
func templateTests(t *testing.T, w *env, p chargeClients) {
	paying := map[string]string{v1beta1.QueueNameAnnotationKey: "paying"}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "chat", Name: name} }
	stateful := func(name string, cards int64) *appsv1.StatefulSet {
		spec := appsv1.StatefulSetSpec{Replicas: new(int32), Selector: selector, Template: podTemplate(podSpecWith("volcano", gpu, cards), paying)}
		return &appsv1.StatefulSet{ObjectMeta: meta(name), Spec: spec}
	}

	set := stateful("set", 1)
	free := stateful("free", 0)
	replicas := &appsv1.ReplicaSet{ObjectMeta: meta("replicas"), Spec: appsv1.ReplicaSetSpec{
		Replicas: new(int32), Selector: selector, Template: podTemplate(podSpecWith("volcano", gpu, 1), paying)}}

	web := deploymentOf("web", podSpecWith("volcano", gpu, 1), paying)
	for _, object := range []client.Object{set, replicas, free, web} {
		w.CreateWithCleanup(t, object)
	}

	const other = `{"spec":{"template":{"metadata":{"annotations":{"scheduling.volcano.sh/queue-name":"other"}}}}}`
	const unsaid = `{"spec":{"template":{"metadata":{"annotations":null}}}}`
	const without = `{"spec":{"template":{"metadata":{"annotations":null},"spec":{"containers":[{"name":"main","image":"none","resources":null}]}}}}`
	const scaled = `{"spec":{"replicas":1,"template":{"metadata":{"annotations":{"a":"b"}}}}}`
	runAttempts(t, admissionpolicy.ChargePolicyName, map[string]attempt{
		"a StatefulSet with another queue":                      {p.tenant, dryRunPatch(t, set, other), []string{"StatefulSet set of namespace chat requests nvidia.com/gpu", "tenant@chat", "delete it and submit it again"}},
		"a StatefulSet without a queue":                         {p.tenant, dryRunPatch(t, set, unsaid), []string{"StatefulSet set"}},
		"a StatefulSet without queue and cards":                 {p.tenant, dryRunPatch(t, set, without), []string{"StatefulSet set"}},
		"a ReplicaSet with another queue":                       {p.tenant, dryRunPatch(t, replicas, other), []string{"ReplicaSet replicas"}},
		"a StatefulSet with another scale and annotation":       {p.tenant, dryRunPatch(t, set, scaled), nil},
		"a StatefulSet without cards, with another queue":       {p.tenant, dryRunPatch(t, free, other), nil},
		"a Deployment with another queue":                       {p.tenant, dryRunPatch(t, web, other), nil},
		"a StatefulSet with another queue, by an administrator": {p.admin, dryRunPatch(t, set, other), nil},
	})
}

// gracePeriodTests: a terminating pod uses cards that no queue is charged for. So with cards the grace period of a
// new pod is an hour at most. A deletion or an eviction may not prolong it beyond an hour, or beyond the period
// that the pod states itself, if that is longer. An exempt account may do both, an administrator neither. Pod
// "leaving-older" has a day, as if it was created before the policy existed.
func gracePeriodTests(t *testing.T, w *env, p chargeClients, exempt client.Client) {
	const over = 3601
	day := int64(86400)

	late := []string{"grace period of 3601 seconds", "give it at most 3600 seconds"}
	ending := func(cards, seconds int64) corev1.PodSpec {
		spec := podSpecWith("volcano", gpu, cards)
		spec.TerminationGracePeriodSeconds = &seconds
		return spec
	}

	runAttempts(t, admissionpolicy.BypassPolicyName, map[string]attempt{
		"a new pod with a day": {p.tenant, dryRunCreate(t, podOf("chat", ending(1, day))),
			[]string{"spec.terminationGracePeriodSeconds 86400", "write 3600 or less"}},
		"a new pod with an hour":                     {p.tenant, dryRunCreate(t, podOf("chat", ending(1, 3600))), nil},
		"a new pod with a day, without cards":        {p.tenant, dryRunCreate(t, podOf("chat", ending(0, day))), nil},
		"a new pod with a day, by an exempt account": {exempt, dryRunCreate(t, podOf("chat", ending(1, day))), nil},
	})

	on := w.createPlacedPod(t, exempt, "leaving", podSpecWith("volcano", gpu, 1), "h200-0")
	free := w.createPlacedPod(t, exempt, "leaving-free", podSpecWith("volcano", gpu, 0), "h200-0")
	older := w.createPlacedPod(t, exempt, "leaving-older", ending(1, day), "h200-0")

	all := func(as client.Client) error {
		return as.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace("chat"), client.GracePeriodSeconds(over), client.DryRunAll)
	}
	seconds := func(n int64) client.DeleteOption { return client.GracePeriodSeconds(n) }

	tooLong := []string{"grace period of 86401 seconds"}
	cases := map[string]attempt{
		"deleted with an hour": {p.tenant, dryRunDelete(t, on, seconds(3600)), nil},
		// This is Kubernetes' way to remove a pod from a dead node; see docs/security.md for
		// its cost.
		"deleted by force":                               {p.tenant, dryRunDelete(t, on, seconds(0)), nil},
		"deleted with 3601 seconds":                      {p.tenant, dryRunDelete(t, on, seconds(over)), append(late, "pod leaving of namespace chat requests nvidia.com/gpu")},
		"deleted with its own period":                    {p.tenant, dryRunDelete(t, on), nil},
		"without cards, deleted with 3601 seconds":       {p.tenant, dryRunDelete(t, free, seconds(over)), nil},
		"deleted with 3601 seconds by an exempt account": {exempt, dryRunDelete(t, on, seconds(over)), nil},
		"deleted with 3601 seconds by an administrator":  {p.admin, dryRunDelete(t, on, seconds(over)), late},
		"all pods deleted with 3601 seconds":             {p.tenant, all, late},
		"evicted with a minute":                          {p.tenant, dryRunEvict(t, on, ptr.To(int64(60))), nil},
		"evicted with its own period":                    {p.tenant, dryRunEvict(t, on, nil), nil},
		"evicted with 3601 seconds":                      {p.tenant, dryRunEvict(t, on, ptr.To(int64(over))), append(late, "pod leaving of namespace chat", "evicts it")},
	}

	for who, as := range map[string]client.Client{"the tenant": p.tenant, "Volcano's controllers": p.volcano, "the scheduler": p.scheduler, "an administrator": p.admin} {
		cases["an older pod with a day, deleted with its own period, by "+who] = attempt{as, dryRunDelete(t, older), nil}
		cases["an older pod with a day, deleted with a day, by "+who] = attempt{as, dryRunDelete(t, older, seconds(day)), nil}
		cases["an older pod with a day, deleted with a second more, by "+who] = attempt{as, dryRunDelete(t, older, seconds(day+1)), tooLong}
	}
	runAttempts(t, admissionpolicy.ChargePolicyName, cases)
}

// commandTests: Volcano's Command objects make its controllers close a queue or abort a job. A tenant may
// send one to its own job, but none to a queue, for which it has no rights, and may not redirect a stored one.
func commandTests(t *testing.T, w *env, p chargeClients) {
	queue := newCommand("Queue", "scheduling.volcano.sh/v1beta1", "paying")
	job := newCommand("Job", "batch.volcano.sh/v1alpha1", "mine")
	stored := newCommand("Job", "scheduling.volcano.sh/v1beta1", "mine") // no controller reads it
	w.CreateWithCleanup(t, stored)
	runAttempts(t, admissionpolicy.ChargePolicyName, map[string]attempt{
		"a tenant's command to a queue":           {p.tenant, dryRunCreate(t, queue), []string{"is to Queue paying", "tenant@chat may not update Queues"}},
		"a tenant's command to a job":             {p.tenant, dryRunCreate(t, job), nil},
		"a tenant redirects a command to a queue": {p.tenant, dryRunPatch(t, stored, `{"target":{"kind":"Queue"}}`), []string{"is to Queue mine"}},
		"an administrator's command to a queue":   {p.admin, dryRunCreate(t, queue), nil},
	})
}
