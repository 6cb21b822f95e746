package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	api "cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
	kit "cardquota.dev/operator/test/framework"
	"cardquota.dev/operator/test/observer"
)

// How long things may take. Tests wait up to soon for what must happen, which is long for a
// busy machine. They check for two closed sessions of the scheduler that something does not
// happen, and for steadily where no scheduler decides.
const (
	soon     = 90 * time.Second
	steadily = 2500 * time.Millisecond
	often    = 300 * time.Millisecond
)

// sceneLabel marks cluster-wide objects of a scene, which the deletion of its namespace does
// not remove.
const sceneLabel = "test.cardquota.dev/scene"

// scene is the environment of one test: a namespace of its own, with the same name prefix as
// its queues, on a cluster with both programs and an observer.
type scene struct {
	*testing.T
	Gomega
	*testCluster
	ctx       context.Context
	namespace string
	observer  *observer.Observer

	// letManagerEnd and letSchedulerEnd let the observer accept that the program ends.
	letManagerEnd, letSchedulerEnd func()
	// clusterWide are the objects that the deletion of the namespace does not remove.
	clusterWide []client.Object
}

// newScene creates a scene on the shared cluster, beside others: the test is parallel. The name is short; queues
// of the test start with it.
func newScene(t *testing.T, name string) *scene {
	t.Parallel()
	return newSceneOn(t, name, suite.testCluster)
}

func newSceneOn(t *testing.T, name string, st *testCluster) *scene {
	s := &scene{T: t, Gomega: NewWithT(check.Trail(t)), testCluster: st, ctx: t.Context(), namespace: name}
	s.SetDefaultEventuallyTimeout(soon)
	s.SetDefaultEventuallyPollingInterval(often)
	s.SetDefaultConsistentlyDuration(steadily)
	s.SetDefaultConsistentlyPollingInterval(often)
	t.Cleanup(s.cleanUp)

	s.Eventually(func() error { // on a cluster that stays up, the one of an earlier run may still be terminating
		return s.Create(s.ctx, builder.Namespace(name, sceneLabel, name))
	}).Should(Succeed())

	o := check.Value(observer.Start(context.WithoutCancel(s.ctx), st.cluster.Config(), observer.Options{
		Concerns:     s.isOwn,
		StatusWithin: 20 * time.Second, ReasonWithin: 30 * time.Second, PlacedWithin: 40 * time.Second,
		Interval: 10 * time.Second, // every look lists eight kinds, and many scenes are played at the same time
		Sessions: st.countSessions, Metrics: st.metricsPages, StoredWithin: 3 * time.Minute / time.Duration(deployment.ClockFactor()), UnlimitedCPUMemory: true,
		Mappings: st.mappings,
	}))(t)
	s.observer = o
	t.Cleanup(o.Stop)

	s.letManagerEnd = s.followProcess(s.deployment.Manager)
	s.letSchedulerEnd = s.followProcess(s.deployment.Scheduler)
	t.Cleanup(s.finish)

	return s
}

// finish ends a test: other queues can still schedule, the observer found nothing, and all
// quota is released when the workloads are gone.
func (s *scene) finish() {
	defer func() {
		if s.Failed() {
			s.dumpState()
		}
	}()

	if !s.Failed() && s.testCluster == suite.testCluster {
		s.checkOtherQueues()
	}

	s.observer.Check(s)
	if !s.Failed() {
		s.removeWorkloads()
		s.observer.Check(s)
	}
}

// checkOtherQueues runs a pod in a queue of its own, on a card that no test uses, beside
// everything that the test left: no content of any object may stop scheduling for other queues.
func (s *scene) checkOtherQueues() {
	s.ctx = context.WithoutCancel(s.ctx)
	w := podSet{name: "canary", queue: s.namespace + "-canary", card: canary, count: 1, pods: 1}
	s.createQuota(w.queue, cardList(canary, 1))
	s.createPods(w)
	s.Eventually(func() int { return s.countRunning(w.name) }).Should(Equal(1), "scheduling goes on for other queues")
}

// isOwn reports whether an object is the scene's: in its namespace, or a CardQuota or Queue
// with its prefix. The CardInventory is of all scenes.
func (s *scene) isOwn(object string) bool {
	kind, name, _ := strings.Cut(object, "/")
	if kind == "cardinventory" {
		return true
	}
	if kind == "cardquota" || kind == "queue" {
		return name == s.namespace || strings.HasPrefix(name, s.namespace+"-")
	}
	return strings.HasPrefix(name, s.namespace+"/")
}

// followProcess lets the observer follow a program, if there is one, until the returned
// function is called.
func (s *scene) followProcess(program *cluster.Process) (letEnd func()) {
	if program == nil {
		return nil
	}
	letEnd = check.Value(s.observer.Follow(program))(s)
	return letEnd
}

// removeWorkloads removes the workloads of the test and waits until their cards are free
// for the next one.
func (s *scene) removeWorkloads() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), time.Minute)
	defer cancel()

	in := client.InNamespace(s.namespace)
	for _, object := range []client.Object{&batchv1alpha1.Job{}, &batchv1.Job{}, &appsv1.Deployment{}, &appsv1.ReplicaSet{}, &corev1.Pod{}} {
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

	// The garbage collector may take seconds. Meanwhile the PodGroup of a deleted job looks like one that waits.
	if err := s.DeleteAllOf(ctx, &v1beta1.PodGroup{}, in); err != nil {
		s.Errorf("clean up: %v", err)
	}
}

