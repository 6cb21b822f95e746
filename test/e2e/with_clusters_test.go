package e2e

import (
	"testing"

	"cardquota.dev/operator/test/deployment"
)

// The tests with clusters of their own stand in the last file, the longest at its end:
// parallel tests go on from the last one backwards. They take turns, and the scenes that
// share the suite's cluster fill the time between.

// Volcano's own action preempt takes cards inside a queue: between its jobs, and between
// the pods of a job. With card quotas it stays what it is, and nothing is taken that would
// not help. What action reclaim takes between queues is TestTideByStockReclaim.
func TestPreemptionInsideAQueue(t *testing.T) {
	t.Parallel()
	st := startEvictingStage(t)
	for name, play := range map[string]func(*scene){"jobs": takesBetweenJobs, "cards": takesTheCardThatIsShort, "pods": takesBetweenPods} {
		t.Run(name, func(t *testing.T) { play(newSceneOn(t, name, st)) })
	}
}

// TestPreemptionByThePolicy plays what a ServiceTypePolicy switches on: jobs survive that
// their gangs are preempted, and pods of a job have priorities of their own.
func TestPreemptionByThePolicy(t *testing.T) {
	t.Parallel()
	st := startPolicyStage(t)
	for name, play := range map[string]func(*scene){"gangs": gangsSurvivePreemption, "task-priority": takesByTaskPriority} {
		t.Run(name, func(t *testing.T) { play(newSceneOn(t, name, st)) })
	}
}

// TestTideByStockReclaim plays what of it holds pod by pod, with Volcano's own
// action reclaim.
func TestTideByStockReclaim(t *testing.T) {
	t.Parallel()
	playTides(t, startEvictingStage(t), func(scene reclaimScene) bool { return scene.podByPod })
}

// TestEnforcementIsProven takes a cluster from Volcano's own scheduler to ours
// and back, breaks on the way what can be broken, and holds what is said of
// enforcement against it. Everything is real, under the rights that are shipped.
func TestEnforcementIsProven(t *testing.T) {
	t.Parallel()
	newProof(t).runHandover(t)
}

// TestDisturbances plays, one after the other, what disturbs every scene on its cluster:
// programs that end and configurations that change.
func TestDisturbances(t *testing.T) {
	t.Parallel()
	st := startStage(t, nil, deployment.NoConfiguration)
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
		{"examples of configurations", playConfigurations},
	} {
		t.Run(scene.name, func(t *testing.T) { scene.play(t, st) })
	}
}

// TestTide plays the scenes of the tide with the action cardreclaim.
func TestTide(t *testing.T) {
	t.Parallel()
	playTides(t, startTakingStage(t, nil, "cardreclaim"), func(reclaimScene) bool { return true })
}
