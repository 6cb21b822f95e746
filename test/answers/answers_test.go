package answers

import (
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	api "cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
)

// TestWaitingPodsAndFindingsAreExplainedAtEachStep: kubectl cardquota says at each moment of an installation what
// is wrong and what helps. The steps run in one cluster, one after the other. The first are before the installation
// and with a part of it. Then a pod waits for each reason, and at last the programs end. Most steps compare
// what commands print with testdata/. "a user without rights asks" and "a tenant writes" check what is refused. Only a
// step with isAside may fail without ending the test.
func TestWaitingPodsAndFindingsAreExplainedAtEachStep(t *testing.T) {
	all := states()
	// Node legacy has the cards of the time before the installation, and no label names those of unlabelled.
	nodes := []cluster.NodeProfile{nodesOf("legacy", 1, "4"), {Name: "unlabelled", Allocatable: corev1.ResourceList{
		"cpu": resource.MustParse("8"), "memory": resource.MustParse("64Gi"), "amd.com/gpu": resource.MustParse("8")}}}

	for _, s := range all {
		nodes = append(nodes, s.nodes...)
	}
	s := newSite(t, cluster.Options{Nodes: nodes})

	// Definitions of another version do not fit this one. A build without a release number would fit all.
	version := build.Version
	build.Version = "v1.0.0"
	t.Cleanup(func() { build.Version = version })

	began := time.Now()
	for _, step := range []struct {
		name string
		run  func(*play)
		// isAside marks a step that the next ones do not need.
		isAside bool
	}{
		{name: "before the installation", run: beforeTheInstallation},
		{name: "half of the definitions", run: halfOfTheDefinitions},
		{name: "definitions of another version", run: definitionsOfAnotherVersion},
		{name: "an operator without a scheduler", run: anOperatorWithoutAScheduler},
		{name: "a policy that observes", run: aPolicyThatObserves},
		{name: "pods wait for every reason", run: func(p *play) { p.startScheduler(); p.bringAbout(all) }},
		{name: "all are asked why", run: func(p *play) { p.askWhy(all) }, isAside: true},
		{name: "a user without rights asks", run: askWithoutRights, isAside: true},
		{name: "a tenant writes", run: tenantWrites, isAside: true},
		{name: "quotas that are not as intended", run: quotasThatAreNotAsIntended, isAside: true},
		{name: "card-seconds that cannot be stored", run: cardSecondsThatCannotBeStored, isAside: true},
		{name: "a broken configuration", run: aBrokenConfiguration},
		{name: "a mode that is not in force", run: anUnfinishedMode},
		{name: "both programs end", run: bothProgramsEnd},
	} {
		ok := t.Run(step.name, func(t *testing.T) { step.run(&play{t, s}) })
		t.Logf("%s: %s", step.name, time.Since(began).Round(100*time.Millisecond))
		if !ok && !step.isAside && !*update {
			t.FailNow()
		}
	}
}

// startScheduler starts the scheduler, and waits until it enforces the policy.
func (p *play) startScheduler() {
	check.NoError(p, p.deployment.StartScheduler(p.Context()))
	p.setPolicy(func(policy *api.ServiceTypePolicy) {
		policy.Spec.Admission = api.Admission{SchedulerBypassPolicy: api.SchedulerBypassDeny}
	})
	p.awaitEnforced()
}

// askWhy asks for each state why its pod waits, as the administrator and as a tenant. The states that
// end by themselves are the first.
func (p *play) askWhy(all []state) {
	for _, s := range all {
		p.Run(s.name, func(t *testing.T) {
			pod := p.askedPod(t, s)
			compareGolden(t, "why/"+s.name, func() string { return p.answer(t, "why", pod, "-n", s.name) })
			if !s.hasNoEvents {
				p.askAsTenant(t, s, pod)
			}

			if s.isBrief {
				newGomega(t).Expect(p.Delete(t.Context(), podOf(s.name, waits, 1).Obj())).To(gomega.Succeed())
			}
		})
	}
}

// askedPod returns the pod of a state that is asked about.
func (p *play) askedPod(t *testing.T, s state) (name string) {
	if s.asked == nil {
		return waits
	}
	newGomega(t).Eventually(func() string { name = s.asked(p, t); return name }).ShouldNot(gomega.BeEmpty(), "a pod of %s that waits", s.name)
	return name
}

// answer returns what a command prints, "" if it fails.
func (p *play) answer(t *testing.T, args ...string) string {
	out, errOut, code := p.ask(t.Context(), args...)
	if code == 1 || errOut != "" {
		t.Logf("exit code %d: %s", code, errOut)
		return ""
	}
	return out
}
