package docs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/controller/admissionpolicy"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
)

// TestAdoptingBesideStockVolcano: a platform engineer types every command of docs/adopt.md on a cluster with stock
// Volcano on which workloads run. Until Enforce no Queue changes, no scheduler restarts, and the operator may write none.
// The forecast names the vcjob that waits with Enforce. Each step after it changes what the page says, and the commands
// below undo it. On the way back the Queues are as they were. All pods from before keep their node through every step.
//
// The node has 8 cards. In Queue legacy Deployment cards uses two and vcjob job one, for which the engineer grants two.
// Deployment serve of namespace web names no queue, and uses two by Kubernetes' own scheduler.
func TestAdoptingBesideStockVolcano(t *testing.T) {
	a := newAdoption(newEngineer(t))
	turns := a.watchSchedulers()
	a.startStock()
	a.startWorkloadsOfVolcano()
	queues := a.describeQueues()
	configuration := a.volcanoConfig()

	a.step("observe", a.observe)
	a.step("look", func() {
		a.look(map[string]string{legacy: "job needs nothing", web: "nothing needs serve"})
		a.Expect(a.describeQueues()).To(Equal(queues), "no Queue changes")
	})
	a.expectWithinTenMinutes()
	a.Expect([]int{turns.countStockRuns(), turns.countHeartbeats()}).To(Equal([]int{1, 0}), "the stock scheduler runs as before")
	a.Expect(a.canWriteQueues()).To(Equal("no"))

	a.step("enforce", a.enforce)
	a.step("workloads name their queue", a.nameQueues)
	a.step("a quota for each queue", a.limitOneQueue)
	a.step("no cards without a quota", a.withholdFromOtherQueues)
	a.step("no bypass of the scheduler", a.refuseBypasses)
	a.step("cards are taken back", a.takeCardsBack)

	a.step("back", a.goBack)
	a.Expect(a.describeQueues()).To(ContainElements(queues), "as they were before Enforce")
	a.Expect(a.canWriteQueues()).To(Equal("no"))
	a.step("remove", func() {
		a.typeCommands(a.sectionCommands(install, "## Remove it")[0])
		a.checkNothingLeft(cluster.VolcanoNamespace)
	})

	a.Expect(a.describeQueues()).To(ContainElements(queues), "as they were before the installation")
	a.Expect(a.volcanoConfig()).To(Equal(configuration), "byte for byte")
	a.checkSchedulerWorks("after")
	turns.checkNeverTwo(a.engineer, 2)
}

// TestObservingWithoutVolcano: on a cluster without Volcano the engineer types the commands of docs/adopt.md up to Look,
// and those that stop it. The forecast names the Deployment that would wait, and the workloads that need a queue. All pods
// keep their node, and nothing of Cardquota is left.
//
// The node has 8 cards. In namespace llm Deployment cards uses two and job one, for which the engineer grants two.
// Deployment serve of namespace web uses two. Kubernetes' own scheduler placed all of them.
func TestObservingWithoutVolcano(t *testing.T) {
	a := newAdoption(newEngineer(t, func(options *cluster.Options) { options.WithoutVolcano = true }))
	a.startWorkloadsOfKubernetes()

	a.step("observe", a.observe)
	a.step("look", func() { a.look(map[string]string{team: "job needs job,cards", web: "nothing needs serve"}) })
	a.expectWithinTenMinutes()
	a.Expect(a.canWriteQueues()).To(Equal("no"))

	a.step("stop observing", func() {
		a.typeCommands(a.blocks("### Stop observing", 1)[0])
		a.checkNothingLeft(cluster.VolcanoNamespace)
	})
}

// observe asks the plugin with nothing installed, corrects a number of the CardQuotas that it prints, and installs the
// operator.
func (a *adoption) observe() {
	commands := a.blocks("## Observe", 3)
	found := a.typeCommands(commands[0])
	a.Expect(found).To(And(MatchRegexp(`NVIDIA-H200 +8 +8 +5 `), ContainSubstring("\n"+web+"\n")), "inventory and top")
	a.correctQuotas(`quota: 3`, `quota: 2`)

	a.typeCommands(commands[1])
	a.Expect(a.enforcedCondition()).To(HavePrefix(v1alpha1.ReasonObserving))
}

// look applies the CardQuotas, and waits until the forecast of each is as given; see describeForecasts. kubectl get shows
// it, and so does the plugin.
func (a *adoption) look(want map[string]string) {
	commands := a.blocks("## Look", 2)
	a.typeCommands(commands[0])
	a.Eventually(a.describeForecasts).Should(Equal(want))

	shown := a.typeCommands(commands[1])
	for name := range want {
		a.Expect(shown).To(MatchRegexp(`(?m)^%s +.* Observe `, name), "kubectl get cardq")
	}
	a.Expect(shown).To(MatchRegexp(`(?m)^%s +<none> +serve$`, web), "the named workloads")
}

