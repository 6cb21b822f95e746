package explanation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardinventory"
	"cardquota.dev/operator/internal/testing/check"
)

// textOf returns all that an explanation says.
func textOf(in Input) string {
	d := Explain(in)
	lines := append([]string{d.Summary}, d.Advice...)
	for _, gate := range d.Gates {
		lines = append(lines, gate.Name+": "+string(gate.Answer)+", "+gate.Detail)
	}
	return strings.Join(lines, "\n")
}

// TestAQuotaIsInUseOnlyIfItIs: the summary says in which way a quota is exhausted.
func TestAQuotaIsInUseOnlyIfItIs(t *testing.T) {
	const message = "Queue <llm> has insufficient <NVIDIA-H200> quota: requested "
	for want, tc := range map[string]struct {
		quota, used, requested int64
		message                string
	}{
		"the quota of the queue is in use.":                                              {8, 8, 2, message + "<2>, total would be <10>, but capability is <8>"},
		"too little of the quota of the queue is left.":                                  {8, 7, 2, message + "<2>, total would be <9>, but capability is <8>"},
		"it requests more than the whole quota of the queue.":                            {2, 0, 3, message + "<3>, total would be <3>, but capability is <2>"},
		"the quota of the queue is reserved for jobs that the scheduler has enqueued.":   {8, 0, 6, message + "<6>, total would be <14>, but capability is <8>"},
		"QuotaExhausted): it requests more than the whole quota of the queue. 1 pod has": {2, 1, 3, ""},
	} {
		in := waiting(v1alpha1.BlockedQuotaExhausted, tc.message)
		in.Path = []*v1alpha1.CardQuota{granted("llm", tc.quota, tc.used)}
		in.Request.Count = card.Count(tc.requested)
		in.Entries[0].Holders = []v1alpha1.CardHolder{holder("other", "llm", 8)}
		text := textOf(in)
		check.Contains(t, want, text, want)
		isTooMuch := tc.requested > tc.quota
		check.Equal(t, want+": the end of another helps", !isTooMuch, strings.Contains(text, "When Job lab/other ends"))
	}

	other := waiting(v1alpha1.BlockedQuotaExhausted, "") // one card has a large quota, another one more left
	other.Request.Names = []card.Name{"NVIDIA-H200", "NVIDIA-H800"}
	other.Request.Count = 6
	check.That(t, !strings.Contains(textOf(other), "more than the whole quota"), "it fits the quota of H200: %s", textOf(other))
}

// TestNoGateContradictsTheReason: a reason that says quota never stands beside a quota that says Yes.
func TestNoGateContradictsTheReason(t *testing.T) {
	const refused = "Queue <llm> has insufficient <NVIDIA-H200> quota: requested <5>, total would be <5>, but capability is <3>"
	for name, tc := range map[string]struct {
		quota   int64
		message string
		want    string
	}{
		"refused for a larger pod":    {3, refused, "quota of llm: No, 0/3 NVIDIA-H200 used, 3 free; the scheduler refuses 5 at once"},
		"raised since":                {9, refused, "quota of llm: Unknown, 0/9 NVIDIA-H200 used, 9 free; raised since the scheduler has tried it"},
		"without the words of quotas": {3, "", "quota of llm: Unknown, 0/3 NVIDIA-H200 used, 3 free; the scheduler has refused it"},
	} {
		in := waiting(v1alpha1.BlockedQuotaExhausted, tc.message)
		in.Path = []*v1alpha1.CardQuota{granted("llm", tc.quota, 0)}
		check.Contains(t, name, textOf(in), tc.want)

		isYes := func(g Gate) bool { return g.Name == "quota of llm" && g.Answer == Yes }
		check.That(t, !slices.ContainsFunc(Explain(in).Gates, isYes), "%s: %+v", name, Explain(in).Gates)
	}
}

