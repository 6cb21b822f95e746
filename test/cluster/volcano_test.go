package cluster_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"cardquota.dev/operator/test/cluster"
)

const schedulerConf = `actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: proportion
  - name: nodeorder
`

// stockScheduler runs Volcano's own scheduler under its own rights.
func stockScheduler(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	g := NewWithT(t)
	conf := filepath.Join(t.TempDir(), "volcano-scheduler.conf")
	g.Expect(os.WriteFile(conf, []byte(schedulerConf), 0o600)).To(Succeed())
	kubeconfig, err := c.KubeconfigFor(t.Context(), cluster.VolcanoNamespace, "volcano-scheduler")
	g.Expect(err).NotTo(HaveOccurred())
	p, err := c.StartProcess(t.Context(), cluster.ProcessSpec{
		Name: "stock-scheduler",
		Path: filepath.Join(c.BinDir(), "scheduler"),
		Args: []string{
			"--kubeconfig=" + kubeconfig, "--scheduler-conf=" + conf, "--leader-elect=false",
			"--schedule-period=200ms", "--logtostderr", "-v=2", "--cache-dumper=false", "--listen-address=127.0.0.1:0",
		},
		Env: []string{"DEBUG_SOCKET_DIR=" + t.TempDir()},
	})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
}

func gang(name, queue string, replicas int) []byte {
	return fmt.Appendf(nil, `
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: %[1]s
  namespace: default
spec:
  schedulerName: volcano
  queue: %[2]s
  minAvailable: %[3]d
  policies:
  - {event: TaskCompleted, action: CompleteJob}
  tasks:
  - name: worker
    replicas: %[3]d
    template:
      metadata:
        annotations: {test.cardquota.dev/run-for: 6s}
      spec:
        restartPolicy: Never
        containers:
        - name: main
          image: trainer
          resources:
            requests: {cpu: "1", memory: 1Gi}
            limits: {nvidia.com/gpu: "8"}
`, name, queue, replicas)
}

func TestStockSchedulerRunsAGangToItsEnd(t *testing.T) {
	g := NewWithT(t)
	c := whole(t)
	stockScheduler(t, c)
	states := jobStates(t, c, "gang")
	// The job's queue must exist first: the scheduler creates "default" through the webhooks.
	g.Eventually(func() error { return c.Apply(t.Context(), gang("gang", "default", 3)) }, "30s", "200ms").Should(Succeed())

	g.Eventually(states, "60s").Should(Receive(Equal("Running 3")))
	pods, err := c.Client().CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "volcano.sh/job-name=gang"})
	g.Expect(err).NotTo(HaveOccurred())
	nodes := map[string]bool{}
	for _, pod := range pods.Items {
		nodes[pod.Spec.NodeName] = true
	}
	g.Expect(nodes).To(HaveLen(3), "eight cards per pod and per node: %v", nodes)
	g.Eventually(states, "60s").Should(Receive(HavePrefix("Completed ")))
	_, err = c.Kubectl(t.Context(), "delete", "jobs.batch.volcano.sh", "gang", "--timeout=30s")
	g.Expect(err).NotTo(HaveOccurred())
}

// jobStates brings every state of a vcjob, however soon the next one follows: its phase and
// how many of its pods run.
func jobStates(t *testing.T, c *cluster.Cluster, name string) <-chan string {
	t.Helper()
	g := NewWithT(t)
	client, err := dynamic.NewForConfig(c.Config())
	g.Expect(err).NotTo(HaveOccurred())
	jobs := client.Resource(schema.GroupVersionResource{Group: "batch.volcano.sh", Version: "v1alpha1", Resource: "jobs"})
	watcher, err := jobs.Namespace("default").Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(watcher.Stop)
	states := make(chan string, 1000)
	go func() {
		for event := range watcher.ResultChan() {
			if job, ok := event.Object.(*unstructured.Unstructured); ok {
				phase, _, _ := unstructured.NestedString(job.Object, "status", "state", "phase")
				running, _, _ := unstructured.NestedInt64(job.Object, "status", "running")
				states <- fmt.Sprint(phase, " ", running)
			}
		}
	}()
	return states
}

func TestVolcanoWebhooksRefuseBadObjects(t *testing.T) {
	c := whole(t)
	cases := map[string]struct{ manifest, wantError string }{
		"a queue with an unknown parent": {
			"apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: orphan}\nspec: {parent: nobody}\n",
			"nobody",
		},
		"a job of an unknown queue": {string(gang("lost", "no-such-queue", 1)), "no-such-queue"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := c.Apply(t.Context(), []byte(tc.manifest))
			if err == nil || !strings.Contains(err.Error(), "denied the request") || !strings.Contains(err.Error(), tc.wantError) {
				t.Errorf("got %v, want a refusal that names %q", err, tc.wantError)
			}
		})
	}
}

func TestVolcanoComponentsHaveOnlyTheirOwnRights(t *testing.T) {
	g := NewWithT(t)
	c := whole(t)
	for _, account := range []string{"volcano-controllers", "volcano-admission", "volcano-scheduler"} {
		kubeconfig, err := c.KubeconfigFor(t.Context(), cluster.VolcanoNamespace, account)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(clientFor(g, kubeconfig).CoreV1().Nodes().Delete(t.Context(), "h200-0", metav1.DeleteOptions{})).
			To(Satisfy(apierrors.IsForbidden), account)
	}
}

func TestServiceAccountKubeconfigIsNotAdministrator(t *testing.T) {
	g := NewWithT(t)
	c := whole(t)
	g.Expect(c.Apply(t.Context(), []byte(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: default}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects:
- {kind: ServiceAccount, name: reader, namespace: default}
`))).To(Succeed())
	kubeconfig, err := c.KubeconfigFor(t.Context(), "default", "reader")
	g.Expect(err).NotTo(HaveOccurred())
	client := clientFor(g, kubeconfig)

	g.Eventually(func() error {
		_, err := client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		return err
	}, "20s").Should(Succeed(), "rights by RBAC")
	_, err = client.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
	g.Expect(err).To(Satisfy(apierrors.IsForbidden))
	g.Expect(err).To(MatchError(ContainSubstring("system:serviceaccount:default:reader")))

	_, err = c.KubeconfigFor(t.Context(), "default", "nobody")
	g.Expect(err).To(Satisfy(apierrors.IsNotFound))
}

func clientFor(g Gomega, kubeconfig string) kubernetes.Interface {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	g.Expect(err).NotTo(HaveOccurred())
	client, err := kubernetes.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	return client
}

func TestKubectlIsOfTheClustersVersion(t *testing.T) {
	g := NewWithT(t)
	c := whole(t)
	version, err := c.Kubectl(t.Context(), "version", "-o", "json")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(strings.Count(version, `"gitVersion": "v1.34.1"`)).To(Equal(2), version)
	_, err = c.Kubectl(t.Context(), "get", "pod", "no-such-pod")
	g.Expect(err).To(MatchError(ContainSubstring(`pods "no-such-pod" not found`)))
}

func TestSystemPriorityClassesExist(t *testing.T) {
	g := NewWithT(t)
	for _, name := range []string{"system-cluster-critical", "system-node-critical"} {
		_, err := whole(t).Client().SchedulingV1().PriorityClasses().Get(t.Context(), name, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
}

// podName makes a pod name of a test case's sentence.
func podName(sentence string) string { return strings.ReplaceAll(sentence, " ", "-") }
