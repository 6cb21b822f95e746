package explanation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
)

// textOf returns all that an explanation says, each line its own: the summary, the advice, and the gates.
func textOf(in Input) string {
	d := Explain(in)
	lines := append([]string{d.Summary}, d.Advice...)
	for _, gate := range d.Gates {
		lines = append(lines, gate.Name+": "+string(gate.Answer)+", "+gate.Detail)
	}
	return strings.Join(lines, "\n")
}

// TestTheSummarySaysInWhichWayAQuotaIsExhausted: a quota can be exhausted in several ways, and a user acts differently on
// each. In each row the status names job other as the holder of 8 H200, and the advice is to wait until it ends. Where a
// pod requests more than the whole quota, the end of job other does not help, and is not advised.
func TestTheSummarySaysInWhichWayAQuotaIsExhausted(t *testing.T) {
	const message = "Queue <llm> has insufficient <NVIDIA-H200> quota: requested "
	for t, tc := range check.Cases(t, map[string]struct {
		quota, used, requested int64
		message                string // of the scheduler
		want                   string
		wantsEndOfOther        bool
	}{
		"2 requested, 8 of 8 used": {
			8, 8, 2, message + "<2>, total would be <10>, but capability is <8>", "the quota of the queue is in use.", true,
		},
		"2 requested, 7 of 8 used": {
			8, 7, 2, message + "<2>, total would be <9>, but capability is <8>", "too little of the quota of the queue is left.", true,
		},
		"3 requested, a quota of 2": {
			2, 0, 3, message + "<3>, total would be <3>, but capability is <2>", "it requests more than the whole quota of the queue.", false,
		},
		"3 requested, a quota of 2, and the scheduler states nothing": {
			2, 0, 3, "", "QuotaExhausted): it requests more than the whole quota of the queue. 1 pod has", false,
		},
		"6 requested, 0 of 8 used, 14 - 6 = 8 reserved": {
			8, 0, 6, message + "<6>, total would be <14>, but capability is <8>",
			"the quota of the queue is reserved for jobs that the scheduler has enqueued.", true,
		},
	}) {
		in := newWaitingJob(v1alpha1.BlockedQuotaExhausted, tc.message)
		in.Path = []*v1alpha1.CardQuota{newQuota("llm", tc.quota, tc.used)}
		in.Request.Count = card.Count(tc.requested)
		in.Entries[0].Holders = []v1alpha1.CardHolder{holder("other", "llm", 8)}

		text := textOf(in)
		check.Contains(t, "explanation", text, tc.want)
		check.Equal(t, "advises the end of job other", tc.wantsEndOfOther, strings.Contains(text, "When Job lab/other ends"))
	}
}

// TestARequestOfTwoCardsMayFitTheQuotaOfEither: a pod requests 6 cards, H200 or H800. The quota of H800 is 4, of which all
// are free, and that of H200 is 8, of which 1 is free. 6 fit into the whole quota of H200, so the request is not larger
// than the whole quota.
func TestARequestOfTwoCardsMayFitTheQuotaOfEither(t *testing.T) {
	in := newWaitingJob(v1alpha1.BlockedQuotaExhausted, "")
	in.Request.Names = []card.Name{"NVIDIA-H200", "NVIDIA-H800"}
	in.Request.Count = 6
	check.Text(t, "explanation", textOf(in)).Lacks("more than the whole quota")
}

// TestNoGateContradictsTheReason: the scheduler has refused a job for the quota of its queue. But 2 cards are requested,
// and the status says that enough are free. A gate is a line of the explanation about one thing that a pod must pass. Its
// answer Yes beside reason QuotaExhausted would confuse, so the gate of the quota says No or Unknown, and why.
func TestNoGateContradictsTheReason(t *testing.T) {
	const refusedFor5of3 = "Queue <llm> has insufficient <NVIDIA-H200> quota: requested <5>, total would be <5>, but capability is <3>"

	for t, tc := range check.Cases(t, map[string]struct {
		quota   int64
		message string
		want    string
	}{
		"3 of 3 free, refused for a pod of 5":               {3, refusedFor5of3, "quota of llm: No, 0/3 NVIDIA-H200 used, 3 free; the scheduler refuses 5 at once"},
		"9 of 9 free, refused for 5 when the quota was 3":   {9, refusedFor5of3, "quota of llm: Unknown, 0/9 NVIDIA-H200 used, 9 free; raised since the scheduler has tried it"},
		"3 of 3 free, and the scheduler's message is empty": {3, "", "quota of llm: Unknown, 0/3 NVIDIA-H200 used, 3 free; the scheduler has refused it"},
	}) {
		in := newWaitingJob(v1alpha1.BlockedQuotaExhausted, tc.message)
		in.Path = []*v1alpha1.CardQuota{newQuota("llm", tc.quota, 0)}
		check.Text(t, "explanation", textOf(in)).Has(tc.want).Lacks("quota of llm: Yes")
	}
}

