package e2e

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
	"cardquota.dev/operator/test/observer"
)

const configurationKey = "volcano-scheduler.conf"

// configurationMeta is the ConfigMap that our scheduler reads, baseMeta Volcano's.
var (
	configurationMeta = metav1.ObjectMeta{Namespace: deployment.Namespace, Name: "cardquota-scheduler-configmap"}
	baseMeta          = metav1.ObjectMeta{Namespace: deployment.Namespace, Name: "volcano-scheduler-configmap"}
)

// configMap returns the scheduler's current ConfigMap.
func (s *scene) configMap() *corev1.ConfigMap {
	return readObject(s, &corev1.ConfigMap{ObjectMeta: configurationMeta})
}

// configText returns the current text of the configuration.
func (s *scene) configText() string {
	return s.configMap().Data[configurationKey]
}

// writeConfig replaces the configuration's text, or creates the ConfigMap.
func (s *scene) writeConfig(text string) {
	object := &corev1.ConfigMap{ObjectMeta: configurationMeta, Data: map[string]string{configurationKey: text}}
	err := s.Update(s.ctx, object)
	if err != nil {
		err = s.Create(s.ctx, object)
	}
	s.Expect(err).NotTo(HaveOccurred())
}

// restoreConfig restores the configuration at the end of the test, before the observer's last
// check.
func (s *scene) restoreConfig() {
	good := s.configText()
	s.Cleanup(func() {
		s.ctx = context.WithoutCancel(s.ctx)
		s.writeConfig(good)
	})
}

// useConfig gives the scheduler another configuration until the end of the scene.
func (s *scene) useConfig(text string) {
	s.restoreConfig()
	s.writeConfig(text)
	s.wantInForce(text)
}