// cleanUp removes everything that the test created.
func (s *scene) cleanUp() {
	s.removeWorkloads()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), time.Minute)
	defer cancel()

	if s.mayRunAgain() { // a namespace costs the control plane a hundred requests to delete
		if err := s.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}); err != nil {
			s.Errorf("clean up: %v", err)
		}
	}

	for _, object := range s.clusterWide {
		if err := client.IgnoreNotFound(s.Delete(ctx, object)); err != nil {
			s.Errorf("clean up: %v", err)
		}
	}
}

// mayRunAgain reports whether a scene of this name may run again on this cluster.
func (s *scene) mayRunAgain() bool {
	return os.Getenv(clusterVariable) != "" || flag.Lookup("test.count").Value.String() != "1"
}

// dumpState writes the logs and the objects of a failed test to dist/e2e.
func (s *scene) dumpState() {
	dir := filepath.Join(suite.root, "dist", "e2e", s.Name())
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
		"namespace.yaml":    "get pods,podgroups.scheduling.volcano.sh,jobs.batch.volcano.sh,jobs.batch,deployments -o yaml -n " + s.namespace,
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

// objectMeta returns the metadata of an object of this scene.
func (s *scene) objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.namespace, Name: name}
}

// createObjects creates objects and removes the cluster-wide ones at the end.
func (s *scene) createObjects(objects ...client.Object) {
	for _, object := range objects {
		if object.GetNamespace() == "" { // a later run removes what this one does not
			object.SetLabels(labels.Merge(object.GetLabels(), labels.Set{sceneLabel: s.namespace}))
			s.clusterWide = append(s.clusterWide, object)
		}

		s.Eventually(func() error {
			err := s.Create(s.ctx, object, client.FieldValidation(metav1.FieldValidationStrict))
			if err != nil && !cluster.IsStaleAdmissionCache(err) {
				return StopTrying("refused").Wrap(err)
			}
			return err
		}).Should(Succeed(), "%T %s", object, object.GetName())
	}
}

// createAndAwaitOpen creates a Queue or CardQuota, and waits until its queue is open.
func (s *scene) createAndAwaitOpen(object client.Object) {
	s.createObjects(object)
	kind := check.Value(s.GroupVersionKindFor(object))(s)
	switch kind.Kind {
	case "CardQuota":
		s.waitForCondition(object.GetName(), api.ConditionReady, metav1.ConditionTrue)
	case "Queue":
		s.Eventually(func() v1beta1.QueueState { return s.readQueue(object.GetName()).Status.State }).Should(Equal(v1beta1.QueueStateOpen))
	}
}

// mergePatch sends a merge patch.
func (s *scene) mergePatch(object client.Object, format string, args ...any) {
	s.Expect(kit.MergePatch(s.T, s.Framework, object, fmt.Sprintf(format, args...))).To(Succeed())
}

// setAnnotation sets an annotation.
func (s *scene) setAnnotation(object client.Object, key, value string) {
	s.mergePatch(object, `{"metadata":{"annotations":{%q:%q}}}`, key, value)
}

// listObjects and readObject retry when the API server does not answer: one failed read must
// not end a test that waits.
func (s *scene) listObjects(into client.ObjectList, where ...client.ListOption) {
	s.Eventually(func() error { return s.List(s.ctx, into, where...) }).Should(Succeed())
}

// readObject reads an object by its name and returns it.
func readObject[T client.Object](s *scene, object T) T {
	s.Eventually(func() error { return s.Get(s.ctx, keyOf(object), object) }).Should(Succeed())
	return object
}

func (s *scene) cardQuota(name string) *api.CardQuota {
	return readObject(s, &api.CardQuota{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

func (s *scene) readQueue(name string) *v1beta1.Queue {
	return readObject(s, &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

func (s *scene) readJob(name string) *batchv1alpha1.Job {
	return readObject(s, &batchv1alpha1.Job{ObjectMeta: s.objectMeta(name)})
}

// waitUntilStable waits until a state is as wanted, and checks that it stays so.
func (s *scene) waitUntilStable(state func() any, want any, about ...any) {
	s.Eventually(state).Should(Equal(want), about...)
	s.checkUnchanged(state, want, about...)
}

// checkUnchanged checks that a state is as wanted until two more sessions of the scheduler have
// closed, or for a while where no scheduler decides.
func (s *scene) checkUnchanged(state func() any, want any, about ...any) {
	const enough = 2
	first, err := s.sessionStats(s.ctx)
	if err != nil || !first.Deciding {
		s.Consistently(state).Should(Equal(want), about...)
		return
	}

	s.Eventually(func() (bool, error) {
		now, err := s.sessionStats(s.ctx) // before the look at the state, which must show what they did
		if got := state(); !reflect.DeepEqual(got, want) {
			return false, StopTrying(fmt.Sprintf("it is %v, want %v", got, want))
		}
		if err == nil && now.PID != first.PID {
			first = now // another scheduler counts from zero
		}
		// One session may have been open when counting started.
		return err == nil && now.Closed > first.Closed+enough, err
	}).Should(BeTrue(), about...)
}