// TestAGangWithoutEnoughPodsWaitsForThem: a gang needs 2 pods to start. If only one exists, the advice is about the
// controller that has to create the other. If both exist, it is about the pods that do not fit.
func TestAGangWithoutEnoughPodsWaitsForThem(t *testing.T) {
	in := newWaitingJob(v1alpha1.BlockedGangIncomplete, "pod group is not ready, 1 Pending, 2 minAvailable; Pending: 1 Unschedulable")
	in.PodGroup = "train-group"
	in.Gang = Gang{Minimum: 2, Pods: 1}
	check.Text(t, "one pod of two", textOf(in)).
		Has("(GangIncomplete): the gang needs 2 pods, 1 exists.",
			"gang: No, the gang needs 2 pods, 1 exists",
			"Job lab/train has to create 1 pod more. Its events say why it has not: kubectl -n lab describe job.batch.volcano.sh train.").
		Lacks("See why the other pods")

	in.Gang = Gang{Minimum: 2, Pods: 2}
	check.Contains(t, "two pods of two", textOf(in), "its pods fit, but others of its gang do not.", "See why the other pods of the gang wait")
}

// TestAdviceOnAGangFollowsItsController: a gang of 4 has 2 pods. What helps depends on its controller x. If the
// controller wants only 2, the user raises the field that says so, or lowers the minimum of the gang. A rolling update may
// create too few new pods at once. A controller that wants enough says in its events what keeps it from it. If it has
// reported a failure to create pods, the advice is about that failure alone.
func TestAdviceOnAGangFollowsItsController(t *testing.T) {
	const (
		surge = "spec.strategy.rollingUpdate.maxSurge to 4 or more"
		lower = "lower its annotation scheduling.volcano.sh/group-min-member to 2"
	)

	rollout := func(maxSurge, maxUnavailable int) *Rollout {
		return &Rollout{OldPods: 4, MaxSurge: maxSurge, MaxUnavailable: maxUnavailable, IsKnown: true}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		group, kind string
		scale       *Scale
		rollout     *Rollout
		failure     string // of the controller to create pods
		want        string
	}{
		"a Deployment of 2 replicas": {
			group: "apps", kind: "Deployment", scale: &Scale{Desired: 2, Field: "spec.replicas"},
			want: "Deployment lab/x wants 2 pods, and its gang needs 4: raise spec.replicas to 4, or " + lower + ": kubectl -n lab edit deployment x.",
		},
		"a Deployment of 2 replicas, in a rollout": {
			group: "apps", kind: "Deployment", scale: &Scale{Desired: 2, Field: "spec.replicas"}, rollout: rollout(4, 0),
			want: "raise spec.replicas to 4",
		},
		"4 replicas, and the rollout adds 1 and removes 1: 2 new pods at once": {
			group: "apps", kind: "Deployment", scale: &Scale{Desired: 4, Field: "spec.replicas"}, rollout: rollout(1, 1),
			want: "adds too few new pods at once for a gang of 4: set " + surge,
		},
		"4 replicas, and the rollout adds 4 at once": {
			group: "apps", kind: "Deployment", scale: &Scale{Desired: 4, Field: "spec.replicas"}, rollout: rollout(4, 0),
			want: "Its events say why it has not: kubectl -n lab describe deployment x.",
		},
		"4 replicas, and the rollout adds 3 and removes 1: 4 new pods at once": {
			group: "apps", kind: "Deployment", scale: &Scale{Desired: 4, Field: "spec.replicas"}, rollout: rollout(3, 1),
			want: "Its events say why it has not",
		},
		"4 old pods, and the strategy is not readable": {
			group: "apps", kind: "Deployment", rollout: &Rollout{OldPods: 4},
			want: "may add too few new pods at once for a gang of 4. If so, set " + surge,
		},
		"a ResourceQuota refuses the pods of a Deployment": {
			group: "apps", kind: "Deployment", scale: &Scale{Desired: 2, Field: "spec.replicas"}, failure: "exceeded quota: gpus",
			want: "A ResourceQuota of namespace lab refuses the pods",
		},
		"a StatefulSet of 4 that creates one pod after the other": {
			group: "apps", kind: "StatefulSet", scale: &Scale{Desired: 4, Field: "spec.replicas", IsOrdered: true},
			want: "create it again with spec.podManagementPolicy: Parallel, which cannot be changed",
		},
		"a StatefulSet of 4 that creates all pods at once": {
			group: "apps", kind: "StatefulSet", scale: &Scale{Desired: 4, Field: "spec.replicas"},
			want: "Its events say why it has not: kubectl -n lab describe statefulset x.",
		},
		"a DaemonSet on 2 nodes": {
			group: "apps", kind: "DaemonSet", scale: &Scale{Desired: 2},
			want: "its gang needs 4: " + lower + ": kubectl -n lab edit daemonset x.",
		},
		"a Job of parallelism 2": {
			group: "batch", kind: "Job", scale: &Scale{Desired: 2, Field: "spec.parallelism"},
			want: "raise spec.parallelism to 4, or " + lower + ": kubectl -n lab edit job.batch x.",
		},
		"a Job of 2 completions, which cannot be changed": {
			group: "batch", kind: "Job", scale: &Scale{Desired: 2, Field: "spec.completions", IsImmutable: true},
			want: lower + ", or create it again with spec.completions: 4",
		},
		"a Volcano job of 4 replicas": {
			group: "batch.volcano.sh", kind: "Job", scale: &Scale{Desired: 4, Field: "the replicas of its tasks"},
			want: "Its events say why it has not: kubectl -n lab describe job.batch.volcano.sh x.",
		},
		"a Volcano job of 2 replicas": {
			group: "batch.volcano.sh", kind: "Job", scale: &Scale{Desired: 2, Field: "the replicas of its tasks"},
			want: "raise the replicas of its tasks, or lower spec.minAvailable to 2: kubectl -n lab edit job.batch.volcano.sh x.",
		},
		"a controller that is not known": {
			group: "kubeflow.org", kind: "PyTorchJob",
			want: "PyTorchJob lab/x has to create 2 pods more.",
		},
	}) {
		in := newWaitingJob(v1alpha1.BlockedGangIncomplete, "")
		in.Workload = v1alpha1.WorkloadReference{APIGroup: tc.group, Kind: tc.kind, Namespace: "lab", Name: "x"}
		in.Gang = Gang{Minimum: 4, Pods: 2}
		in.PodGroup = "g"
		in.Scale = tc.scale
		in.Rollout = tc.rollout
		if tc.failure != "" {
			in.Creation = &Creation{Missing: 2, Failure: tc.failure}
		}

		advice := Explain(in).Advice
		check.Must(t, len(advice) == 1, "more or less than one advice: %q", advice)
		check.Contains(t, "advice", advice[0], tc.want)
	}
}

