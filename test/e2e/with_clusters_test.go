package e2e

import (
	"testing"

	"cardquota.dev/operator/test/deployment"
)

// The tests with clusters of their own are in the last file, the longest at its end: parallel
// tests continue with the last one first. They take turns, and the scenes on the shared cluster
// fill the time between.

// Volcano's own action preempt evicts inside a queue: between its jobs, and between the pods of
// a job. It works the same with card quotas, and no eviction is useless. TestStockReclaim
// covers action reclaim between queues.
func TestPreemptionInsideAQueue(t *testing.T) {
	t.Parallel()
	st := startEvictingCluster(t)
	for name, play := range map[string]func(*scene){"jobs": preemptsBetweenJobs, "cards": preemptsOnTheScarceCard, "pods": preemptsBetweenPods} {
		t.Run(name, func(t *testing.T) { play(newSceneOn(t, name, st)) })
	}
}

// TestPreemptionByThePolicy tests what a ServiceTypePolicy enables: jobs survive the preemption
// of their gangs, and pods of a job have priorities of their own. Gangs also survive a drained node.
func TestPreemptionByThePolicy(t *testing.T) {
	t.Parallel()
	st := startPolicyCluster(t)
	for name, play := range map[string]func(*scene){"gangs": gangsSurvivePreemption, "task-priority": preemptsByTaskPriority, "drained": drainedGangsReturn} {
		t.Run(name, func(t *testing.T) { play(newSceneOn(t, name, st)) })
	}
}

// TestMappedCards runs a scene with cards of vendors that no label names.
func TestMappedCards(t *testing.T) {
	t.Parallel()
	quotasHoldForMappedCards(newSceneOn(t, "mapped", startMappedCluster(t)))
}

// TestStockReclaim runs the scenes that hold pod by pod, with Volcano's own action
// reclaim.
func TestStockReclaim(t *testing.T) {
	t.Parallel()
	runReclaimScenes(t, startEvictingCluster(t), func(scene reclaimScene) bool { return scene.worksWithStockReclaim })
}

// TestEnforcementIsProven hands a cluster over from Volcano's own scheduler to ours and back,
// breaks what can be broken, and compares it with the conditions about enforcement. Everything
// is real and has the shipped rights.
func TestEnforcementIsProven(t *testing.T) {
	t.Parallel()
	newEnforcementTest(t).runHandover(t)
}

// TestDisturbances runs, one after the other, scenes that affect the whole cluster: programs
// that end and configurations that change.
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

// TestWhatIfIsWhatTheSchedulerDoes asks kubectl cardquota whatif, submits the file, and compares.
func TestWhatIfIsWhatTheSchedulerDoes(t *testing.T) {
	t.Parallel()
	runWhatIfScenes(t)
}

// TestTreesOfQuotas runs the scenes of trees of quotas.
func TestTreesOfQuotas(t *testing.T) {
	t.Parallel()
	runTreeScenes(t)
}

// TestCardReclaim runs the reclaim scenes with the action cardreclaim.
func TestCardReclaim(t *testing.T) {
	t.Parallel()
	runReclaimScenes(t, startReclaimingCluster(t, nil, "cardreclaim"), func(reclaimScene) bool { return true })
}