func TestAGangOfTooFewPods(t *testing.T) {
	in := waiting(v1alpha1.BlockedGangIncomplete, "pod group is not ready, 1 Pending, 2 minAvailable; Pending: 1 Unschedulable")
	in.Gang = Gang{Minimum: 2, Pods: 1}
	in.PodGroup = "train-group"
	check.Text(t, "explanation", textOf(in)).
		Has("(GangIncomplete): the gang needs 2 pods, 1 exists.", "gang: No, the gang needs 2 pods, 1 exists",
						"Job lab/train has to create 1 pod more. Its events say why it has not: kubectl -n lab describe job.batch.volcano.sh train.").
		Lacks("See why the other pods") // there are no others

	in.Workload.Kind = "Deployment"
	in.Rollout = &Rollout{OldPods: 2, MaxSurge: 1, IsKnown: true}
	in.Gang = Gang{Minimum: 2, Pods: 2}
	in.Rollout = nil
	check.Contains(t, "enough pods", textOf(in), "its pods fit, but others of its gang do not.", "See why the other pods of the gang wait")
}

// TestAdviceOnAGangFollowsItsController: each kind has its own field, and more replicas do not help where
// the controller wants enough.
func TestAdviceOnAGangFollowsItsController(t *testing.T) {
	const (
		surge = "spec.strategy.rollingUpdate.maxSurge to 4 or more"
		lower = "lower its annotation scheduling.volcano.sh/group-min-member to 2"
	)

	rollout := func(surge, unavailable int) *Rollout {
		return &Rollout{OldPods: 4, MaxSurge: surge, MaxUnavailable: unavailable, IsKnown: true}
	}
	for name, tc := range map[string]struct {
		group, kind string
		scale       *Scale
		rollout     *Rollout
		failure     string
		want        string
	}{
		"a small Deployment":         {"apps", "Deployment", &Scale{Desired: 2, Field: "spec.replicas"}, nil, "", "Deployment lab/x wants 2 pods, and its gang needs 4: raise spec.replicas to 4, or " + lower + ": kubectl -n lab edit deployment x."},
		"a small rollout":            {"apps", "Deployment", &Scale{Desired: 2, Field: "spec.replicas"}, rollout(4, 0), "", "raise spec.replicas to 4"},
		"a slow rollout":             {"apps", "Deployment", &Scale{Desired: 4, Field: "spec.replicas"}, rollout(1, 1), "", "adds too few new pods at once for a gang of 4: set " + surge},
		"a rollout of enough":        {"apps", "Deployment", &Scale{Desired: 4, Field: "spec.replicas"}, rollout(4, 0), "", "Its events say why it has not: kubectl -n lab describe deployment x."},
		"one that ends pods, too":    {"apps", "Deployment", &Scale{Desired: 4, Field: "spec.replicas"}, rollout(3, 1), "", "Its events say why it has not"},
		"an unknown rollout":         {"apps", "Deployment", nil, &Rollout{OldPods: 4}, "", "may add too few new pods at once for a gang of 4. If so, set " + surge},
		"refused pods":               {"apps", "Deployment", &Scale{Desired: 2, Field: "spec.replicas"}, nil, "exceeded quota: gpus", "A ResourceQuota of namespace lab refuses the pods"},
		"an ordered StatefulSet":     {"apps", "StatefulSet", &Scale{Desired: 4, Field: "spec.replicas", IsOrdered: true}, nil, "", "create it again with spec.podManagementPolicy: Parallel, which cannot be changed"},
		"a parallel StatefulSet":     {"apps", "StatefulSet", &Scale{Desired: 4, Field: "spec.replicas"}, nil, "", "Its events say why it has not: kubectl -n lab describe statefulset x."},
		"a DaemonSet":                {"apps", "DaemonSet", &Scale{Desired: 2}, nil, "", "its gang needs 4: " + lower + ": kubectl -n lab edit daemonset x."},
		"a Job":                      {"batch", "Job", &Scale{Desired: 2, Field: "spec.parallelism"}, nil, "", "raise spec.parallelism to 4, or " + lower + ": kubectl -n lab edit job.batch x."},
		"a Job of few completions":   {"batch", "Job", &Scale{Desired: 2, Field: "spec.completions", IsImmutable: true}, nil, "", lower + ", or create it again with spec.completions: 4"},
		"a Volcano job":              {"batch.volcano.sh", "Job", &Scale{Desired: 4, Field: "the replicas of its tasks"}, nil, "", "Its events say why it has not: kubectl -n lab describe job.batch.volcano.sh x."},
		"a Volcano job of few tasks": {"batch.volcano.sh", "Job", &Scale{Desired: 2, Field: "the replicas of its tasks"}, nil, "", "raise the replicas of its tasks, or lower spec.minAvailable to 2: kubectl -n lab edit job.batch.volcano.sh x."},
		"another controller":         {"kubeflow.org", "PyTorchJob", nil, nil, "", "PyTorchJob lab/x has to create 2 pods more."},
	} {
		in := waiting(v1alpha1.BlockedGangIncomplete, "")
		in.Workload = v1alpha1.WorkloadReference{APIGroup: tc.group, Kind: tc.kind, Namespace: "lab", Name: "x"}
		in.Gang = Gang{Minimum: 4, Pods: 2}
		in.PodGroup = "g"
		in.Scale = tc.scale
		in.Rollout = tc.rollout
		if tc.failure != "" {
			in.Creation = &Creation{Missing: 2, Failure: tc.failure}
		}

		advice := Explain(in).Advice
		check.Equal(t, name+": one advice", 1, len(advice))
		check.Contains(t, name, strings.Join(advice, " "), tc.want)
	}
}