// TestARolloutMayWaitForItsOwnOldPods: a Deployment rolls out, and its new pods wait for cards that its old
// pods use. With maxSurge 1 and maxUnavailable 0 the Deployment ends no old pod before a new one is ready, so
// it waits for ever. The advice is a command that lets the Deployment end an old pod first. The rollout has 2
// old pods (OldPods). Unless the row says otherwise, both use cards that the new pods request (CardPods), 2
// in all (OldCards).
func TestARolloutMayWaitForItsOwnOldPods(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		rollout Rollout
		reason  v1alpha1.BlockedReason
		want    bool
	}{
		"waits for quota of cards":     {Rollout{OldPods: 2, CardPods: 2, OldCards: 2, MaxSurge: 1, IsKnown: true}, v1alpha1.BlockedQuotaExhausted, true},
		"waits for cards of nodes":     {Rollout{OldPods: 2, CardPods: 2, OldCards: 2, MaxSurge: 1, IsKnown: true}, v1alpha1.BlockedNoFreeCard, true},
		"the strategy is not readable": {Rollout{OldPods: 2, CardPods: 2, OldCards: 2}, v1alpha1.BlockedQuotaExhausted, true},
		"waits for CPU of old pods":    {Rollout{OldPods: 2, MaxSurge: 1, IsKnown: true}, v1alpha1.BlockedCPUQuotaExhausted, true},
		"maxUnavailable 1: it ends an old pod first": {
			Rollout{OldPods: 2, CardPods: 2, OldCards: 2, MaxUnavailable: 1, IsKnown: true}, v1alpha1.BlockedQuotaExhausted, false,
		},
		"there are no old pods":                      {Rollout{MaxSurge: 1, IsKnown: true}, v1alpha1.BlockedQuotaExhausted, false},
		"waits for quota, old pods use other cards":  {Rollout{OldPods: 2, MaxSurge: 1, IsKnown: true}, v1alpha1.BlockedQuotaExhausted, false},
		"waits for nodes, old pods use other cards":  {Rollout{OldPods: 2, MaxSurge: 1, IsKnown: true}, v1alpha1.BlockedNoFreeCard, false},
		"the queue is stopped: old pods do not help": {Rollout{OldPods: 2, CardPods: 2, OldCards: 2, MaxSurge: 1, IsKnown: true}, v1alpha1.BlockedQueueStopped, false},
	}) {
		in := newWaitingJob(tc.reason, "")
		in.Workload = v1alpha1.WorkloadReference{APIGroup: "apps", Kind: "Deployment", Namespace: "lab", Name: "web"}
		in.Rollout = &tc.rollout

		text := textOf(in)
		const patch = `kubectl -n lab patch deployment web -p '{"spec":{"strategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1}}}}'`
		check.Equal(t, "says that the rollout waits for old pods", tc.want, strings.Contains(text, "Its rollout waits for its own old pods."))
		check.Equal(t, "advises to end an old pod first", tc.want, strings.Contains(text, patch))
	}
}

