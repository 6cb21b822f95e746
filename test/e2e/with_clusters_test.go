package e2e

import (
	"testing"

	"cardquota.dev/operator/test/deployment"
)

// The tests with clusters of their own are in the last file, the longest at its end: parallel
// tests continue with the last one first. They take turns, and the scenes on the shared cluster
// fill the time between.

// TestVolcanosPreemptWorksWithCardQuotas: Volcano's own action preempt evicts inside a queue: between its jobs, and
// between the pods of a job. It works the same with card quotas, and no eviction is useless. TestStockReclaim covers
// action reclaim between queues.
func TestVolcanosPreemptWorksWithCardQuotas(t *testing.T) {
	t.Parallel()
	st := startEvictingCluster(t)

	for name, play := range map[string]func(*scene){
		// The quota of 4 is full of pods of low priority; a job of 2 pods of high priority preempts 2 of them.
		"jobs": preemptsBetweenJobs,
		// A pod needs 2 cards, H800 or H200. Another queue fills the H800, so it preempts 2 pods of its queue on H200.
		"cards": preemptsOnTheScarceCard,
		// Inside a job, a task of higher priority preempts the pods of the other one.
		"pods": preemptsBetweenPods,
	} {
		t.Run(name, func(t *testing.T) { play(newSceneOn(t, name, st)) })
	}
}

// TestJobsSurvivePreemptionByThePolicy: a ServiceTypePolicy may enable preempt. Jobs survive the preemption of their
// gangs, and pods of a job have priorities of their own. Scene drained shares the cluster, and preempts nothing.
func TestJobsSurvivePreemptionByThePolicy(t *testing.T) {
	t.Parallel()
	st := startPolicyCluster(t)

	for name, play := range map[string]func(*scene){
		// A gang of 10 pods is preempted as a whole for 2 pods, 4 times, and restarts each time: once more than the 3
		// retries of its vcjob, because an eviction counts as none.
		"gangs": gangsSurvivePreemption,
		// Inside a job, annotation volcano.sh/task-priority decides as a PriorityClass does.
		"task-priority": preemptsByTaskPriority,
		// A gang of 2 pods on 2 nodes loses one to a drain. Below its minimum it is served before a pod that waits
		// longer, so it gets its node back.
		"drained": drainedGangsReturn,
	} {
		t.Run(name, func(t *testing.T) { play(newSceneOn(t, name, st)) })
	}
}

// TestMappedCardsCountAsAnyOther: the policy maps resources of AMD and Hygon to cards, because no label of their
// nodes names one. Then operator, scheduler and webhook count them as any card. Of 4 AMD pods and 4 Hygon pods with one
// card each, 3 and 2 run, as the quotas allow.
func TestMappedCardsCountAsAnyOther(t *testing.T) {
	t.Parallel()
	quotasLimitMappedCards(newSceneOn(t, "mapped", startMappedCluster(t)))
}

// TestStockReclaim: an administrator may keep Volcano's own action reclaim, by which a queue takes back what it
// deserves. It evicts pods one by one. The scenes in which that suffices (worksWithStockReclaim) have the same
// result as with our action cardreclaim.
func TestStockReclaim(t *testing.T) {
	t.Parallel()
	runReclaimScenes(t, startEvictingCluster(t), func(scene reclaimScene) bool { return scene.worksWithStockReclaim })
}

// TestEnforcementIsProven: a cluster is handed over from Volcano's own scheduler to ours and back. At each step the
// conditions say truly whether quotas are enforced. All programs are real and have the shipped rights.
func TestEnforcementIsProven(t *testing.T) {
	t.Parallel()
	newEnforcementTest(t).runHandover(t)
}

// TestDisturbances: scenes that affect the whole cluster, programs that end and configurations that change, run one
// after the other on one cluster.
func TestDisturbances(t *testing.T) {
	t.Parallel()

	st := startTestCluster(t, nil, deployment.NoConfiguration)
	for _, scene := range []struct {
		name string
		play func(*testing.T, *testCluster)
	}{
		{"a scheduler that starts first waits for everything else", aSchedulerThatStartsFirstWaitsForEverythingElse},
		{"a heartbeat proves what is in force", heartbeatProvesWhatIsInForce},
		{"killing the scheduler under load never exceeds a quota", killingTheSchedulerUnderLoadNeverExceedsAQuota},
		{"quota is enforced without the operator and its status catches up", quotaIsEnforcedWithoutTheOperatorAndItsStatusCatchesUp},
		{"a broken configuration changes nothing but a report", aBrokenConfigurationChangesNothingButAReport},
		{"a scheduler that starts on a broken configuration waits", aSchedulerThatStartsOnABrokenConfigurationWaits},
		{"examples of configurations", runConfigurations},
	} {
		t.Run(scene.name, func(t *testing.T) { scene.play(t, st) })
	}
}

// TestWhatIfIsWhatTheSchedulerDoes: a user asks kubectl cardquota whatif what would happen, and the scheduler then
// does it. Each scene asks, for example whether a gang would start and which pods it would evict. It makes the
// change happen, and compares.
func TestWhatIfIsWhatTheSchedulerDoes(t *testing.T) {
	t.Parallel()
	runWhatIfScenes(t)
}

// TestSiblingsOfATreeLendEachOtherCards: in a tree of quotas siblings lend each other what they do not use, and take
// it back. The scenes are those of runTreeScenes: lending and reclaim between siblings, guarantees, hold and drain,
// priorities, sums of a subtree. Each is a function with its numbers in its comment, and has nodes of its own. Scenes
// that stop a program or change the policy of all run last, one after the other.
func TestSiblingsOfATreeLendEachOtherCards(t *testing.T) {
	t.Parallel()
	runTreeScenes(t)
}

// TestInferenceTakesCardsBackFromTraining: inference takes cards back from training with our action cardreclaim. It
// evicts whole gangs, chooses the least loss of work, and evicts no pod in vain. Each scene is a function with its
// numbers in its comment, and has nodes of its own.
func TestInferenceTakesCardsBackFromTraining(t *testing.T) {
	t.Parallel()
	runReclaimScenes(t, startReclaimingCluster(t, nil, "cardreclaim"), func(reclaimScene) bool { return true })
}