func TestARolloutAwaitsItsOldPods(t *testing.T) {
	for name, tc := range map[string]struct {
		rollout Rollout
		reason  v1alpha1.BlockedReason
		want    bool
	}{
		"default of two replicas": {Rollout{OldPods: 2, CardPods: 2, OldCards: 2, MaxSurge: 1, IsKnown: true}, v1alpha1.BlockedQuotaExhausted, true},
		"the cards of the nodes":  {Rollout{OldPods: 2, CardPods: 2, OldCards: 2, MaxSurge: 1, IsKnown: true}, v1alpha1.BlockedNoFreeCard, true},
		"CPU":                     {Rollout{OldPods: 2, MaxSurge: 1, IsKnown: true}, v1alpha1.BlockedCPUQuotaExhausted, true},
		"not readable":            {Rollout{OldPods: 2, CardPods: 2, OldCards: 2}, v1alpha1.BlockedQuotaExhausted, true},
		"it ends old pods first":  {Rollout{OldPods: 2, CardPods: 2, OldCards: 2, MaxUnavailable: 1, IsKnown: true}, v1alpha1.BlockedQuotaExhausted, false},
		"without old pods":        {Rollout{MaxSurge: 1, IsKnown: true}, v1alpha1.BlockedQuotaExhausted, false},
		"old pods of other cards": {Rollout{OldPods: 2, MaxSurge: 1, IsKnown: true}, v1alpha1.BlockedQuotaExhausted, false},
		"other cards of nodes":    {Rollout{OldPods: 2, MaxSurge: 1, IsKnown: true}, v1alpha1.BlockedNoFreeCard, false},
		"another reason":          {Rollout{OldPods: 2, CardPods: 2, OldCards: 2, MaxSurge: 1, IsKnown: true}, v1alpha1.BlockedQueueStopped, false},
	} {
		in := waiting(tc.reason, "")
		in.Workload = v1alpha1.WorkloadReference{APIGroup: "apps", Kind: "Deployment", Namespace: "lab", Name: "web"}
		in.Rollout = &tc.rollout

		text := textOf(in)
		for _, words := range []string{"Its rollout waits for its own old pods.", `kubectl -n lab patch deployment web -p '{"spec":{"strategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1}}}}'`} {
			check.Equal(t, name+": "+words, tc.want, strings.Contains(text, words))
		}
	}
}

// TestARolloutWithTooLargePodsAwaitsNoOldOnes: their end would not be enough.
func TestARolloutWithTooLargePodsAwaitsNoOldOnes(t *testing.T) {
	for requested, want := range map[int64]bool{8: true, 9: false} {
		in := waiting(v1alpha1.BlockedQuotaExhausted, "")
		in.Workload = v1alpha1.WorkloadReference{APIGroup: "apps", Kind: "Deployment", Namespace: "lab", Name: "web"}
		in.Request.Count = card.Count(requested)
		in.Rollout = &Rollout{OldPods: 2, CardPods: 2, OldCards: 2, MaxSurge: 1, IsKnown: true}
		check.Equal(t, fmt.Sprint(requested, " of 8"), want, strings.Contains(textOf(in), "old pod"))
	}
}

