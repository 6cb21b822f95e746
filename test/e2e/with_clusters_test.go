package e2e

import (
	"testing"

	"cardquota.dev/operator/test/deployment"
)

// The tests with clusters of their own are in the last file, the longest at its end: parallel
// tests continue with the last one first. They take turns, and the scenes on the shared cluster
// fill the time between.

// TestPreemptionInsideAQueue: Volcano's own action preempt evicts inside a queue: between its jobs, and between the
// pods of a job. It works the same with card quotas, and no eviction is useless. TestStockReclaim covers action
// reclaim between queues.
func TestPreemptionInsideAQueue(t *testing.T) {
	t.Parallel()
	st := startEvictingCluster(t)
	for name, play := range map[string]func(*scene){"jobs": preemptsBetweenJobs, "cards": preemptsOnTheScarceCard, "pods": preemptsBetweenPods} {
		t.Run(name, func(t *testing.T) { play(newSceneOn(t, name, st)) })
	}
}

// TestPreemptionByThePolicy: a ServiceTypePolicy may enable preempt. Jobs survive the preemption of their gangs,
// pods of a job have priorities of their own, and gangs survive a drained node.
func TestPreemptionByThePolicy(t *testing.T) {
	t.Parallel()
	st := startPolicyCluster(t)
	for name, play := range map[string]func(*scene){"gangs": gangsSurvivePreemption, "task-priority": preemptsByTaskPriority, "drained": drainedGangsReturn} {
		t.Run(name, func(t *testing.T) { play(newSceneOn(t, name, st)) })
	}
}

// TestMappedCards: cards of vendors whose nodes have no label that we know count when the policy maps them.
func TestMappedCards(t *testing.T) {
	t.Parallel()
	quotasHoldForMappedCards(newSceneOn(t, "mapped", startMappedCluster(t)))
}

// TestStockReclaim: the scenes in which pods are evicted one by one have the same result with Volcano's own action
// reclaim.
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
		{"quota holds without the operator and its status catches up", quotaHoldsWithoutTheOperatorAndItsStatusCatchesUp},
		{"a broken configuration changes nothing but a report", aBrokenConfigurationChangesNothingButAReport},
		{"a scheduler that starts on a broken configuration waits", aSchedulerThatStartsOnABrokenConfigurationWaits},
		{"examples of configurations", runConfigurations},
	} {
		t.Run(scene.name, func(t *testing.T) { scene.play(t, st) })
	}
}

// TestWhatIfIsWhatTheSchedulerDoes: each scene asks kubectl cardquota whatif what would happen, makes it happen,
// and compares.
func TestWhatIfIsWhatTheSchedulerDoes(t *testing.T) {
	t.Parallel()
	runWhatIfScenes(t)
}

// TestTreesOfQuotas: the rules of trees of quotas hold in a real cluster. Those that affect the whole cluster run
// last.
func TestTreesOfQuotas(t *testing.T) {
	t.Parallel()
	runTreeScenes(t)
}

// TestCardReclaim: inference takes cards back from training with our action cardreclaim: whole gangs, by least
// loss, and never in vain.
func TestCardReclaim(t *testing.T) {
	t.Parallel()
	runReclaimScenes(t, startReclaimingCluster(t, nil, "cardreclaim"), func(reclaimScene) bool { return true })
}