// enforce installs our scheduler, which waits, and then hands over to it. What runs beyond its quota continues, and the
// next pod waits. Nothing is refused: two pods bypass the scheduler.
func (a *adoption) enforce() {
	commands := a.sectionCommands(adopt, "## Enforce")
	a.typeCommands(commands[0])
	a.checkContinues()
	a.typeCommands(commands[1])
	a.Expect(a.canWriteQueues()).To(Equal("yes"))

	a.Eventually(a.enforcedCondition).Should(HavePrefix("CardBypass: 2 pods hold 2 NVIDIA-H200 "))
	a.checkNextPodWaits("cards", 3, legacy)
	a.scaleDeployments(map[string]int{"plain": 2})
	a.Expect(a.tryBypass()).To(Succeed())
}

// nameQueues moves Deployment serve into its queue. Its pods are replaced, and none bypasses the scheduler any more.
func (a *adoption) nameQueues() {
	a.mayEnd("serve")
	command := a.blocks("### Workloads name their queue", 1)[0]
	a.typeCommands(strings.NewReplacer("<namespace>", web, "<deployment>", "serve", "<queue>", web).Replace(command))
	a.Eventually(a.enforcedCondition).Should(HavePrefix(v1alpha1.ReasonEnforced))
	a.keepRunningPods()
}

// limitOneQueue gives another queue a CardQuota, and takes it away again.
func (a *adoption) limitOneQueue() {
	a.createQueue(spare)
	a.createDeployment(spare, spare, 1, 1)
	a.Eventually(a.countRunning(spare)).Should(Equal(1))
	a.keepRunningPods()
	a.addQuota(spare, 1)

	commands := a.blocks("### A quota for each queue", 2)
	of := strings.NewReplacer("<queue>", spare)
	a.typeCommands(of.Replace(commands[1]))
	a.checkNextPodWaits(spare, 2, spare)
	a.typeCommands(of.Replace(commands[0]))
	a.scaleDeployments(map[string]int{spare: 2})
}

// withholdFromOtherQueues gives queues without a CardQuota no cards any more, and undoes that once.
func (a *adoption) withholdFromOtherQueues() {
	commands := a.blocks("### No cards without a quota", 2)
	a.typeCommands(commands[0])
	a.waitUntilLoaded()
	a.createDeployment("late", "default", 0, 1)
	a.checkNextPodWaits("late", 1, "default")

	a.typeCommands(commands[1])
	a.Eventually(a.countRunning("late")).Should(Equal(1))
	a.typeCommands(commands[0])
	a.Expect(a.tryBypass()).To(Succeed())
}

// refuseBypasses lets the API server refuse pods that bypass the scheduler, and undoes that once.
func (a *adoption) refuseBypasses() {
	commands := a.blocks("### No bypass of the scheduler", 2)
	a.typeCommands(commands[0])
	a.Eventually(a.tryBypass).Should(MatchError(ContainSubstring(admissionpolicy.BypassPolicyName)))
	a.typeCommands(commands[1])
	a.Eventually(a.tryBypass).Should(Succeed())
	a.typeCommands(commands[0])
}

// takeCardsBack lets inference take cards back from training, and undoes that.
func (a *adoption) takeCardsBack() {
	commands := a.blocks("### Cards are taken back", 2)
	a.typeCommands(commands[0])
	a.Expect(a.schedulerConfig()).To(HaveKeyWithValue("volcano-scheduler.conf", ContainSubstring("cardreclaim")))
	a.typeCommands(commands[1])
	a.Eventually(a.schedulerConfig).Should(HaveKeyWithValue("volcano-scheduler.conf", Not(ContainSubstring("cardreclaim"))))
}

// goBack goes back to Observe. Pods that waited beyond their quota start, as cards are free.
func (a *adoption) goBack() {
	a.scaleDeployments(map[string]int{"late": 0})
	a.typeCommands(a.blocks("## Back", 1)[0])
	a.Eventually(a.countRunning("cards")).Should(Equal(3))
	a.Expect(a.tryBypass()).To(Succeed())
	a.Expect(a.readPolicy().Status.Mode).To(Equal(v1alpha1.ModeObserve))
}

// step runs one step, checks that the pods from before continue, and records how long it took.
func (a *adoption) step(name string, run func()) {
	began := time.Now()
	run()
	a.checkContinues()
	a.took = append(a.took, stepTime{name, time.Since(began)})
}

// expectWithinTenMinutes expects that the steps so far took no longer than the page says.
func (a *adoption) expectWithinTenMinutes() {
	sum := time.Duration(0)
	for _, step := range a.took {
		sum += step.took
	}
	check.That(a, sum < 10*time.Minute, "docs/adopt.md says ten minutes, and it took %s", sum)
}

// logSteps logs how long each step took.
func (a *adoption) logSteps() {
	var text strings.Builder
	for _, step := range a.took {
		fmt.Fprintf(&text, "\n%6.1f s  %s", step.took.Seconds(), step.name)
	}
	a.Logf("the steps of docs/adopt.md took:%s", text.String())
}
