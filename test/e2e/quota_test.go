package e2e

import (
	"testing"

	api "cardquota.dev/operator/api/v1alpha1"
)

// TestQuotaLimitsVCJobs: a queue has quotas of 3 H200 and 8 H800. Volcano's jobs start within them: each model
// counts for itself, and a gang starts as a whole or has no pods. A job that states limits alone, without the
// annotation card.request, is kept back in the same way, and so is one whose card has no quota. Reasons say how many
// cards were requested, and the quota: insufficientMessage has these two numbers last.
func TestQuotaLimitsVCJobs(t *testing.T) {
	s := newScene(t, "vcjobs")
	s.createQuota("vcjobs", cardList(h200, 3, h800, 8))

	s.createObjects(s.newVCJob(podSet{name: "fits", queue: "vcjobs", card: h200, count: 1, pods: 2, gang: 2}))
	s.wantRunningAndWaiting("fits", 2, 0)
	s.wantNodes("fits", "h200")

	// One model is used up while another is free.
	s.createObjects(s.newVCJob(podSet{name: "beyond", queue: "vcjobs", card: h200, count: 1, pods: 3}))
	s.wantRunningAndWaiting("beyond", 1, 2)
	s.wantReason("beyond", insufficientMessage("vcjobs", h200, 1, 3))
	s.createObjects(s.newVCJob(podSet{name: "free", queue: "vcjobs", card: h800, count: 4, pods: 2, gang: 2}))
	s.wantRunningAndWaiting("free", 2, 0)
	s.wantNodes("free", "h800")

	// A gang starts completely or not at all; it has no pods while it waits.
	s.createObjects(s.newVCJob(podSet{name: "gang", queue: "vcjobs", card: h200, count: 1, pods: 5, gang: 5}))
	s.wantGroupReason("gang", insufficientMessage("vcjobs", h200, 5, 3))
	s.wantRunningAndWaiting("gang", 0, 0)

	// Limits alone announce the same: Kubernetes takes them as requests once there are pods.
	limits := s.newVCJob(podSet{name: "limits", queue: "vcjobs", card: h200, count: 2, pods: 2, gang: 2})
	delete(limits.Annotations, api.AnnotationCardRequest)
	container := &limits.Spec.Tasks[0].Template.Spec.Containers[0].Resources
	container.Limits = container.Requests
	container.Requests = nil
	s.createObjects(limits)
	s.wantGroupReason("limits", insufficientMessage("vcjobs", h200, 4, 3))
	s.wantRunningAndWaiting("limits", 0, 0)

	s.createObjects(s.newVCJob(podSet{name: "none", queue: "vcjobs", card: rtx4090, count: 1, pods: 2}))
	s.wantGroupReason("none", insufficientMessage("vcjobs", rtx4090, 1, 0)) // 1 of its 2 pods is its minimum
	s.wantRunningAndWaiting("none", 0, 0)
	s.wantUsedPendingAndOver("vcjobs", h200, 3, 2+5+4, 0) // beyond, gang and limits wait
	s.wantUsedPendingAndOver("vcjobs", h800, 8, 0, 0)
}

// TestQuotaLimitsBarePods: pods without a controller count like all others. Of the quotas of 3 H200, 8 H800 and 4
// Ascend cards, pods use no more. A card without a quota may not be used at all. The last two numbers of
// insufficientMessage are the cards that one pod requests, and the quota.
func TestQuotaLimitsBarePods(t *testing.T) {
	s := newScene(t, "bare")
	s.createQuota("bare", cardList(h200, 3, h800, 8, ascend, 4))
	s.createPods(podSet{name: "fits", queue: "bare", card: h200, count: 2, pods: 1})
	s.wantRunningAndWaiting("fits", 1, 0)

	for _, w := range []podSet{
		{name: "beyond", card: h200, count: 1, pods: 4},
		{name: "free", card: h800, count: 2, pods: 3},
		{name: "npu", card: ascend, count: 1, pods: 6},
		{name: "none", card: rtx4090, count: 1, pods: 2},
	} {
		w.queue = "bare"
		s.createPods(w)
	}

	s.wantPods(map[string]string{"fits": runningAndWaiting(1, 0), "beyond": runningAndWaiting(1, 3), "free": runningAndWaiting(3, 0), "npu": runningAndWaiting(4, 2), "none": runningAndWaiting(0, 2)})
	s.wantNodes("npu", "ascend910b")
	s.wantReason("beyond", insufficientMessage("bare", h200, 1, 3))
	s.wantReason("npu", insufficientMessage("bare", ascend, 1, 4))
	s.wantReason("none", insufficientMessage("bare", rtx4090, 1, 0))
	s.wantUsedPendingAndOver("bare", h200, 2+1, 3, 0) // fits and beyond
	s.wantUsedPendingAndOver("bare", ascend, 4, 2, 0)
}

// TestAlternativesShareTheQuotasOfTheirCards: a pod may accept two card models, and counts against the quota of the
// one that it gets. With quotas of 1 and 2, 3 of 5 pods run. A pod that names one of the models cannot have the
// other.
func TestAlternativesShareTheQuotasOfTheirCards(t *testing.T) {
	s := newScene(t, "either")
	s.createQuota("either", cardList(rtx4090d, 1, rtx4090, 2))
	s.createPods(podSet{name: "either", queue: "either", card: rtx4090d + "|" + rtx4090, count: 1, pods: 5})
	s.wantRunningAndWaiting("either", 3, 2)
	s.wantUsedPendingAndOver("either", rtx4090d, 1, 2, 0) // pending pods count for the first card that they name
	s.wantUsedPendingAndOver("either", rtx4090, 2, 0, 0)

	// A pod that names one of them cannot have the other.
	s.createPods(podSet{name: "one", queue: "either", card: rtx4090, count: 1, pods: 1})
	s.wantRunningAndWaiting("one", 0, 1)
	s.wantReason("one", insufficientMessage("either", rtx4090, 1, 2))
}