func TestReservationsAreNamed(t *testing.T) {
	in := cases["QuotaExhausted-reserved"]()
	flow := v1alpha1.WorkloadReference{APIGroup: "scheduling.volcano.sh", Kind: "PodGroup", Namespace: "lab", Name: "flow"}
	other := ofJob("gang")
	other.Namespace = "secret"
	in.Reservations = []Reservation{{flow, "flow", 4, "NVIDIA-H200", false}, {other, "gang-1", 3, "NVIDIA-H200|NVIDIA-H800", true}}

	text := textOf(in)
	check.Text(t, "advice", text).
		Has("Enqueued jobs have reserved 8 NVIDIA-H200: they are free again when these jobs end, or lose their reservation (docs/scheduler.md says when).",
					"PodGroup lab/flow waits for 4 NVIDIA-H200 and has no pods. If nothing creates them, delete it: kubectl -n lab delete podgroup.scheduling.volcano.sh flow.",
					"Job secret/gang (PodGroup gang-1) waits for 3 NVIDIA-H200 or NVIDIA-H800.").
		Lacks("five minutes") // it may be an hour

	in.NamesOthers = false
	text = textOf(in)
	check.Text(t, "to a tenant", text).
		Has("PodGroup lab/flow waits for 4", "A job of another namespace waits for 3 NVIDIA-H200").
		Lacks("secret")
}

// TestReservationsAreNoMoreThanAll: some of the jobs that wait have lost their reservation.
func TestReservationsAreNoMoreThanAll(t *testing.T) {
	in := cases["QuotaExhausted-reserved"]()
	for _, name := range []string{"a", "b", "c"} {
		in.Reservations = append(in.Reservations, Reservation{ofJob(name), name, 6, "NVIDIA-H200", true})
	}
	check.Text(t, "advice", textOf(in)).
		Has("have reserved 8 NVIDIA-H200", "Job lab/a (PodGroup a) waits for 6 NVIDIA-H200.", "Job lab/b (PodGroup b) waits for 2 NVIDIA-H200.").
		Lacks("Job lab/c") // nothing is left for it
}

// TestAPodGroupThatComesAgainIsNotDeleted: its controller would make another one.
func TestAPodGroupThatComesAgainIsNotDeleted(t *testing.T) {
	in := cases["QuotaExhausted-reserved"]()
	in.Reservations = []Reservation{{ofJob("flow"), "flow-1", 4, "NVIDIA-H200", false}}
	in.Reservations[0].Workload.APIGroup = "batch.volcano.sh"
	check.Text(t, "advice", textOf(in)).
		Has("Job lab/flow (PodGroup flow-1) waits for 4 NVIDIA-H200 and has no pods. See why its controller creates none: kubectl -n lab describe job.batch.volcano.sh flow.").
		Lacks("delete")
}

func TestADeletedCardQuotaGivesNothing(t *testing.T) {
	for _, reason := range []v1alpha1.BlockedReason{v1alpha1.BlockedNoQuota, v1alpha1.BlockedQuotaExhausted} {
		in := waiting(reason, "Queue <llm> has insufficient <NVIDIA-H200> quota: requested <2>, total would be <3>, but capability is <0>")
		deleted := metav1.NewTime(at)
		in.Path[0].DeletionTimestamp = &deleted
		check.Text(t, "explanation", textOf(in)).
			Has("CardQuota llm is being deleted, and its queue gives no more cards.", "quota of llm: No, it is being deleted", "A change of CardQuota llm has no effect any more.").
			Lacks("kubectl edit") // an edit has no effect
	}
}