// TestARolloutWithTooLargePodsAwaitsNoOldOnes: the quota of the queue is 8, and old pods of the Deployment use 2 of them.
// A new pod of 9 cards would not fit even without the old pods, so the explanation does not name them.
func TestARolloutWithTooLargePodsAwaitsNoOldOnes(t *testing.T) {
	for requested, want := range map[card.Count]bool{8: true, 9: false} {
		in := newWaitingJob(v1alpha1.BlockedQuotaExhausted, "")
		in.Workload = v1alpha1.WorkloadReference{APIGroup: "apps", Kind: "Deployment", Namespace: "lab", Name: "web"}
		in.Request.Count = requested
		in.Rollout = &Rollout{OldPods: 2, CardPods: 2, OldCards: 2, MaxSurge: 1, IsKnown: true}
		check.Equal(t, fmt.Sprint(requested, " of 8 requested"), want, strings.Contains(textOf(in), "old pod"))
	}
}

// TestJobsThatReserveTheQuotaAreNamed: the quota of 8 is not used, but reserved by jobs that the scheduler has enqueued.
// Two of them are known: PodGroup flow with 4 cards and no pods, and job gang of namespace secret with 3 cards and pods
// that wait. A user who may not read that namespace does not see its name.
func TestJobsThatReserveTheQuotaAreNamed(t *testing.T) {
	gang := ofJob("gang")
	gang.Namespace = "secret"
	flow := v1alpha1.WorkloadReference{APIGroup: "scheduling.volcano.sh", Kind: "PodGroup", Namespace: "lab", Name: "flow"}
	in := cases["QuotaExhausted-reserved"]()
	in.Reservations = []Reservation{
		{Workload: flow, PodGroup: "flow", Count: 4, Card: "NVIDIA-H200"},
		{Workload: gang, PodGroup: "gang-1", Count: 3, Card: "NVIDIA-H200|NVIDIA-H800", HasPods: true},
	}

	check.Text(t, "to an administrator", textOf(in)).
		Has("Enqueued jobs have reserved 8 NVIDIA-H200: they are free again when these jobs end, or lose their reservation (docs/scheduler.md says when).",
			"PodGroup lab/flow waits for 4 NVIDIA-H200 and has no pods. If nothing creates them, delete it: "+
				"kubectl -n lab delete podgroup.scheduling.volcano.sh flow.",
					"Job secret/gang (PodGroup gang-1) waits for 3 NVIDIA-H200 or NVIDIA-H800.").
		Lacks("five minutes") // after which a job without progress loses its reservation: it may also last longer

	in.NamesOthers = false
	check.Text(t, "to a tenant", textOf(in)).
		Has("PodGroup lab/flow waits for 4", "A job of another namespace waits for 3 NVIDIA-H200").
		Lacks("secret")
}

