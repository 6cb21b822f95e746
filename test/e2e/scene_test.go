package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
	"cardquota.dev/operator/test/observer"
)

// How long things may take. Tests wait for what must come with soon, which is long
// for a machine that has other things to do, and look for steadily whether what
// must not come stays away: several sessions of the scheduler.
const (
	soon     = 60 * time.Second
	steadily = 2500 * time.Millisecond
	often    = 100 * time.Millisecond
)

// scene is one test's stage: a namespace of its own, named like its queues, on
// a cluster with both programs, under the eyes of an observer.
type scene struct {
	*testing.T
	Gomega
	client.Client
	ctx        context.Context
	namespace  string
	cluster    *cluster.Cluster
	deployment *deployment.Deployment
	observer   *observer.Observer

	letManagerEnd, letSchedulerEnd func()
	// clusterWide is what the namespace's deletion does not take along.
	clusterWide []client.Object
}

// newScene sets the stage on the shared cluster. The name is short; queues of
// the test begin with it.
func newScene(t *testing.T, name string) *scene {
	return newSceneOn(t, name, suite.cluster, suite.client, suite.deployment)
}

func newSceneOn(t *testing.T, name string, c *cluster.Cluster, k8s client.Client, d *deployment.Deployment) *scene {
	t.Helper()
	s := &scene{T: t, Gomega: NewWithT(t), Client: k8s, ctx: t.Context(), namespace: name, cluster: c, deployment: d}
	s.SetDefaultEventuallyTimeout(soon)
	s.SetDefaultEventuallyPollingInterval(often)
	s.SetDefaultConsistentlyDuration(steadily)
	s.SetDefaultConsistentlyPollingInterval(often)
	t.Cleanup(s.strike)
	s.Expect(s.Create(s.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	o, err := observer.Start(context.WithoutCancel(s.ctx), c.Config(), observer.Options{
		Concerns:     s.concerns,
		StatusWithin: 20 * time.Second, ReasonWithin: 30 * time.Second, PlacedWithin: 40 * time.Second,
	})
	s.Expect(err).NotTo(HaveOccurred())
	s.observer = o
	t.Cleanup(o.Stop)
	s.followManager()
	s.followScheduler()
	t.Cleanup(s.check)
	return s
}

// check ends a test: scheduling still goes on for others, the observer found
// nothing, and everything is given back when the workloads are gone.
func (s *scene) check() {
	defer func() {
		if s.Failed() {
			s.dump()
		}
	}()
	if !s.Failed() && s.cluster == suite.cluster {
		s.others()
	}
	s.observer.Check(s)
	if !s.Failed() {
		s.clear()
		s.observer.Check(s)
	}
}

// others has a pod run in a queue of its own, on a card that no test uses,
// beside whatever the test left behind: no content of any object may stop
// scheduling for other queues.
func (s *scene) others() {
	s.ctx = context.WithoutCancel(s.ctx)
	w := work{name: "canary", queue: s.namespace + "-canary", card: canary, count: 1, pods: 1}
	s.quota(w.queue, cards(canary, 1))
	s.run(w)
	s.Eventually(func() int { return s.running(w.name) }).Should(Equal(1), "scheduling goes on for other queues")
}

// concerns tells the scene's own objects: in its namespace, or CardQuotas and
// Queues named after it.
func (s *scene) concerns(object string) bool {
	kind, name, _ := strings.Cut(object, "/")
	if kind == "cardquota" || kind == "queue" {
		return name == s.namespace || strings.HasPrefix(name, s.namespace+"-")
	}
	return strings.HasPrefix(name, s.namespace+"/")
}

func (s *scene) followManager() {
	s.Helper()
	if s.deployment.Manager == nil {
		return
	}
	var err error
	s.letManagerEnd, err = s.observer.Follow(s.deployment.Manager)
	s.Expect(err).NotTo(HaveOccurred())
}

func (s *scene) followScheduler() {
	s.Helper()
	if s.deployment.Scheduler == nil {
		return
	}
	var err error
	s.letSchedulerEnd, err = s.observer.Follow(s.deployment.Scheduler)
	s.Expect(err).NotTo(HaveOccurred())
}

// clear removes the workloads of the test and waits until their cards are free
// for the next one.
func (s *scene) clear() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), time.Minute)
	defer cancel()
	in := client.InNamespace(s.namespace)
	for _, object := range []client.Object{&batchv1alpha1.Job{}, &appsv1.Deployment{}, &appsv1.ReplicaSet{}, &corev1.Pod{}} {
		if err := s.DeleteAllOf(ctx, object, in, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			s.Errorf("clean up: %v", err)
		}
	}
	s.Eventually(func() error {
		pods := &corev1.PodList{}
		if err := s.List(ctx, pods, in); err != nil || len(pods.Items) == 0 {
			return err
		}
		_ = s.DeleteAllOf(ctx, &corev1.Pod{}, in) // some were created meanwhile
		return fmt.Errorf("%d pods are left, such as %s", len(pods.Items), pods.Items[0].Name)
	}).Should(Succeed())
}

// strike takes everything down that the test made.
func (s *scene) strike() {
	s.clear()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), time.Minute)
	defer cancel()
	if err := s.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}); err != nil {
		s.Errorf("clean up: %v", err)
	}
	for _, object := range s.clusterWide {
		if err := client.IgnoreNotFound(s.Delete(ctx, object)); err != nil {
			s.Errorf("clean up: %v", err)
		}
	}
}

// dump leaves the logs and the objects of a failed test under dist/e2e.
func (s *scene) dump() {
	dir := dumpDir(s.T)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		s.Logf("dump: %v", err)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), 30*time.Second)
	defer cancel()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			s.Logf("dump: %v", err)
		}
	}
	for name, args := range map[string]string{
		"cluster-wide.yaml": "get nodes,queues.scheduling.volcano.sh,cardquotas -o yaml",
		"namespace.yaml":    "get pods,podgroups.scheduling.volcano.sh,jobs.batch.volcano.sh,deployments -o yaml -n " + s.namespace,
		"events.txt":        "get events -o wide --sort-by=.lastTimestamp -n " + s.namespace,
		"overview.txt":      "get cardquotas,queues.scheduling.volcano.sh,podgroups.scheduling.volcano.sh,pods -o wide -n " + s.namespace,
	} {
		out, err := s.cluster.Kubectl(ctx, strings.Fields(args)...)
		if err != nil {
			out += "\n" + err.Error()
		}
		write(name, out)
	}
	for _, component := range []string{"manager", "cardquota-scheduler", "volcano-controllers", "volcano-admission", "kube-controller-manager", "kube-apiserver"} {
		text, err := os.ReadFile(s.cluster.LogFile(component))
		if err != nil {
			continue
		}
		const most = 512 << 10
		write(component+".log", string(text[max(0, len(text)-most):]))
	}
	s.Logf("the cluster as it was: %s", dir)
}

// object builds the metadata of an object of this scene.
func (s *scene) object(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.namespace, Name: name}
}

// create creates objects and has the cluster-wide ones removed at the end.
func (s *scene) create(objects ...client.Object) {
	s.Helper()
	for _, object := range objects {
		s.Eventually(func() error {
			err := s.Create(s.ctx, object)
			if err != nil && !cluster.Unseen(err) {
				return StopTrying("refused").Wrap(err)
			}
			return err
		}).Should(Succeed())
		if object.GetNamespace() == "" {
			s.clusterWide = append(s.clusterWide, object)
		}
	}
}
