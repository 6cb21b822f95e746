package olm

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"cardquota.dev/operator/internal/testing/check"
)

// kwok simulates the pods of the previous release, without its programs. What the programs had
// written was recorded, and is written again here while their definitions are served.

// resourceOf maps the kinds in a recording to resources.
var resourceOf = map[string]string{
	"CardQuota": "cardquotas", "Queue": "queues", "Lease": "leases",
}

// writeAsPrevious writes what the programs of a version had written: specs, states, records.
func (a *administrator) writeAsPrevious(v version) {
	client := check.Value(dynamic.NewForConfig(a.cluster.Config()))(a)

	recorded := check.Value(os.ReadFile(filepath.Join(filepath.Dir(v.bundle), "written.yaml")))(a)
	for document := range strings.SplitSeq(string(recorded), "\n---\n") {
		object := &unstructured.Unstructured{}
		a.Expect(yaml.Unmarshal([]byte(document), &object.Object)).To(Succeed())
		group := object.GroupVersionKind().GroupVersion()
		resource := dynamic.ResourceInterface(client.Resource(group.WithResource(resourceOf[object.GetKind()])))
		if object.GetNamespace() != "" {
			resource = client.Resource(group.WithResource(resourceOf[object.GetKind()])).Namespace(object.GetNamespace())
		}
		a.restoreObject(resource, object)
	}
}

func (a *administrator) restoreObject(resource dynamic.ResourceInterface, object *unstructured.Unstructured) {
	const manager = "cardquota" // the operator relies on it
	if object.GetKind() == "Queue" {
		check.Value(resource.Apply(a.ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: manager}))(a)
		return
	}

	there, err := resource.Get(a.ctx, object.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		there, err = resource.Create(a.ctx, object, metav1.CreateOptions{FieldManager: manager})
	} else if err == nil {
		object.SetResourceVersion(there.GetResourceVersion())
		there, err = resource.Update(a.ctx, object, metav1.UpdateOptions{FieldManager: manager})
	}

	a.Expect(err).NotTo(HaveOccurred())
	if status := object.Object["status"]; status != nil {
		there.Object["status"] = status
		check.Value(resource.UpdateStatus(a.ctx, there, metav1.UpdateOptions{}))(a)
	}
}

// placeAsPrevious does what the scheduler of the previous release had done: it enqueues a job
// of work.yaml and places its first pods.
func (a *administrator) placeAsPrevious(job, node string, count int) {
	a.Eventually(func() (string, error) {
		return a.cluster.Kubectl(a.ctx, "-n", "tenants", "get", "podgroups", "-o", "name")
	}).Should(ContainSubstring("/" + job + "-"))

	for name := range strings.FieldsSeq(a.mustKubectl("-n", "tenants", "get", "podgroups", "-o", "name")) {
		if strings.Contains(name, "/"+job+"-") {
			a.mustKubectl("-n", "tenants", "patch", name, "--type=merge", `--patch={"status":{"phase":"Inqueue"}}`)
		}
	}

	pods := a.cluster.Client().CoreV1().Pods("tenants")
	for i := range count {
		a.Eventually(func() error {
			pod := metav1.ObjectMeta{Name: fmt.Sprintf("%s-worker-%d", job, i), Namespace: "tenants"}
			return pods.Bind(a.ctx, &corev1.Binding{ObjectMeta: pod, Target: corev1.ObjectReference{Kind: "Node", Name: node}}, metav1.CreateOptions{})
		}).Should(Succeed())
	}
	a.Eventually(a.countRunning).Should(HaveKeyWithValue(job, count))
}

// runningWorkers returns the running workers.
func (a *administrator) runningWorkers() map[string]string {
	workers := a.workloadIdentities()
	maps.DeleteFunc(workers, func(_, state string) bool { return !strings.Contains(state, " "+string(corev1.PodRunning)+",") })
	return workers
}

// userState returns the specs of the CardQuotas with their results, and Volcano's own
// configuration: an upgrade must not change their meaning.
func (a *administrator) userState() map[string]any {
	client := check.Value(dynamic.NewForConfig(a.cluster.Config()))(a)

	ours := schema.GroupVersion{Group: "cardquota.dev", Version: "v1alpha1"}
	volcanos := schema.GroupVersion{Group: "scheduling.volcano.sh", Version: "v1beta1"}
	all := map[string]any{}
	for _, resource := range []schema.GroupVersionResource{
		ours.WithResource("cardquotas"), volcanos.WithResource("queues"),
	} {
		for _, object := range check.Value(client.Resource(resource).List(a.ctx, metav1.ListOptions{}))(a).Items {
			spec := object.Object["spec"]
			if written, ok := spec.(map[string]any); ok && written["stopPolicy"] == "None" {
				delete(written, "stopPolicy") // the default of a field that the previous version does not have
			}
			all[resource.Resource+" "+object.GetName()] = spec
		}
	}

	// Any Volcano scheduler creates these two when it starts.
	delete(all, "queues root")
	delete(all, "queues default")
	all["configuration"] = a.mustKubectl("-n", namespace, "get", "configmap", "volcano-scheduler-configmap", "-o", "jsonpath={.data.volcano-scheduler\\.conf}")
	return all
}
