package e2e

import (
	"testing"
)

func TestQuotaHoldsForVCJobs(t *testing.T) {
	t.Parallel()
	s := newScene(t, "vcjobs")
	s.quota("vcjobs", cards(h200, 3, h800, 8))

	s.create(s.vcjob(work{name: "fits", queue: "vcjobs", card: h200, count: 1, pods: 2, gang: 2}))
	s.wantRunning("fits", 2, 0)
	s.wantNodes("fits", "h200")

	// One model is used up while another is free.
	s.create(s.vcjob(work{name: "beyond", queue: "vcjobs", card: h200, count: 1, pods: 3}))
	s.wantRunning("beyond", 1, 2)
	s.wantSaid("beyond", insufficient("vcjobs", h200, 1, 3))
	s.create(s.vcjob(work{name: "free", queue: "vcjobs", card: h800, count: 4, pods: 2, gang: 2}))
	s.wantRunning("free", 2, 0)
	s.wantNodes("free", "h800")

	// A gang starts whole or not at all; it has no pods while it waits.
	s.create(s.vcjob(work{name: "gang", queue: "vcjobs", card: h200, count: 1, pods: 5, gang: 5}))
	s.wantGroupSaid("gang", insufficient("vcjobs", h200, 5, 3))
	s.wantRunning("gang", 0, 0)

	s.create(s.vcjob(work{name: "none", queue: "vcjobs", card: rtx4090, count: 1, pods: 2}))
	s.wantGroupSaid("none", insufficient("vcjobs", rtx4090, 1, 0))
	s.wantRunning("none", 0, 0)
	s.wantCard("vcjobs", h200, 3, 7, 0)
	s.wantCard("vcjobs", h800, 8, 0, 0)
}

func TestQuotaHoldsForDeployments(t *testing.T) {
	t.Parallel()
	s := newScene(t, "deployments")
	s.quota("deployments", cards(h200, 3, h800, 8))

	s.create(s.deploymentOf(work{name: "fits", queue: "deployments", card: h200, count: 2, pods: 1}))
	s.wantRunning("fits", 1, 0)
	s.wantNodes("fits", "h200")

	s.create(s.deploymentOf(work{name: "beyond", queue: "deployments", card: h200, count: 1, pods: 4}))
	s.wantRunning("beyond", 1, 3)
	s.wantSaid("beyond", insufficient("deployments", h200, 1, 3))
	s.create(s.deploymentOf(work{name: "free", queue: "deployments", card: h800, count: 1, pods: 4}))
	s.wantRunning("free", 4, 0)

	s.create(s.deploymentOf(work{name: "none", queue: "deployments", card: rtx4090, count: 1, pods: 2}))
	s.wantSaid("none", insufficient("deployments", rtx4090, 1, 0))
	s.wantRunning("none", 0, 2)
	s.wantCard("deployments", h200, 3, 3, 0)
}

func TestQuotaHoldsForBarePods(t *testing.T) {
	t.Parallel()
	s := newScene(t, "bare")
	s.quota("bare", cards(h200, 3, h800, 8))

	s.run(work{name: "fits", queue: "bare", card: h200, count: 2, pods: 1})
	s.wantRunning("fits", 1, 0)

	s.run(work{name: "beyond", queue: "bare", card: h200, count: 1, pods: 4})
	s.wantRunning("beyond", 1, 3)
	s.wantSaid("beyond", insufficient("bare", h200, 1, 3))
	s.run(work{name: "free", queue: "bare", card: h800, count: 2, pods: 3})
	s.wantRunning("free", 3, 0)

	s.run(work{name: "none", queue: "bare", card: rtx4090, count: 1, pods: 2})
	s.wantRunning("none", 0, 2)
	s.wantSaid("none", insufficient("bare", rtx4090, 1, 0))
	s.wantCard("bare", h200, 3, 3, 0)
}

func TestAPodThatNamesNoCardIsHeldToTheQuotaOfWhereItRuns(t *testing.T) {
	t.Parallel()
	s := newScene(t, "nameless")
	s.quota("nameless", cards(h800, 2))
	s.run(work{name: "any", queue: "nameless", count: 1, pods: 3})
	s.wantRunning("any", 2, 1)
	s.wantNodes("any", "h800")
	s.wantCard("nameless", h800, 2, 1, 0)
}