func TestPodsWithoutTheirPodGroup(t *testing.T) {
	in := waiting(v1alpha1.BlockedPodGroupNotFound, "PodGroup <lab/gone> does not exist")
	in.PodGroup = "other"
	in.Orphans = []string{"train-0", "train-1"}
	in.OrphanGroups = []string{"gone"}
	check.Contains(t, "explanation", textOf(in), "the PodGroup that the pod names does not exist.", "PodGroup gone: No, it does not exist",
		"Delete the pod: kubectl -n lab delete pod train-0 train-1. Its controller creates another one.")
	in.Workload.Kind = "Pod"
	check.Contains(t, "of no controller", textOf(in), "create it again without annotation scheduling.k8s.io/group-name, or create PodGroup gone.")
}

// TestACardThatIsNotNamedYet: correcting the name would not help.
func TestACardThatIsNotNamedYet(t *testing.T) {
	in := cases["UnknownCard"]()
	in.Request.Names = []card.Name{"NVIDIA-B300"}
	in.Request.Resource = "nvidia.com/gpu"
	in.Inventory.Anomalies = []v1alpha1.InventoryAnomaly{
		{Reason: v1alpha1.AnomalyNoModelLabel, Resource: "nvidia.com/gpu", Count: 8, Message: "node new: offers nvidia.com/gpu but no label names it; add the labels"},
		{Reason: v1alpha1.AnomalyNoModelLabel, Resource: "huawei.com/Ascend910", Count: 8, Message: "node npu: offers another resource"},
	}

	check.Text(t, "explanation", textOf(in)).
		Has("no node has this card, or it is not named yet.", "no node has NVIDIA-B300 (not named yet: 8 nvidia.com/gpu)",
			"The card may not be named yet: node new: offers nvidia.com/gpu but no label names it; add the labels. The workload starts by itself when its node has the right labels.").
		Lacks("Correct the name", "npu", "Did you mean")

	in.Inventory.Anomalies = nil
	check.Contains(t, "without such nodes", textOf(in), "Correct the name. Nodes have NVIDIA-H200, NVIDIA-H800.")
	in.Request.Names = []card.Name{"H200"}
	check.Contains(t, "without the vendor", textOf(in), "Did you mean NVIDIA-H200? Write volcano.sh/card.name: NVIDIA-H200 instead of H200.")
}

// TestARightNameIsNotCorrected: the labels of nodes are wrong.
func TestARightNameIsNotCorrected(t *testing.T) {
	anomaly := func(reason v1alpha1.AnomalyReason, resource, card, message string) v1alpha1.InventoryAnomaly {
		return v1alpha1.InventoryAnomaly{Reason: reason, Resource: resource, Card: card, Count: 10, Message: message}
	}

	const right = "The name NVIDIA-H20 is right: "
	for t, tc := range check.Cases(t, map[string]struct {
		anomaly v1alpha1.InventoryAnomaly
		want    []string
	}{
		"withheld": {anomaly(v1alpha1.AnomalyMoreThanLabelled, "nvidia.com/gpu", "NVIDIA-H20", "node a: offers 10 nvidia.com/gpu, more than label nvidia.com/gpu.count=1 says"), []string{
			"nodes offer more of this card than their labels say, so no new pod gets one", "free cards: No, no new pod gets one of 10 NVIDIA-H20", right + "node a: offers 10 nvidia.com/gpu",
		}},
		"no memory label": {anomaly(v1alpha1.AnomalyNoModelLabel, "nvidia.com/gpu", "", "node a: no label nvidia.com/gpu.memory beside nvidia.com/gpu.product=NVIDIA-H20 names the card"), []string{right + "node a: no label"}},
		"two models":      {anomaly(v1alpha1.AnomalySeveralModels, "", "", "node a: names more than one card model: NVIDIA-H20, Tesla-T4; no pod gets a card there"), []string{right + "node a: names more"}},
		"two resources":   {anomaly(v1alpha1.AnomalyAmbiguousResource, "", "", "node a: model NVIDIA-H20 could be any of the resources [a b]"), []string{right + "node a: model"}},
	}) {
		in := cases["UnknownCard"]()
		in.Request.Names = []card.Name{"NVIDIA-H20"}
		in.Request.Resource = "nvidia.com/gpu" // NVIDIA-H200 is near
		in.Inventory.Anomalies = []v1alpha1.InventoryAnomaly{tc.anomaly}
		check.Text(t, "explanation", textOf(in)).Has(tc.want...).Lacks("Correct the name", "id you mean", "instead of", "may not be named")
	}
}

