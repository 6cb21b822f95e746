package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
	"cardquota.dev/operator/test/observer"
)

const configurationKey = "volcano-scheduler.conf"

var configurationName = types.NamespacedName{Namespace: deployment.Namespace, Name: "volcano-scheduler-configmap"}

// configuration is the scheduler's ConfigMap as it is now.
func (s *scene) configuration() *corev1.ConfigMap {
	s.Helper()
	live := &corev1.ConfigMap{}
	s.Expect(s.Get(s.ctx, configurationName, live)).To(Succeed())
	return live
}

// configure replaces the configuration's text, or creates the ConfigMap.
func (s *scene) configure(text string) {
	s.Helper()
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: configurationName.Namespace, Name: configurationName.Name},
		Data:       map[string]string{configurationKey: text},
	}
	err := s.Update(s.ctx, object)
	if err != nil {
		err = s.Create(s.ctx, object)
	}
	s.Expect(err).NotTo(HaveOccurred())
}

// restore puts the configuration back at the end of the test, before the
// observer's last look.
func (s *scene) restore() {
	good := s.configuration().Data[configurationKey]
	s.Cleanup(func() {
		s.ctx = context.WithoutCancel(s.ctx)
		s.configure(good)
	})
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
	return s.eventsOn("ConfigMap", configurationName.Name, reason)
}

func TestABrokenConfigurationChangesNothingButAReport(t *testing.T) {
	s := newScene(t, "broken")
	s.quota("broken", cards(h200, 2))
	s.restore()
	good := s.configuration().Data[configurationKey]
	for _, test := range []struct{ name, text, reason, report string }{
		{"no-yaml", "actions: [\n", "ConfigurationRejected", "yaml"},
		{"no-card", strings.Replace(good, "name: capacity-card", "name: capacity", 1), "ConfigurationRejected", "capacity-card"},
		{"no-action", strings.Replace(good, "allocate", "alocate", 1), "ConfigurationRejected", "alocate"},
		{"no-argument", strings.Replace(good, "cardUnlimitedCpuMemory: true", "cardUnlimitedCpuMemory: perhaps", 1), "ConfigurationRejected", "perhaps"},
		{"nothing", "", "ConfigurationRejected", ""},
	} {
		s.configure(test.text)
		s.Eventually(func() []string { return s.reports(test.reason) }).Should(ContainElement(ContainSubstring(test.report)), test.name)
		s.run(work{name: test.name, queue: "broken", card: h200, count: 1, pods: 3})
		s.wantRunning(test.name, 2, 1)
		s.Expect(s.DeleteAllOf(s.ctx, &corev1.Pod{}, client.InNamespace(s.namespace), client.MatchingLabels{app: test.name})).To(Succeed())
	}
	s.Expect(s.Delete(s.ctx, s.configuration())).To(Succeed())
	s.Eventually(func() []string { return s.reports("ConfigurationMissing") }).ShouldNot(BeEmpty())
	s.run(work{name: "gone", queue: "broken", card: h200, count: 1, pods: 3})
	s.wantRunning("gone", 2, 1)
	// A good text is taken again: this one lets jobs start without admission.
	s.configure(strings.Replace(good, "enqueue, allocate, backfill", "enqueue, allocate", 1))
	s.Eventually(func() []string { return s.reports("ConfigurationLoaded") }).ShouldNot(BeEmpty())
	s.wantRunning("gone", 2, 1)
}

func TestASchedulerThatStartsOnABrokenConfigurationWaits(t *testing.T) {
	s := newScene(t, "unconfigured")
	s.quota("unconfigured", cards(h200, 1))
	s.restore()
	good := s.configuration().Data[configurationKey]
	resume := s.observer.Excuse(observer.Reason)
	s.letSchedulerEnd()
	s.Expect(s.deployment.Scheduler.Stop()).To(Succeed())
	s.Expect(s.holder()).To(BeEmpty(), "a scheduler that is asked to stop gives its lease up")
	s.configure("actions: nonsense")

	s.startScheduler() // returns when it is ready, although it has nothing to go by
	s.run(work{name: "pods", queue: "unconfigured", card: h200, count: 1, pods: 2})
	s.wantRunning("pods", 0, 2)
	s.Consistently(s.holder).Should(BeEmpty(), "it does not even stand for election")
	s.Expect(s.deployment.Scheduler.Running()).To(BeTrue())

	s.configure(good)
	s.wantRunning("pods", 1, 1)
	resume()
}

// Everything arrives in the wrong order: the scheduler first, on a cluster
// without nodes, queues, operator or configuration.
func TestASchedulerThatStartsFirstWaitsForEverythingElse(t *testing.T) {
	t.Parallel() // on a cluster of its own
	g := NewWithT(t)
	c, err := cluster.Start(t.Context(), cluster.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(c.Stop()).To(Succeed()) })
	k8s, err := newClient(c)
	g.Expect(err).NotTo(HaveOccurred())
	options := programs
	options.Configuration = deployment.NoConfiguration
	d, err := deployment.Install(t.Context(), c, options)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(d.StartScheduler(t.Context())).To(Succeed(), "live and ready")

	s := newSceneOn(t, "first", c, k8s, d)
	resume := s.observer.Excuse(observer.Reason, observer.Status)
	s.queueByHand("first", `{"NVIDIA-H200":1}`)
	s.run(work{name: "pods", queue: "first", card: h200, count: 1, pods: 2})
	s.wantRunning("pods", 0, 2)
	s.Expect(s.holder()).To(BeEmpty())

	fleet, err := cluster.LoadFleet("testdata/fleet.yaml")
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(c.CreateNodes(s.ctx, fleet)).To(Succeed())
	s.wantRunning("pods", 0, 2)
	text, err := os.ReadFile(filepath.Join(suite.root, "config/scheduler/configmap.yaml"))
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(c.Apply(s.ctx, text)).To(Succeed())
	s.wantRunning("pods", 1, 1)

	s.Expect(d.StartManager(s.ctx)).To(Succeed())
	s.followManager()
	resume()
	s.quota("first-managed", cards(h200, 2))
	s.create(s.deploymentOf(work{name: "web", queue: "first-managed", card: h200, count: 1, pods: 3}))
	s.wantRunning("web", 2, 1)
}