// TestReservationsAreNoMoreThanAll: 8 cards are reserved, and three jobs of 6 cards each wait, so some of them have lost
// their reservation. The advice names jobs until the 8 cards are explained: a with 6, and b with the 2 that remain.
func TestReservationsAreNoMoreThanAll(t *testing.T) {
	in := cases["QuotaExhausted-reserved"]()
	for _, name := range []string{"a", "b", "c"} {
		in.Reservations = append(in.Reservations, Reservation{Workload: ofJob(name), PodGroup: name, Count: 6, Card: "NVIDIA-H200", HasPods: true})
	}
	check.Text(t, "explanation", textOf(in)).
		Has("have reserved 8 NVIDIA-H200", "Job lab/a (PodGroup a) waits for 6 NVIDIA-H200.", "Job lab/b (PodGroup b) waits for 2 NVIDIA-H200.").
		Lacks("Job lab/c")
}

// TestAPodGroupThatComesAgainIsNotDeleted: a PodGroup without pods reserves cards, and its controller, Volcano job flow,
// would create it again if a user deleted it. So the advice is about the controller.
func TestAPodGroupThatComesAgainIsNotDeleted(t *testing.T) {
	in := cases["QuotaExhausted-reserved"]()
	in.Reservations = []Reservation{{Workload: ofJob("flow"), PodGroup: "flow-1", Count: 4, Card: "NVIDIA-H200"}}
	check.Text(t, "advice", textOf(in)).
		Has("Job lab/flow (PodGroup flow-1) waits for 4 NVIDIA-H200 and has no pods. See why its controller creates none: " +
			"kubectl -n lab describe job.batch.volcano.sh flow.").
		Lacks("delete")
}

// TestADeletedCardQuotaGivesNothing: a CardQuota that is being deleted stays until its pods have ended, with a quota of 0.
// An edit has no effect any more, and is not advised, whichever of the two reasons the scheduler states.
func TestADeletedCardQuotaGivesNothing(t *testing.T) {
	for _, reason := range []v1alpha1.BlockedReason{v1alpha1.BlockedNoQuota, v1alpha1.BlockedQuotaExhausted} {
		in := newWaitingJob(reason, "Queue <llm> has insufficient <NVIDIA-H200> quota: requested <2>, total would be <3>, but capability is <0>")
		in.Path[0].DeletionTimestamp = ptr.To(metav1.NewTime(at))
		check.Text(t, "explanation", textOf(in)).
			Has("CardQuota llm is being deleted, and its queue gives no more cards.", "quota of llm: No, it is being deleted", "A change of CardQuota llm has no effect any more.").
			Lacks("kubectl edit")
	}
}

// TestPodsWithoutTheirPodGroupAreToBeDeleted: Volcano schedules a pod only by its PodGroup, and PodGroup gone of two pods
// does not exist. If the user deletes the pods, their controller creates new ones with a new PodGroup. The user has to
// create a pod without a controller again.
func TestPodsWithoutTheirPodGroupAreToBeDeleted(t *testing.T) {
	in := newWaitingJob(v1alpha1.BlockedPodGroupNotFound, "PodGroup <lab/gone> does not exist")
	in.PodGroup = "other" // of pods of the job that are not among these two
	in.Orphans = []string{"train-0", "train-1"}
	in.OrphanGroups = []string{"gone"}
	check.Contains(t, "pods of a job", textOf(in), "the PodGroup that the pod names does not exist.", "PodGroup gone: No, it does not exist",
		"Delete the pod: kubectl -n lab delete pod train-0 train-1. Its controller creates another one.")

	in.Workload.Kind = "Pod"
	check.Contains(t, "a pod without a controller", textOf(in),
		"create it again without annotation scheduling.k8s.io/group-name, or create PodGroup gone.")
}

