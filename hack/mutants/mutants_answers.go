package main

// groupAnswerMutants break which pods without a PodGroup status.blocked lists.
var groupAnswerMutants = []mutant{
	{"internal/queueusage/usage.go", `&& facts.group.group == nil && !c.input.LacksPodGroups`, `&& facts.group.group == nil`, "PodGroups that could not be read are not missing"},
	{"internal/queueusage/usage.go", `return isMissing && !waiting.MayAwaitPodGroup(pod, c.input.Now)`, `return isMissing`, "the PodGroup of a new pod may come later"},
	{"internal/waiting/entries.go", `v1alpha1.BlockedCardsTerminating, v1alpha1.BlockedGangIncomplete`, `v1alpha1.BlockedCardsTerminating, v1alpha1.BlockedPodGroupNotFound, v1alpha1.BlockedGangIncomplete`, "a name raises no alert"},
}

// nearestMutants break which card a name means.
var nearestMutants = []mutant{
	{"internal/card/nearest.go", `return other.model == wanted.model`, `return other.lower == wanted.lower`, "the words of a vendor do not count"},
	{"internal/card/nearest.go", `best := len(wanted.withoutVendor)/3 + 1`, `best := len(wanted.lower)/3 + 1`, "two models of one vendor are not near"},
	{"internal/card/unnamedcards.go", `slices.Contains(words, string(name))`, `len(words) > 0 && strings.Contains(text, string(name))`, "part of a name is another card"},
}

// explanationMutants break what why says beside the reason.
var explanationMutants = []mutant{
	{"internal/cli/why/explanation/gates.go", `if gate.Answer == Yes && g.isRefusing(quota) {`, `if false {`, "no gate contradicts the reason"},
	{"internal/cli/why/explanation/reasons.go", `case requested > found.largest:`, `case requested > found.quota:`, "the largest quota of the alternatives counts"},
	{"internal/cli/why/explanation/rollout.go", `(rollout.IsKnown && rollout.MaxUnavailable > 0)`, `rollout.MaxUnavailable > 1`, "a rollout that ends old pods first does not wait for them"},
	{"internal/cli/why/explanation/unknowncard.go", `a.Reason == v1alpha1.AnomalyMoreThanLabelled && a.Card == string(name)`, `a.Reason == v1alpha1.AnomalyMoreThanLabelled`, "only the cards that nodes keep from new pods are withheld"},
	{"internal/cli/why/explanation/shortage.go", `case isRefusedForOthers(stated, granted):`, `case false:`, "a job may name its cards where only the scheduler reads them"},
}
