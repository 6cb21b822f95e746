package cluster_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
)

func TestVolcanoWebhooksRefuseBadObjects(t *testing.T) {
	c := whole(t)
	for name, tc := range map[string]struct{ manifest, wantError string }{
		"a queue with an unknown parent": {
			"apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: orphan}\nspec: {parent: nobody}\n",
			"nobody",
		},
		"a job of an unknown queue": {`
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: lost}
spec:
  schedulerName: volcano
  queue: no-such-queue
  minAvailable: 1
  tasks:
  - {name: worker, replicas: 1, template: {spec: {restartPolicy: Never, containers: [{name: main, image: trainer}]}}}
`, "no-such-queue"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.Apply(t.Context(), []byte(tc.manifest))
			check.Says(t, err, "denied the request")
			check.Says(t, err, tc.wantError)
		})
	}
}

func TestServiceAccountsHaveOnlyTheirOwnRights(t *testing.T) {
	g := NewWithT(t)
	c := whole(t)
	for _, account := range []string{"volcano-controllers", "volcano-admission", "volcano-scheduler"} {
		kubeconfig, err := c.KubeconfigFor(t.Context(), cluster.VolcanoNamespace, account)
		g.Expect(err).NotTo(HaveOccurred())
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		g.Expect(err).NotTo(HaveOccurred())
		client, err := kubernetes.NewForConfig(config)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = client.CoreV1().ConfigMaps(cluster.VolcanoNamespace).List(t.Context(), metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred(), account+" has the rights of its installer")
		err = client.CoreV1().Nodes().Delete(t.Context(), "h200-0", metav1.DeleteOptions{})
		g.Expect(err).To(Satisfy(apierrors.IsForbidden), account)
		g.Expect(err).To(MatchError(ContainSubstring("system:serviceaccount:volcano-system:" + account)))
	}
	_, err := c.KubeconfigFor(t.Context(), "default", "nobody")
	g.Expect(err).To(Satisfy(apierrors.IsNotFound))
}

func TestKubectlIsOfTheClustersVersion(t *testing.T) {
	g := NewWithT(t)
	c := whole(t)
	version, err := c.Kubectl(t.Context(), "version", "-o", "json")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(strings.Count(version, `"gitVersion": "v1.34.1"`)).To(Equal(2), version)
	_, err = c.Kubectl(t.Context(), "get", "pod", "no-such-pod")
	g.Expect(err).To(MatchError(ContainSubstring(`pods "no-such-pod" not found`)))
	_, err = c.Kubectl(t.Context(), "get", "priorityclass", "system-cluster-critical", "system-node-critical")
	g.Expect(err).NotTo(HaveOccurred(), "the API server has made them")
}

// podName makes a pod name of a test case's sentence.
func podName(sentence string) string { return strings.ReplaceAll(sentence, " ", "-") }
