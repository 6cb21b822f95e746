package main

// vendorMutants are wrong rules of which resources and drivers are those of cards.
var vendorMutants = []mutant{
	{"internal/card/missinglabels.go", `labels[base+ProductSuffix] != "" && !hasMemory`, `labels[base+ProductSuffix] != "" && hasMemory`, "a model without memory is one"},
	{"internal/card/vendorresources.go", `(resource == neuronCore || !coreAmounts.MatchString(name))`, `!coreAmounts.MatchString(name)`, "cores that pods request by themselves are a card"},
	{"internal/card/vendorresources.go", `|nvswitch|audio|usb|ucsi|`, `|nvswitch|`, "audio controllers of cards are no cards"},
	{"internal/card/vendorresources.go", `|bf[_-]?[sv]f|`, `|`, "functions of a BlueField are no cards"},
	{"internal/card/vendorresources.go", `	return isNameOf(accelerators, domain, name) || isNameOf(sharingSoftware, domain, name)`, `	_, parent, _ := strings.Cut(domain, ".")
	return isNameOf(accelerators, domain, name) || isNameOf(sharingSoftware, domain, name) || (parent != "" && offersCards(parent, name))`, "a subdomain of a vendor of cards has a line of its own"},
	{"internal/card/vendorresources.go", `/(.*[^a-z])?(rdma|hostdev|`, `/(.*[^a-z])?(hostdev|`, "a network device that is named after a card is none"},
	{"internal/card/vendorresources.go", `!virtualCards.MatchString(name)`, `virtualCards.MatchString("") == false`, "SR-IOV divides cards, too"},
	{"internal/card/devicedrivers.go", `networkDrivers.MatchString(withoutDomain(driver))`, `networkDrivers.MatchString(driver)`, "a top-level domain is no network"},
	{"internal/card/devicedrivers.go", `len(driver) > maxDriverLength || networkDrivers`, `len(driver) > maxDriverLength || driver == "" && networkDrivers`, "a driver of a network between cards hands out none"},
	{"internal/card/devicedrivers.go", `slices.ContainsFunc(cardVendors, isOfVendor) || `, `(len(cardVendors) == 0 && isOfVendor("")) || `, "every driver of a vendor of cards hands out cards"},
	{"internal/card/noderecognition.go", `if sharesByReplicas(r.node, resource, r.mapped) && !strings`, `if resource == "" && !strings`, "replicas without a resource of their own are shares, not whole cards"},
	{"internal/card/mapping.go", `isShared := sharesSlices(node, m.Resource) &&`, `isShared := hasSharedProduct(node.Labels, m.Resource) &&`, "replicas say that a mapped slice is shared"},
	{"internal/card/unnamedcards.go", `quantity.Sign() > 0 && t.isCard(resource) &&`, `quantity.Sign() > 0 &&`, "a device that is no card anywhere is no news"},
}

// anomalyMutants are wrong rules of the anomalies, of which the observer has none.
var anomalyMutants = []mutant{
	{"internal/cardinventory/anomalies.go", `case card.LooksLikeCores(resource) && !l.offersCardBeside(node, resource):`, `case card.LooksLikeCores(resource):`, "cores beside their card are an amount"},
	{"internal/cardinventory/modelchanges.go", `model.now = charge.Cards[0].Name
		model.isChanged = true`, `model.now = charge.Cards[0].Name
		model.isChanged = charge.Cards[0].Name != model.first`, "a change back is a change"},
	{"internal/cardinventory/modelchanges.go", `case model == nil || (isRemapped && !model.isChanged):`, `case model == nil:`, "an entry of spec.cards changes no label"},
	{"internal/cardinventory/anomalies.go", `isSaid := card.LabelsSayForm(node.Object, offered.Resource)`, `isSaid := false`, "cards of a form that the labels say are broken"},
	{"internal/cardinventory/anomalies.go", `if !isOfVendor && card.IsOfSharingSoftware(other) {`, `if isOfVendor && card.IsOfSharingSoftware(other) {`, "sharing software offers cards of any vendor"},
	{"internal/cardinventory/anomalies.go", `mayBeSame := isCard && (isOfOneVendor(cores, other) ||`, `mayBeSame := isCard && (other != "" ||`, "cores are no amount beside another vendor's card"},
	{"internal/cardinventory/anomalies.go", `	if countCards(cores) == 0 {`, `	if cores != "" {`, "a stale card stands for no cores"},
	{"internal/cardinventory/claimcards.go", `isOutdated := slice.Generation < newest[pool{slice.Driver, slice.Pool}]`, `isOutdated := slice.Generation < 0`, "slices of an earlier generation are outdated"},
	{"internal/cardinventory/claimcards.go", `if isOutdated || !card.IsAcceleratorDriver(slice.Driver) {`, `if isOutdated {`, "drivers of networks hand out no cards"},
	{"internal/cardinventory/modelchanges.go", `return a.Reason != v1alpha1.AnomalyModelChanged })`, `return a.Reason == v1alpha1.AnomalyModelChanged })`, "a changed model outlives a restart"},
	{"internal/cardinventory/modelchanges.go", `		m.restoreChange(pod.Spec.NodeName, model)
`, ``, "a pod keeps its first name after a restart"},
}

// sliceRecordMutants are wrong rules of what is kept of ResourceSlices.
var sliceRecordMutants = []mutant{
	{"internal/cardinventory/claimcards.go", `overlaps = overlaps || isPart`, `overlaps = overlaps && isPart`, "devices that can overlap are not counted"},
}

// claimCheckMutants remove checks of ResourceClaims from the scheduler.
var claimCheckMutants = []mutant{
	{"internal/scheduler/snapshot/checks.go", `requestIsValid, claimsAreAllowed)`, `requestIsValid)`, "no pod with a claim for cards is placed"},
	{"internal/scheduler/enqueue/votes.go", `if refusal := v.CheckClaims(task.Pod); refusal != nil {`, `if refusal := v.CheckClaims(task.Pod); refusal != nil && task.Pod == nil {`, "no job with a claim for cards is enqueued"},
}

// withheldAnswerMutants call cards that nodes withhold unknown.
var withheldAnswerMutants = []mutant{
	{"internal/validation/result.go", `withheld := inv.WithheldCards(name); len(withheld) > 0 {`, `withheld := inv.WithheldCards(name); len(withheld) > 99 {`, "the webhooks say which node withholds a card"},
}

// withheldConditionMutants do so in conditions.
var withheldConditionMutants = []mutant{
	{"internal/cardquota/cardsknown.go", `return u.Card == name || card.MentionsCard`, `return card.MentionsCard`, "a condition says which node withholds a card"},
}