// leaseHolder returns the holder of the scheduler's lease, or "".
func (s *scene) leaseHolder() string {
	lease := &coordinationv1.Lease{}
	if err := s.Get(s.ctx, types.NamespacedName{Namespace: deployment.Namespace, Name: "volcano"}, lease); err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// configEvents returns the events of the configuration with a reason.
func (s *scene) configEvents(reason string) []string {
	return s.eventMessages("", "ConfigMap", configurationMeta.Name, reason)
}

// wantInForce waits until the scheduler has closed a session with a configuration and reported
// that it loaded it.
func (s *scene) wantInForce(text string) {
	s.Eventually(func() string { return s.waitForHeartbeat().ConfigHash }).Should(Equal(schedulerconfig.Hash(text)))
	s.Eventually(func() []string { return s.configEvents("ConfigurationLoaded") }).Should(ContainElement(ContainSubstring(schedulerconfig.Hash(text))))
}

// aBrokenConfigurationChangesNothingButAReport: an administrator writes configurations that the scheduler cannot
// use, one after the other, or deletes the ConfigMap. Each time the scheduler goes on with the last good one: of 3
// pods in a queue with a quota of 2, 2 run. Events and the heartbeat name the problem. Then it loads a good one.
func aBrokenConfigurationChangesNothingButAReport(t *testing.T, st *testCluster) {
	s := newSceneOn(t, "broken", st)
	s.createQuota("broken", cardList(h200, 2))
	s.restoreConfig()
	good := s.configText()
	for _, test := range []struct{ name, text, report string }{
		{"no-yaml", "actions: [\n", "yaml"},
		{"no-card", strings.Replace(good, "name: capacity-card", "name: capacity", 1), "capacity-card"},
		{"no-action", strings.Replace(good, "allocate", "alocate", 1), "alocate"},
		{"no-argument", strings.Replace(good, "cardUnlimitedCpuMemory: true", "cardUnlimitedCpuMemory: perhaps", 1), "perhaps"},
		{"nothing", "", "the text is empty"},
	} {
		// The events must be of this text, not of an earlier one.
		s.Expect(s.DeleteAllOf(s.ctx, &corev1.Event{}, client.InNamespace(deployment.Namespace))).To(Succeed())
		s.writeConfig(test.text)
		s.Eventually(func() []string { return s.configEvents("ConfigurationRejected") }).Should(ContainElement(ContainSubstring(test.report)), test.name)
		s.createPods(podSet{name: test.name, queue: "broken", card: h200, count: 1, pods: 3})
		s.wantRunningAndWaiting(test.name, 2, 1)
		s.Eventually(s.waitForHeartbeat).Should(HaveField("ConfigProblem", ContainSubstring(test.report)), test.name)
		s.Expect(s.waitForHeartbeat().ConfigHash).To(Equal(schedulerconfig.Hash(good)), "the last good one is in force")
		s.Expect(s.DeleteAllOf(s.ctx, &corev1.Pod{}, client.InNamespace(s.namespace), client.MatchingLabels{app: test.name})).To(Succeed())
	}

	s.Expect(s.Delete(s.ctx, s.configMap())).To(Succeed())
	s.Eventually(func() []string { return s.configEvents("ConfigurationMissing") }).ShouldNot(BeEmpty())
	s.createPods(podSet{name: "gone", queue: "broken", card: h200, count: 1, pods: 3})
	s.wantRunningAndWaiting("gone", 2, 1)

	// The scheduler takes a good text again: this one lets jobs start without the enqueue
	// action.
	other := strings.Replace(good, "enqueue, allocate, backfill", "enqueue, allocate", 1)
	s.writeConfig(other)
	s.wantInForce(other)
	s.Expect(s.waitForHeartbeat().ConfigProblem).To(BeEmpty())
	s.wantRunningAndWaiting("gone", 2, 1)
}

// aSchedulerThatStartsOnABrokenConfigurationWaits: a scheduler that starts on a broken configuration knows none
// that enforces quotas. It is ready, but does not take the leader Lease, so no pod starts although the quota rises
// from 2 to 3. When the configuration is good, the third pod runs.
func aSchedulerThatStartsOnABrokenConfigurationWaits(t *testing.T, st *testCluster) {
	s := newSceneOn(t, "unconfigured", st)
	s.createQuota("unconfigured", cardList(h200, 2))
	s.createObjects(s.deploymentOf(podSet{name: "web", queue: "unconfigured", card: h200, count: 1, pods: 4}))
	s.wantRunningAndWaiting("web", 2, 2)
	s.restoreConfig()
	good := s.configText()

	resume := s.observer.Excuse(observer.Reason)
	s.stopScheduler()
	s.Expect(s.leaseHolder()).To(BeEmpty(), "a scheduler that is asked to stop gives its lease up")
	s.writeConfig("actions: nonsense")

	s.startScheduler() // returns when it is ready, although it has no configuration
	s.setQuota("unconfigured", cardList(h200, 3))
	s.wantRunningAndWaiting("web", 2, 2)
	s.Consistently(s.leaseHolder).Should(BeEmpty(), "it does not even stand for election")
	s.Expect(s.deployment.Scheduler.Running()).To(BeTrue())

	s.writeConfig(good)
	s.wantRunningAndWaiting("web", 3, 1)
	resume()
}

// aSchedulerThatStartsFirstWaitsForEverythingElse: everything starts in the wrong order: the scheduler first, on a
// cluster without nodes, queues, operator or configuration. Pods wait until nodes and a configuration exist, and
// never exceed a quota. Then the operator starts.
func aSchedulerThatStartsFirstWaitsForEverythingElse(t *testing.T, st *testCluster) {
	s := newSceneOn(t, "first", st)
	resume := s.observer.Excuse(observer.Reason, observer.Status)
	s.startScheduler() // live and ready
	s.createAndAwaitOpen(builder.Queue("first").Quota(`{"NVIDIA-H200":1}`).Obj())
	s.createPods(podSet{name: "pods", queue: "first", card: h200, count: 1, pods: 2})
	s.wantRunningAndWaiting("pods", 0, 2)
	s.Expect(s.leaseHolder()).To(BeEmpty())
	_, err := s.readHeartbeat()
	s.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "no scheduler enforces yet: %v", err)

	s.Expect(s.cluster.CreateNodes(s.ctx, check.Value(cluster.LoadFleet("testdata/fleet.yaml"))(t))).To(Succeed())
	s.wantRunningAndWaiting("pods", 0, 2)
	s.Expect(s.cluster.ApplyFile(s.ctx, filepath.Join(suite.root, "config/scheduler/configmap.yaml"))).To(Succeed())
	s.wantRunningAndWaiting("pods", 1, 1)

	s.startManager()
	resume()
	s.createQuota("first-managed", cardList(h200, 2))
	s.createObjects(s.deploymentOf(podSet{name: "web", queue: "first-managed", card: h200, count: 1, pods: 3}))
	s.wantRunningAndWaiting("web", 2, 1)
}