// TestACardMayHaveNoNameYet: nothing says which cards these are, so another name comes second.
func TestACardMayHaveNoNameYet(t *testing.T) {
	for _, reason := range cardinventory.UnnamedReasons {
		in := cases["UnknownCard"]()
		in.Request.Names = []card.Name{"NVIDIA-H20"}
		in.Request.Resource = "nvidia.com/gpu"
		in.Inventory.Anomalies = []v1alpha1.InventoryAnomaly{{Reason: reason, Count: 8, Message: "node new: wrong labels"}}
		check.Text(t, string(reason), textOf(in)).
			Has("The card may not be named yet: node new: wrong labels. The workload starts by itself when its node has the right labels.\nOr did you mean NVIDIA-H200? Then write").
			Lacks("Correct the name")
	}

	in := cases["UnknownCard"]()
	in.Inventory.Anomalies = []v1alpha1.InventoryAnomaly{{Reason: v1alpha1.AnomalyMoreThanLabelled, Resource: "nvidia.com/gpu", Card: "NVIDIA-H800", Count: 10}}
	check.That(t, !strings.Contains(textOf(in), " is right: "), "another card is withheld: %s", textOf(in))
	in.Inventory = nil
	check.Contains(t, "a tenant, who cannot know which", textOf(in), "Compare the name with those of kubectl cardquota inventory. If it is right, no label of a node names the card yet: ask the administrator.")
}

func TestPodsThatCouldNotBeCreated(t *testing.T) {
	const edit = "kubectl -n lab edit deployment web"

	for want, tc := range map[string]struct {
		creation Creation
		placed   int
		waits    bool
	}{
		"Deployment lab/web has no pods: its controller could not create them. It says: pods \"web-0\" is forbidden: write spec.schedulerName: volcano.\n" +
			"Write schedulerName: volcano into the spec of the pod template: " + edit + ".": {Creation{2, `pods "web-0" is forbidden: write spec.schedulerName: volcano`, false}, 0, true},
		"A ResourceQuota of namespace lab refuses the pods": {Creation{2, `pods "web-0" is forbidden: exceeded quota: gpus`, false}, 0, true},
		"1 pod has its place. Its controller could not create 1 pod more. It says: full.\nCorrect the pod template as the message says: " + edit + ".": {Creation{1, "full", false}, 1, true},
		"has no pods: its controller has created none yet.\nAsk again in a few seconds.":                                                               {Creation{2, "", false}, 0, true},
		"kubectl -n lab describe deployment web":                    {Creation{2, "", false}, 0, true},
		"Deployment lab/web does not wait: it wants no pods now.":   {Creation{0, "", false}, 0, false},
		"Deployment lab/web does not wait: it is suspended, so it ": {Creation{2, "", true}, 0, false},
	} {
		in := Input{Workload: v1alpha1.WorkloadReference{APIGroup: "apps", Kind: "Deployment", Namespace: "lab", Name: "web"}, Creation: &tc.creation, Placed: tc.placed}
		check.Contains(t, want, textOf(in), want)
		check.Equal(t, want+": waits", tc.waits, Explain(in).Waits)
	}
}