// TestAWorkloadWithoutPodsSaysWhyItHasNone: pods of Deployment web do not exist, so the scheduler states nothing about
// them. The explanation has the failure that the controller reports, or that the controller wants no pods, which is no
// waiting.
func TestAWorkloadWithoutPodsSaysWhyItHasNone(t *testing.T) {
	const edit = "kubectl -n lab edit deployment web"

	for t, tc := range check.Cases(t, map[string]struct {
		creation  Creation
		placed    int
		wantWaits bool
		want      string
	}{
		"2 missing: they name another scheduler": {
			creation: Creation{Missing: 2, Failure: `pods "web-0" is forbidden: write spec.schedulerName: volcano`}, wantWaits: true,
			want: `Deployment lab/web has no pods: its controller could not create them. It says: pods "web-0" is forbidden: write spec.schedulerName: volcano.` +
				"\nWrite schedulerName: volcano into the spec of the pod template: " + edit + ".",
		},
		"2 missing: a ResourceQuota refuses them": {
			creation: Creation{Missing: 2, Failure: `pods "web-0" is forbidden: exceeded quota: gpus`}, wantWaits: true,
			want: "A ResourceQuota of namespace lab refuses the pods",
		},
		"1 runs, 1 is missing": {
			creation: Creation{Missing: 1, Failure: "full"}, placed: 1, wantWaits: true,
			want: "1 pod has its place. Its controller could not create 1 pod more. It says: full.\nCorrect the pod template as the message says: " + edit + ".",
		},
		"2 missing, and the controller reports nothing": {
			creation: Creation{Missing: 2}, wantWaits: true,
			want: "has no pods: its controller has created none yet." +
				"\nAsk again in a few seconds. If this stays, the events of the workload say more: kubectl -n lab describe deployment web.",
		},
		"the Deployment wants 0 pods": {
			creation: Creation{}, want: "Deployment lab/web does not wait: it wants no pods now.",
		},
		"2 missing, and it is suspended": {
			creation: Creation{Missing: 2, IsSuspended: true}, want: "Deployment lab/web does not wait: it is suspended, so it ",
		},
	}) {
		web := v1alpha1.WorkloadReference{APIGroup: "apps", Kind: "Deployment", Namespace: "lab", Name: "web"}
		in := Input{Workload: web, Creation: &tc.creation, Placed: tc.placed}
		check.Contains(t, "explanation", textOf(in), tc.want)
		check.Equal(t, "waits", tc.wantWaits, Explain(in).Waits)
	}
}

