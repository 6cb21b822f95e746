package answers

import (
	"slices"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	api "cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/test/framework"
)

// play brings the states about.
type play struct {
	*testing.T
	*site
}

// newObject returns an object as the API server takes it: builders set a uid and a creation time.
func newObject(object client.Object) client.Object {
	object = object.DeepCopyObject().(client.Object)
	object.SetUID("")
	object.SetResourceVersion("")
	return object
}

func (p *play) create(objects ...client.Object) {
	for _, object := range objects {
		p.site.create(p.T, newObject(object))
	}
}

// remove deletes an object with its own grace period.
func (p *play) remove(object client.Object) {
	newGomega(p.T).Expect(p.Delete(p.Context(), object)).To(gomega.Succeed())
}

// awaitRunning waits until a pod runs.
func (p *play) awaitRunning(namespace, name string) {
	newGomega(p.T).Eventually(framework.Read(p.Context(), p, client.ObjectKey{Namespace: namespace, Name: name}, func(pod *corev1.Pod) corev1.PodStatus {
		return pod.Status
	})).Should(gomega.HaveField("Phase", corev1.PodRunning), "pod %s/%s", namespace, name)
}

// awaitPodGroups waits until Volcano has created the PodGroups of some pods.
func (p *play) awaitPodGroups(namespace string, count int) {
	newGomega(p.T).Eventually(func() (int, error) {
		groups := &v1beta1.PodGroupList{}
		err := p.List(p.Context(), groups, client.InNamespace(namespace))
		return len(groups.Items), err
	}).Should(gomega.Equal(count), "PodGroups of namespace %s", namespace)
}

// awaitNextSecond waits for the next whole second.
func (p *play) awaitNextSecond() {
	now := time.Now().Unix()
	newGomega(p.T).Eventually(func() int64 { return time.Now().Unix() }).Should(gomega.BeNumerically(">", now))
}

// namespacesOf returns the namespaces of some states.
func namespacesOf(all []state) []string {
	var names []string
	for _, s := range all {
		names = append(names, s.name)
		for _, pod := range s.holders {
			names = append(names, pod.Namespace)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// bringAbout creates everything that the states need, and returns when every change has happened.
func (p *play) bringAbout(all []state) {
	g := newGomega(p.T)
	for _, name := range namespacesOf(all) {
		p.create(builder.Namespace(name))
	}

	for _, s := range all {
		p.create(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: tenant}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: tenant}},
		})
		for _, quota := range s.quotas {
			p.create(quota)
		}
	}

	for _, s := range all {
		for _, quota := range s.quotas {
			g.Eventually(func() (v1beta1.QueueState, error) {
				queue := &v1beta1.Queue{}
				err := p.Get(p.Context(), client.ObjectKey{Name: quota.Name}, queue)
				return queue.Status.State, client.IgnoreNotFound(err)
			}).Should(gomega.Equal(v1beta1.QueueStateOpen), quota.Name)
		}
	}

	for _, s := range all {
		for _, pod := range s.holders {
			p.create(pod)
		}
	}

	for _, s := range all {
		for _, pod := range s.holders {
			p.awaitRunning(pod.Namespace, pod.Name)
		}
	}

	// A state that ends by itself is brought about immediately before it is asked about.
	for _, isBrief := range []bool{false, true} {
		p.letWait(slices.DeleteFunc(slices.Clone(all), func(s state) bool { return s.isBrief != isBrief }))
	}
}

// letWait creates what waits, and then changes the states.
func (p *play) letWait(all []state) {
	for _, s := range all {
		p.create(s.waiting...)
	}
	for _, s := range all {
		if s.change != nil {
			s.change(p)
		}
	}
}

// setPolicy creates or changes the policy.
func (p *play) setPolicy(change func(*api.ServiceTypePolicy)) {
	g := newGomega(p.T)
	policy := &api.ServiceTypePolicy{}
	g.Expect(client.IgnoreNotFound(p.Get(p.Context(), client.ObjectKey{Name: api.PolicyName}, policy))).To(gomega.Succeed())

	if policy.Name == "" {
		policy.Name = api.PolicyName
		change(policy)
		p.create(policy)
		return
	}

	before := policy.DeepCopy()
	change(policy)
	g.Expect(p.Patch(p.Context(), policy, client.MergeFrom(before))).To(gomega.Succeed())
}

// awaitEnforced waits until the policy is enforced as it is written.
func (p *play) awaitEnforced() {
	policy := &api.ServiceTypePolicy{}
	newGomega(p.T).Eventually(func() (bool, error) {
		err := p.Get(p.Context(), client.ObjectKey{Name: api.PolicyName}, policy)
		return policy.Status.ObservedGeneration == policy.Generation && meta.IsStatusConditionTrue(policy.Status.Conditions, api.ConditionReady) &&
			meta.IsStatusConditionTrue(policy.Status.Conditions, api.ConditionEnforced), err
	}).Should(gomega.BeTrue(), "%+v", policy.Status.Conditions)
}
