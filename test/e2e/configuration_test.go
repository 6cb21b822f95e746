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

	"cardquota.dev/operator/internal/schedulerconf"
	"cardquota.dev/operator/internal/testing/builder"
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

// configuration is the scheduler's ConfigMap as it is now.
func (s *scene) configuration() *corev1.ConfigMap {
	s.Helper()
	return read(s, &corev1.ConfigMap{ObjectMeta: configurationMeta})
}

// text is the configuration's text as it is now.
func (s *scene) text() string {
	s.Helper()
	return s.configuration().Data[configurationKey]
}

// configure replaces the configuration's text, or creates the ConfigMap.
func (s *scene) configure(text string) {
	s.Helper()
	object := &corev1.ConfigMap{ObjectMeta: configurationMeta, Data: map[string]string{configurationKey: text}}
	err := s.Update(s.ctx, object)
	if err != nil {
		err = s.Create(s.ctx, object)
	}
	s.Expect(err).NotTo(HaveOccurred())
}

// restore puts the configuration back at the end of the test, before the
// observer's last look.
func (s *scene) restore() {
	good := s.text()
	s.Cleanup(func() {
		s.ctx = context.WithoutCancel(s.ctx)
		s.configure(good)
	})
}

// configured has the scheduler take another configuration, until the end of the scene.
func (s *scene) configured(text string) {
	s.Helper()
	s.restore()
	s.configure(text)
	s.wantInForce(text)
}

// holder is who holds the scheduler's lease, "" for nobody.
func (s *scene) holder() string {
	lease := &coordinationv1.Lease{}
	if err := s.Get(s.ctx, types.NamespacedName{Namespace: deployment.Namespace, Name: "volcano"}, lease); err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// reports are the configuration gate's events of a reason.
func (s *scene) reports(reason string) []string {
	return s.told("", "ConfigMap", configurationMeta.Name, reason)
}

// wantInForce waits until the scheduler has closed a session by a configuration, and has
// said that it loaded it.
func (s *scene) wantInForce(text string) {
	s.Helper()
	s.Eventually(func() string { return s.beats().ConfigHash }).Should(Equal(schedulerconf.Hash(text)))
	s.Eventually(func() []string { return s.reports("ConfigurationLoaded") }).Should(ContainElement(ContainSubstring(schedulerconf.Hash(text))))
}

func aBrokenConfigurationChangesNothingButAReport(t *testing.T, st *stage) {
	s := newSceneOn(t, "broken", st)
	s.quota("broken", cards(h200, 2))
	s.restore()
	good := s.text()
	for _, test := range []struct{ name, text, report string }{
		{"no-yaml", "actions: [\n", "yaml"},
		{"no-card", strings.Replace(good, "name: capacity-card", "name: capacity", 1), "capacity-card"},
		{"no-action", strings.Replace(good, "allocate", "alocate", 1), "alocate"},
		{"no-argument", strings.Replace(good, "cardUnlimitedCpuMemory: true", "cardUnlimitedCpuMemory: perhaps", 1), "perhaps"},
		{"nothing", "", "the text is empty"},
	} {
		// What is said must be said now, not of an earlier text.
		s.Expect(s.DeleteAllOf(s.ctx, &corev1.Event{}, client.InNamespace(deployment.Namespace))).To(Succeed())
		s.configure(test.text)
		s.Eventually(func() []string { return s.reports("ConfigurationRejected") }).Should(ContainElement(ContainSubstring(test.report)), test.name)
		s.run(work{name: test.name, queue: "broken", card: h200, count: 1, pods: 3})
		s.wantRunning(test.name, 2, 1)
		s.Eventually(s.beats).Should(HaveField("ConfigProblem", ContainSubstring(test.report)), test.name)
		s.Expect(s.beats().ConfigHash).To(Equal(schedulerconf.Hash(good)), "the last good one is in force")
		s.Expect(s.DeleteAllOf(s.ctx, &corev1.Pod{}, client.InNamespace(s.namespace), client.MatchingLabels{app: test.name})).To(Succeed())
	}
	s.Expect(s.Delete(s.ctx, s.configuration())).To(Succeed())
	s.Eventually(func() []string { return s.reports("ConfigurationMissing") }).ShouldNot(BeEmpty())
	s.run(work{name: "gone", queue: "broken", card: h200, count: 1, pods: 3})
	s.wantRunning("gone", 2, 1)
	// A good text is taken again: this one lets jobs start without admission.
	other := strings.Replace(good, "enqueue, allocate, backfill", "enqueue, allocate", 1)
	s.configure(other)
	s.wantInForce(other)
	s.Expect(s.beats().ConfigProblem).To(BeEmpty())
	s.wantRunning("gone", 2, 1)
}

func aSchedulerThatStartsOnABrokenConfigurationWaits(t *testing.T, st *stage) {
	s := newSceneOn(t, "unconfigured", st)
	s.quota("unconfigured", cards(h200, 2))
	s.create(s.deploymentOf(work{name: "web", queue: "unconfigured", card: h200, count: 1, pods: 4}))
	s.wantRunning("web", 2, 2)
	s.restore()
	good := s.text()
	resume := s.observer.Excuse(observer.Reason)
	s.stopScheduler()
	s.Expect(s.holder()).To(BeEmpty(), "a scheduler that is asked to stop gives its lease up")
	s.configure("actions: nonsense")

	s.startScheduler() // returns when it is ready, although it has nothing to go by
	s.change("unconfigured", cards(h200, 3))
	s.wantRunning("web", 2, 2)
	s.Consistently(s.holder).Should(BeEmpty(), "it does not even stand for election")
	s.Expect(s.deployment.Scheduler.Running()).To(BeTrue())

	s.configure(good)
	s.wantRunning("web", 3, 1)
	resume()
}

// Everything arrives in the wrong order: the scheduler first, on a cluster
// without nodes, queues, operator or configuration.
func aSchedulerThatStartsFirstWaitsForEverythingElse(t *testing.T, st *stage) {
	s := newSceneOn(t, "first", st)
	resume := s.observer.Excuse(observer.Reason, observer.Status)
	s.startScheduler() // live and ready
	s.open(builder.Queue("first").Quota(`{"NVIDIA-H200":1}`).Obj())
	s.run(work{name: "pods", queue: "first", card: h200, count: 1, pods: 2})
	s.wantRunning("pods", 0, 2)
	s.Expect(s.holder()).To(BeEmpty())
	_, err := s.heartbeat()
	s.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "nobody enforces yet: %v", err)

	fleet, err := cluster.LoadFleet("testdata/fleet.yaml")
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.cluster.CreateNodes(s.ctx, fleet)).To(Succeed())
	s.wantRunning("pods", 0, 2)
	s.Expect(s.cluster.ApplyFile(s.ctx, filepath.Join(suite.root, "config/scheduler/configmap.yaml"))).To(Succeed())
	s.wantRunning("pods", 1, 1)

	s.startManager()
	resume()
	s.quota("first-managed", cards(h200, 2))
	s.create(s.deploymentOf(work{name: "web", queue: "first-managed", card: h200, count: 1, pods: 3}))
	s.wantRunning("web", 2, 1)
}