// TestAdviceOnPodsThatCouldNotBeCreated: a job cannot be edited, and a template is not always the cause.
func TestAdviceOnPodsThatCouldNotBeCreated(t *testing.T) {
	const (
		scheduler = "pod names schedulerName default-scheduler: write schedulerName: volcano"
		denied    = `admission webhook "workloads.cardquota.dev" denied the request: unknown card`
	)
	const notAnswering = `Internal error occurred: failed calling webhook "%s": failed to call webhook: Post "https://svc:443/pods": %s`

	cardquota := "workloads.cardquota.dev"
	other := "inject.example.com"
	for name, tc := range map[string]struct {
		group, kind string
		failure     string
		want        string
	}{
		"a Deployment":               {"apps", "Deployment", scheduler, "Write schedulerName: volcano into the spec of the pod template: kubectl -n lab edit deployment x."},
		"a Job":                      {"batch", "Job", scheduler, "cannot be changed. Delete it, and create it again with schedulerName: volcano in the spec of the pod template: kubectl -n lab delete job.batch x."},
		"a Volcano job":              {"batch.volcano.sh", "Job", scheduler, "create it again with spec.schedulerName: volcano: kubectl -n lab delete job.batch.volcano.sh x."},
		"a denied Deployment":        {"apps", "Deployment", denied, "Correct the pod template as the message says: kubectl -n lab edit deployment x."},
		"a denied Job":               {"batch", "Job", denied, "create it again with a template corrected as the message says: kubectl -n lab delete job.batch x."},
		"a denied Volcano job":       {"batch.volcano.sh", "Job", denied, "kubectl -n lab delete job.batch.volcano.sh x."},
		"our webhook refuses":        {"apps", "Deployment", fmt.Sprintf(notAnswering, cardquota, "dial tcp: connection refused"), "Webhook workloads.cardquota.dev does not answer: kubectl cardquota doctor says why"},
		"our webhook has none":       {"batch", "Job", fmt.Sprintf(notAnswering, cardquota, `no endpoints available for service "svc"`), "kubectl cardquota doctor says why"},
		"our webhook takes too long": {"batch.volcano.sh", "Job", fmt.Sprintf(notAnswering, cardquota, "context deadline exceeded"), "kubectl cardquota doctor says why"},
		"another webhook":            {"apps", "StatefulSet", fmt.Sprintf(notAnswering, other, "exceeded quota of connections"), "Webhook inject.example.com does not answer: ask the administrator to see why."},
		"a webhook without a name":   {"apps", "Deployment", "failed to call webhook: connection refused", "The pod template is not the cause. Webhook does not answer: ask"},
		"the store":                  {"apps", "Deployment", "etcdserver: request timed out", "The pod template is not the cause, and the controller tries again."},
		"an ending namespace":        {"apps", "Deployment", "unable to create new content in namespace lab because it is being terminated", "Namespace lab is being deleted"},
		"no ServiceAccount":          {"batch", "Job", `error looking up service account lab/x: serviceaccount "x" not found`, "Create the ServiceAccount that the pod template names."},
	} {
		in := Input{Workload: v1alpha1.WorkloadReference{APIGroup: tc.group, Kind: tc.kind, Namespace: "lab", Name: "x"}, Creation: &Creation{Missing: 1, Failure: tc.failure}}
		advice := Explain(in).Advice
		check.Equal(t, name+": one advice", 1, len(advice))
		check.Contains(t, name, strings.Join(advice, " "), tc.want)
	}
}

func TestEvictionsAreExplained(t *testing.T) {
	in := waiting(v1alpha1.BlockedNoFreeCard, "")
	in.Now = at
	in.Evictions = []Eviction{{at.Add(-12 * time.Minute), "2 card(s) are reclaimed for 1 job of service type inference."}, {at.Add(-50 * time.Minute), "earlier"}}
	check.Contains(t, "summary", Explain(in).Summary, " Its last eviction was 12m ago: 2 card(s) are reclaimed for 1 job of service type inference. Events tell of 1 more.")
	runs := Input{Now: at, Workload: ofJob("train"), Placed: 4, Evictions: in.Evictions[:1]}
	check.Contains(t, "of a workload that runs again", Explain(runs).Summary, "does not wait: 4 pods have their place. Its last eviction was 12m ago")
}

func TestASchedulerThatStaysSilent(t *testing.T) {
	in := waiting("", "")
	in.Entries = nil
	in.Created = at.Add(-10 * time.Second)
	check.Contains(t, "at first", textOf(in), "Ask again in a few seconds.")
	in.Created = at.Add(-75 * time.Second)
	check.Contains(t, "later", textOf(in), "The scheduler is silent since the pod was created 75s ago: kubectl cardquota doctor says whether it runs.")
}