// TestAdviceOnPodsThatCouldNotBeCreated: the controller of workload x could not create a pod, and reports why. Of a
// Deployment the user edits the pod template. That of a job cannot be changed, so the user creates the job again. A webhook
// that does not answer, the API server and the namespace are other causes than the template.
func TestAdviceOnPodsThatCouldNotBeCreated(t *testing.T) {
	const (
		scheduler = "pod names schedulerName default-scheduler: write schedulerName: volcano"
		denied    = `admission webhook "workloads.cardquota.dev" denied the request: unknown card`
		cardquota = "workloads.cardquota.dev"
		other     = "inject.example.com"
	)
	notAnswering := func(webhook, failure string) string {
		return fmt.Sprintf(`Internal error occurred: failed calling webhook "%s": failed to call webhook: Post "https://svc:443/pods": %s`, webhook, failure)
	}

	for t, tc := range check.Cases(t, map[string]struct {
		group, kind string
		failure     string
		want        string
	}{
		"a Deployment names another scheduler": {
			group: "apps", kind: "Deployment", failure: scheduler,
			want: "Write schedulerName: volcano into the spec of the pod template: kubectl -n lab edit deployment x.",
		},
		"a Job names another scheduler": {
			group: "batch", kind: "Job", failure: scheduler,
			want: "cannot be changed. Delete it, and create it again with schedulerName: volcano in the spec of the pod template: kubectl -n lab delete job.batch x.",
		},
		"a Volcano job names another scheduler": {
			group: "batch.volcano.sh", kind: "Job", failure: scheduler,
			want: "create it again with spec.schedulerName: volcano: kubectl -n lab delete job.batch.volcano.sh x.",
		},
		"the webhook denies the pod of a Deployment": {
			group: "apps", kind: "Deployment", failure: denied,
			want: "Correct the pod template as the message says: kubectl -n lab edit deployment x.",
		},
		"the webhook denies the pod of a Job": {
			group: "batch", kind: "Job", failure: denied,
			want: "create it again with a template corrected as the message says: kubectl -n lab delete job.batch x.",
		},
		"the webhook denies the pod of a Volcano job": {
			group: "batch.volcano.sh", kind: "Job", failure: denied,
			want: "kubectl -n lab delete job.batch.volcano.sh x.",
		},
		"the webhook of Cardquota refuses connections": {
			group: "apps", kind: "Deployment", failure: notAnswering(cardquota, "dial tcp: connection refused"),
			want: "Webhook workloads.cardquota.dev does not answer: kubectl cardquota doctor says why",
		},
		"the webhook of Cardquota has no endpoints": {
			group: "batch", kind: "Job", failure: notAnswering(cardquota, `no endpoints available for service "svc"`),
			want: "kubectl cardquota doctor says why",
		},
		"the webhook of Cardquota takes too long": {
			group: "batch.volcano.sh", kind: "Job", failure: notAnswering(cardquota, "context deadline exceeded"),
			want: "kubectl cardquota doctor says why",
		},
		"another webhook does not answer, because of a quota of its own": {
			group: "apps", kind: "StatefulSet", failure: notAnswering(other, "exceeded quota of connections"),
			want: "Webhook inject.example.com does not answer: ask the administrator to see why.",
		},
		"a webhook does not answer, and the message has no name": {
			group: "apps", kind: "Deployment", failure: "failed to call webhook: connection refused",
			want: "The pod template is not the cause. Webhook does not answer: ask",
		},
		"the store of the API server does not answer": {
			group: "apps", kind: "Deployment", failure: "etcdserver: request timed out",
			want: "The pod template is not the cause, and the controller tries again.",
		},
		"the namespace is being deleted": {
			group: "apps", kind: "Deployment", failure: "unable to create new content in namespace lab because it is being terminated",
			want: "Namespace lab is being deleted",
		},
		"the ServiceAccount does not exist": {
			group: "batch", kind: "Job", failure: `error looking up service account lab/x: serviceaccount "x" not found`,
			want: "Create the ServiceAccount that the pod template names.",
		},
	}) {
		workload := v1alpha1.WorkloadReference{APIGroup: tc.group, Kind: tc.kind, Namespace: "lab", Name: "x"}
		advice := Explain(Input{Workload: workload, Creation: &Creation{Missing: 1, Failure: tc.failure}}).Advice
		check.Must(t, len(advice) == 1, "more or less than one advice: %q", advice)
		check.Contains(t, "advice", advice[0], tc.want)
	}
}

// TestTheLastEvictionIsInTheSummary: a job was evicted 12 and 50 minutes ago. A user wants to know why its pods wait, or
// why they have begun again. So the summary has the message of the last eviction, and how many more there were.
func TestTheLastEvictionIsInTheSummary(t *testing.T) {
	evictions := []Eviction{
		{at.Add(-12 * time.Minute), "2 card(s) are reclaimed for 1 job of service type inference."},
		{at.Add(-50 * time.Minute), "earlier"},
	}

	waits := newWaitingJob(v1alpha1.BlockedNoFreeCard, "")
	waits.Evictions = evictions
	check.Contains(t, "summary of a job that waits", Explain(waits).Summary,
		" Its last eviction was 12m ago: 2 card(s) are reclaimed for 1 job of service type inference. Events tell of 1 more.")

	runs := Input{Now: at, Workload: ofJob("train"), Placed: 4, Evictions: evictions[:1]}
	check.Contains(t, "summary of a job that runs again", Explain(runs).Summary, "does not wait: 4 pods have their place. Its last eviction was 12m ago")
}

// TestASchedulerThatStaysSilentIsADoctorsCase: the scheduler states a reason within seconds. If it has stated none for a
// minute, it may not run, and kubectl cardquota doctor finds out.
func TestASchedulerThatStaysSilentIsADoctorsCase(t *testing.T) {
	in := newWaitingJob("", "")
	in.Entries = nil // no reason is stated
	in.Created = at.Add(-10 * time.Second)
	check.Contains(t, "10 seconds after the pod was created", textOf(in), "Ask again in a few seconds.")

	in.Created = at.Add(-75 * time.Second)
	check.Contains(t, "75 seconds after the pod was created", textOf(in),
		"The scheduler is silent since the pod was created 75s ago: kubectl cardquota doctor says whether it runs.")
}
