package main

import "slices"

// tables are all mutants.
var tables = []table{
	{tests: differentialTest, mutants: slices.Concat(workloadMutants, cardMutants, quotaMutants, serviceTypeMutants, treeMutants, inventoryMutants)},
	{tests: "./internal/quota", mutants: treeOrderMutants},
	{tests: "./internal/quota", run: "^TestWhatFitsAfterAReleaseIsWhatFitsOnceItIsReleased$", mutants: releaseMutants},
	{tests: "./internal/cardquota", run: "^(TestForged.*|TestATenantDoes.*|TestTheYoungest.*|TestAGuarantee.*|TestEveryOrder.*)$", mutants: operatorMutants[:5]},
	{tests: "./internal/controller/cardquota", run: "^Test(ANodeWakesCardQuotas.*|ANodeMore.*|AFlappingNode.*)$", mutants: operatorMutants[5:]},
	{tests: "./internal/policy", run: "^TestOnlyAWrittenFlatEndsTheTree$", mutants: hierarchyMutants},
	{tests: "./internal/webhook/validation", run: "^(TestARefusalDiscloses.*|TestJobsWithMoreThan256TasksAreRefused)$", mutants: disclosureMutants},
	{tests: "./internal/scheduler/solver", run: "^(TestSolveWithinTakeLimits|TestSolveSmallProblemsAtLeastLoss)$", mutants: takeMutants},
	{tests: "./internal/scheduler/solver", run: "^(TestSearch.*|TestSolveReportsOutOfBudget)$", mutants: solverSearchMutants},
	{tests: "./internal/scheduler/reclaimrules", run: "^TestCooldownGrows$", mutants: borrowStopMutants},
	{tests: "./internal/scheduler/capacitycard", run: "^TestWeights.*$", mutants: queueOrderMutants},
	{tests: "./internal/scheduler/capacitycard", run: "^TestCardsThatNodesDoNotOffer.*$", mutants: notOfferedMutants},
	{tests: "./internal/scheduler/capacitycard", run: "^TestALoweredQuotaEndsOnlyTheCardsBeyondIt$", mutants: loweredQuotaMutants},
	{tests: "./internal/scheduler/cardreclaim", run: "^(TestAQueueOfATree.*|TestATreeReclaims.*|TestAVictimQueueOfATree.*|TestCardsThatTheInventoryLacks.*|TestDrain.*|TestTenants.*|TestTheMatrixAndTheTree.*)$", mutants: treeReclaimMutants},
	{tests: "./internal/workload", run: "^(TestEvictionsThatAJobSurvives|TestAnyOrderOfCountingIsTheSame|TestAJobSurvives.*)$", mutants: jobFailureMutants},
	{tests: "./internal/deviceclaim", mutants: claimMutants},
	{tests: "./internal/card", run: "^Test(CardsAreKnown|Network|WhichDrivers|MoreCards|SharesOfSlices|OtherDevices|Missing|AMissing|SharingSoftware).*$", mutants: vendorMutants},
	{tests: "./internal/cardinventory", mutants: anomalyMutants},
	{tests: "./internal/controller/resourceslices", mutants: sliceRecordMutants},
	{tests: "./internal/scheduler/capacitycard", run: "^TestClaims", mutants: claimCheckMutants},
	{tests: "./internal/webhook/validation", run: "^TestWarningOfAnUnknownCardSuggestsAName$", mutants: withheldAnswerMutants},
	{tests: "./internal/cardquota", run: "^(TestACardMay|TestCardsKnown)", mutants: withheldConditionMutants},
	{tests: "./internal/scheduler/simulator", run: "^TestRunNamesPodsWhose.*$", mutants: simulatedClaimMutants},
	{tests: "./internal/controller/cardinventory", run: "^TestNothingIsWritten.*$", mutants: completeInputMutants},
	{tests: "./internal/controller", run: "^TestStatusWriter.*$", mutants: statusWriterMutants},
	{tests: "./internal/webhook/validation", run: "^(TestEntriesOfCardsWarn.*|TestWarningsOfCardNames.*)$", mutants: cardNameMutants},
	{tests: "./internal/webhook/validation", run: "^(TestJobsWithCardsGetARuleForEvictions|TestApplyingTheFileAgainKeepsTheEvictionRule)$", mutants: jobAdmissionMutants},
	{tests: "./internal/cli/why/explanation", run: "^(TestADeletedCardQuota.*|TestServicesDo.*)$", mutants: answerEndMutants},
	{tests: "./internal/cli/why", run: "^TestWhy(SaysThatPods|Forgets).*$", mutants: creationMutants},
	{tests: "./internal/cli/why", run: "^TestWhyOfARollout.*$", mutants: rolloutMutants},
	{tests: "./internal/cli/why/explanation", run: "^(TestAdviceOnAGang.*|TestARollout.*)$", mutants: gangMutants},
	{tests: "./internal/scheduler/cardreclaim", run: "BackoffLimit", mutants: jobPriceMutants},
	{tests: "./internal/scheduler/loss", mutants: lossMutants},
	{tests: "./internal/scheduler/capacitycard", run: "^(Test.*SparesAJobAtItsBackoffLimit|TestPreemptEvictsWhatCostsLeast)$", mutants: preemptPriceMutants},
	{tests: "./internal/controller/cardquota", run: "(Metrics|Billed|Bill|Unknown)", mutants: queueMetricsMutants},
	{tests: "./internal/cardquota", run: "^(TestNewBindings|TestPodsAreNewOnce|TestOverAllocationIsAllowedByAll)$", mutants: bindingMetricsMutants},
	{tests: "./internal/cardseconds", run: "^Test(SumsOfDays|NoChangeOfClock|TimeInWhich|EachPart|CountsAreNot).*$", mutants: billMutants},
	{tests: "./internal/cardhours", mutants: cardHoursMutants},
	{tests: "./internal/cardquota", run: "^TestWhoUsesCardsForBills$", mutants: billedPodsMutants},
	{tests: "./internal/scheduler/capacitycard", run: "^Test(PodsPreemptOtherJobs.*|EveryQueuePreempts.*|PreemptLooksAtAllNodes|JobIs.*IntoAFullQueue.*|PreemptedCardsAreKept.*|SecondPreemptor.*|PreemptEvictsOnlyElasticPods.*|PreemptTakesNoCards.*|PreemptInATree.*|MissingQuota.*|PodDoesNotWaitForTheVictim.*|ALoweredQuotaEndsWhat.*|KeptCardsCount.*)$", mutants: preemptMutants},
	{tests: "./internal/scheduler/capacitycard", run: "^TestFreedCardsAreKeptUntilAllVictimsEnd$", mutants: keptPeriodMutants},
	{tests: "./internal/scheduler/capacitycard", run: "(KeptCards|AreKept|IsKept|FreeCardsProlong|ReservationKeeps|StuckJob|WithoutReservation|BelowItsMinimum)", mutants: awaitedCardsMutants},
	{tests: "./internal/scheduler/cardreclaim", run: "^TestReclaimCountsNoCardsThatPreemptFreedForOthers$", mutants: keptFromReclaimMutants},
	{tests: "./internal/scheduler/cardreclaim", run: "(SecondRun|BorrowFirst|TestGangStarts|TestCardsAreKept)", mutants: secondRunMutants},
	{tests: "./internal/cli/why", run: "^(TestAJobWithPods.*|TestAGangIsCounted.*|TestOnlyTheMinimum.*|TestAGateNames.*)$", mutants: reservationMutants},
	{tests: "./internal/cli", run: "^(TestTheOperatorIsFound.*|TestAHiddenLease.*)$", mutants: leaseMutants},
	{tests: "./internal/cli/why", run: "^(TestEventsOfAnother.*|TestWhyShowsTheLastEviction)$", mutants: eventMutants},
	{tests: "./internal/cli/why", run: "^(TestWhySaysToATenant.*|TestWhyOfADeleted.*)$", mutants: deletedQuotaMutants},
	{tests: "./internal/cli/top", run: "^TestAQueueWithoutAPath.*$", mutants: availableMutants},
	{tests: "./internal/enforcement", run: "Lease", mutants: operatorLeaseMutants},
	{tests: "./internal/quota", run: "^TestReplacedElasticUsageIsExact$", mutants: replacedElasticMutants},
	{tests: "./internal/workload", run: "^TestVCJob.*$", mutants: announcedMutants},
	{tests: "./internal/workload", run: "^TestWhatAPodIsCharged$", mutants: rareChargeMutants},
	{tests: "./internal/waiting", run: "^TestGroupRequestTakes.*$", mutants: statedMutants},
	{tests: "./internal/scheduler/capacitycard", run: "^(TestVCJobIsEnqueuedByItsTemplates|TestRefusedRequestStaysRefused)$", mutants: voteMutants},
	{tests: "./internal/scheduler/cardreclaim", run: "^(TestLabelsDecideWhichPodsConflict|TestQueuesOfOneType.*|TestActionRestsAfterLongSearch|TestPreemptRestsAfterLongSearch)$", mutants: searchMutants},
	{tests: "./internal/cardquota", run: "^(TestAPodWithoutItsPodGroupIsBlocked|TestAPodGroupMayCome.*)$", mutants: groupAnswerMutants},
	{tests: "./internal/card", run: "^(TestNearest|TestMentionsCard)", mutants: nearestMutants},
	{tests: "./internal/cli/why/explanation", run: "^(TestNoGate.*|TestTheSummarySaysInWhich.*|TestARequestOfTwoCards.*|TestARollout.*|TestARightName.*|TestRequestWithoutCardName.*)$", mutants: explanationMutants},
	{tests: "./internal/scheduler/capacitycard", run: "(Metrics|Shows|Scrape)", mutants: sessionMetricsMutants},
	{tests: "./internal/scheduler/cardreclaim", run: "^(TestReclaimCounters.*|TestReclaimEvents.*)$", mutants: reclaimMetricsMutants},
}

// The rules of package card: names, texts, nodes, inventory.
var cardMutants = []mutant{
	{"internal/card/name.go", `([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`, `([-A-Za-z0-9_.]{0,63}[A-Za-z0-9])?$`, "a model has at most 63 characters"},
	{"internal/card/name.go", `([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`, `([-A-Za-z0-9_.]{0,62})?$`, "a model ends with a letter or digit"},
	{"internal/card/name.go", `^mps-[0-9]{1,6}g\*1/[1-9][0-9]{0,3}$`, `^mps-[0-9]{1,6}g\*1/[0-9]{1,4}$`, "a share is not cut into none"},
	{"internal/card/name.go", `^mps-[0-9]{1,6}g\*1/[1-9][0-9]{0,3}$`, `^mps-[0-9]{1,6}g\*1/[1-9][0-9]{0,4}$`, "a card is cut into at most 9999 shares"},
	{"internal/card/name.go", `^mig-([a-z0-9][-a-z0-9_.]{0,40})-mixed(-SHARED)?$`, `^mig-([a-z0-9][-a-z0-9_.]{0,41})-mixed(-SHARED)?$`, "a profile has at most 41 characters"},
	{"internal/card/name.go", `		return m[1]`, `		return ""`, "slices of two profiles are no alternatives"},
	{"internal/card/request.go", `name.Form() != names[0].Form() || name`, `name`, "a whole card and a share are no alternatives"},
	{"internal/card/request.go", `		case slices.Contains(names, name):`, `		case false:`, "no alternative is named twice"},
	{"internal/card/request.go", `	if len(parts) > MaxAlternatives {`, `	if len(parts) > MaxAlternatives+1 {`, "at most 16 alternatives"},
	{"internal/card/request.go", `	if len(parts) > MaxAlternatives {`, `	if len(parts) >= MaxAlternatives {`, "16 alternatives are allowed"},
	{"internal/card/request.go", `ParseName(strings.TrimSpace(part))`, `ParseName(part)`, "spaces around a name are ignored"},
	{"internal/card/request.go", `	if len(text) > MaxRequestText {`, `	if len(text) > 9*MaxRequestText {`, "a request has at most 4 KiB"},
	{"internal/card/request.go", `parseCounts(text, MaxTotalsText, func`, `parseCounts(text, 2*MaxTotalsText, func`, "the total of a job has at most 8 KiB"},
	{"internal/card/request.go", `return t.Request.String() == request.String()`, `return t.Count < 0`, "no request of a job stands twice"},
	{"internal/card/request.go", `return r.AllowsAny() || slices.Contains(r.names, name)`, `return slices.Contains(r.names, name)`, "a pod that names no card may run on any"},
	{"internal/card/request.go", `return r.AllowsAny() || slices.Contains(r.names, name)`, `return r.AllowsAny() || slices.Contains(r.names[:1], name)`, "every alternative is allowed"},
	{"internal/card/quota.go", `if _, twice := quota[name]; twice {`, `if _, twice := quota[name]; twice && count < 0 {`, "no card of a quota is named twice"},
	{"internal/card/quota.go", `	case n < 0:`, `	case n < -1:`, "a quota is 0 or more"},
	{"internal/card/quota.go", `	case n > int64(MaxCount):`, `	case n >= int64(MaxCount):`, "a quota may be a million"},
	{"internal/card/quota.go", `	case n > int64(MaxCount):`, `	case n > int64(MaxCount)+1:`, "a quota is at most a million"},
	{"internal/card/quota.go", `!errors.Is(err, io.EOF) {`, `errors.Is(err, io.ErrNoProgress) {`, "nothing follows the quota"},
	{"internal/card/quota.go", `	if len(text) > maxText {`, `	if len(text) > 9*maxText {`, "a quota has at most 64 KiB"},
	{"internal/card/quota.go", `		if entries == MaxQuotaEntries {`, `		if entries == MaxQuotaEntries+1 {`, "a quota has at most 256 entries"},
	{"internal/card/quota.go", `count, err := parseCount(fmt.Sprint(key), string(value))`, `count, err := parseCount(fmt.Sprint(key), strings.Trim(string(value), "\""))`, "a count is a number, not a text"},
	{"internal/card/noderecognition.go", `kind != "" && model != ""`, `kind != ""`, "an empty label names no model"},
	{"internal/card/noderecognition.go", `if _, ok := labels[base+MemorySuffix]; !ok {`, `if _, ok := labels[base+MemorySuffix]; !ok && base == "" {`, "a model needs its memory label"},
	{"internal/card/noderecognition.go", `|| strings.HasPrefix(key, MIGPrefix) {
			continue`, `{
			continue`, "labels of MIG profiles name no model"},
	{"internal/card/noderecognition.go", `	switch len(products) {`, `	switch min(len(products), 1) {`, "a node with two models counts for none of them"},
	{"internal/card/noderecognition.go", `		case p.vendor != NVIDIA && strings`, `		case strings`, "NVIDIA's network devices are no cards"},
	{"internal/card/noderecognition.go", `		case resource == whole || resource == whole+SharedSuffix:`, `		case resource == whole:`, "shares of a node with two models are cards"},
	{"internal/card/noderecognition.go", `base == NVIDIA+"/gpu" || `, ``, "NVIDIA's cards are cards before their node is labelled"},
	{"internal/card/noderecognition.go", `hasLabelWithPrefix(node.Labels, base+".") && `, `hasLabelWithPrefix(nil, base+".") && `, "a resource beside a label of its name is a card"},
	{"internal/card/noderecognition.go", `base := strings.TrimSuffix(string(resource), SharedSuffix)`, `base := string(resource)`, "shares are cards before their node is labelled"},
	{"internal/card/noderecognition.go", `return (mib + 512) / 1024`, `return mib / 1024`, "the memory of a share is rounded to the nearest GiB"},
	{"internal/card/noderecognition.go", `return (mib + 512) / 1024`, `return (mib + 1023) / 1024`, "the memory of a share is not rounded up"},
	{"internal/card/noderecognition.go", `if err != nil || n < 1 || n > 9999 {`, `if err != nil || n < 0 || n > 9999 {`, "no share count of 0"},
	{"internal/card/noderecognition.go", `if err != nil || n < 1 || n > 9999 {`, `if err != nil || n < 1 || n > 99999 {`, "no share count above 9999"},
	{"internal/card/noderecognition.go", `return NewCount(node.Status.Allocatable[resource])`, `return NewCount(node.Status.Capacity[resource])`, "counts come from allocatable"},
	{"internal/card/noderecognition.go", `		case r.product.vendor != NVIDIA:`, `		case false:`, "MIG slices are of NVIDIA's model"},
	{"internal/card/noderecognition.go", `		case err != nil:`, `		case false && err != nil:`, "a profile that makes no card name is withheld"},
	{"internal/card/noderecognition.go", `r.out.Model + sliceSuffix(`, `sliceSuffix(`, "a slice is named after its model"},
	{"internal/card/noderecognition.go", `mib < 1 || mib`, `mib < 0 || mib`, "no share of a card without memory"},
	{"internal/card/noderecognition.go", `roundToGiB(mib), parts), nil`, `roundToGiB(mib), parts+1), nil`, "a share says into how many its card is cut"},
	{"internal/card/noderecognition.go", `	if r.partitioned > 0 {`, `	if r.partitioned > 99 {`, "beside slices or shares no other resource is the whole card"},
	{"internal/card/noderecognition.go", `	switch len(candidates) {`, `	switch min(len(candidates), 1) {`, "of two candidates none is the card"},
	{"internal/card/mappedrecognition.go", `	case len(names) > 1:`, `	case len(names) > 9:`, "a resource with two mapped cards is withheld"},
	{"internal/card/mappedrecognition.go", ` || !mapping.Selects(m.node.Labels) {`, ` {`, "a mapping is for the nodes that it selects"},
	{"internal/card/mappedrecognition.go", `if !slices.Contains(m.resources, name) {`, `if name != "" {`, "a mapping replaces the labels for its resource"},
	{"internal/card/mappedrecognition.go", `		if !out.isRecognised(resource) {`, `		if false {`, "a mapped resource is a card on every node"},
	{"internal/card/mappedrecognition.go", `!m.out.isRecognised(resource) && !out`, `resource == "" && !out`, "a mapping releases no other card of the vendor"},
	{"internal/card/mapping.go", `Name(model + sliceSuffix(m.Resource, isShared))`, `Name(model + sliceSuffix(m.Resource, isShared)[:0])`, "a mapped slice is no whole card"},
	{"internal/card/noderecognition.go", `len(exact) > 0 || p.isMapped(mapped)`, `len(exact) > 0`, "beside a mapped resource no other one of the vendor is the card"},
	{"internal/card/noderecognition.go", `return p.isMapped(mapped) && len`, `return len`, "labels of an unmapped product count without its resource"},
	{"internal/card/noderecognition.go", `(p.vendor != NVIDIA || len(migResources(node)) == 0)`, `true`, "slices beside a mapped resource keep their labels"},
	{"internal/card/name.go", `		return MaxCount + 1`, `		return 0`, "an absurd count is more than any quota"},
	{"internal/card/name.go", `return Count(quantity.Value())`, `return Count(quantity.MilliValue() / 1000)`, "part of a card is rounded up"},
	{"internal/card/inventory.go", `inv.physical[h.Name].Add(h.Count)`, `h.Count`, "the cards of all nodes are added up"},
	{"internal/card/inventory.go", `range known {`, `range known[:0] {`, "what was a card stays one"},
	{"internal/card/inventory.go", `range node.Unnamed {`, `range node.Unnamed[:0] {`, "a resource that a node does not name is a card"},
	{"internal/card/inventory.go", `		if h.Resource == resource {`, `		if h.Resource >= resource {`, "a resource has its own card on a node"},
	{"internal/card/inventory.go", `func (i *Inventory) ResourcesFor(name Name) []corev1.ResourceName { return i.byName[name] }`, `func (i *Inventory) ResourcesFor(name Name) []corev1.ResourceName { return i.byName[name][:min(1, len(i.byName[name]))] }`, "a card may be requested by each of its resources"},
	{"internal/card/inventory.go", `	for _, names := range inv.resources {
		slices.Sort(names)
	}
`, ``, "the cards of a resource are sorted"},
}

// The rules of package quota: the ledger and its checks.
var quotaMutants = []mutant{
	{"internal/quota/ledger.go", `	l.Release(pod)
	l.pods[pod] = podEntry{charge: c}`, `	l.pods[pod] = podEntry{charge: c}`, "charging again replaces"},
	{"internal/quota/charge.go", `s.cards[amount.Name] = s.cards[amount.Name].Sub(amount.Count)`, `s.cards[amount.Name] = s.cards[amount.Name].Sub(1)`, "releasing gives back what was charged"},
	{"internal/quota/ledger.go", `	delete(l.pods, pod)`, ``, "releasing twice gives back once"},
	{"internal/quota/charge.go", `	s.milliCPU.subtract(c.MilliCPU)`, `	s.milliCPU.subtract(0)`, "releasing gives back CPU"},
	{"internal/quota/charge.go", `	s.memory.add(c.Memory)`, `	s.memory.add(0)`, "memory is charged"},
	{"internal/quota/ledger.go", `	q.limits = limits
`, `	q.limits = limits
	q.limits.AnyCard = false
`, "a queue without limits of cards has room for any"},
	{"internal/quota/path.go", `	if limit < used`, `	if limit+1 < used`, "used never exceeds the quota"},
	{"internal/quota/path.go", `		more := count - gone`, `		more := min(1, count) - gone`, "all cards of a request must fit"},
	{"internal/quota/check.go", `	if !isExceeded && resource.IsCard() {`, `	if false {`, "a queue waits while too many of its cards are terminating"},
	{"internal/quota/ledger.go", `return &queueLedger{name: queue}`, `return &queueLedger{name: queue, limits: Limits{AnyCard: true}}`, "a queue that is not known has no cards"},
	{"internal/quota/check.go", `	if count <= 0 {`, `	if count < 0 {`, "no cards always fit"},
	{"internal/quota/check.go", `	for _, name := range request.Names {
		if _, isExceeded`, `	for _, name := range request.Names[:1] {
		if _, isExceeded`, "any alternative with room will do"},
	{"internal/quota/ledger.go", `	l.Release(pod)
	if len(c.Cards) == 0 {`, `	if len(c.Cards) == 0 {`, "what terminates is not used"},
	{"internal/quota/ledger.go", `e.count = e.count.Sub(amount.Count)`, `e.count = 0`, "what terminated gives back its own cards"},
	{"internal/quota/path.go", `limit < used && !q.isRoot`, `limit <= used && !q.isRoot`, "a quota may be used up on a node"},
	{"internal/quota/path.go", `int64(at.limits.Cards[resource.Card()]); total > limit`, `int64(at.limits.Cards[resource.Card()]); total >= limit`, "as many cards as the quota may terminate before a placement"},
	{"internal/quota/fits.go", `of.selectAmount(r.MilliCPU, r.Memory, int64(r.Count))`, `of.selectAmount(0, r.Memory, int64(r.Count))`, "CPU is limited"},
	{"internal/quota/fits.go", `of.selectAmount(r.MilliCPU, r.Memory, int64(r.Count))`, `of.selectAmount(r.MilliCPU, 0, int64(r.Count))`, "memory is limited"},
}

// The rules of package servicetype: the matrix, the built-in types, owners.
var serviceTypeMutants = []mutant{
	{"internal/servicetype/servicetype.go", `		Training:  {Reclaimable: true},`, `		Training:  {},`, "training is reclaimable"},
	{"internal/servicetype/servicetype.go", `		Inference: {ReclaimFrom: []string{Training}},`, `		Inference: {},`, "inference reclaims from training"},
	{"internal/servicetype/servicetype.go", `		Training:  {Reclaimable: true},`, `		Training:  {Reclaimable: true, ReclaimFrom: []string{Training}},`, "training may not reclaim"},
	{"internal/servicetype/servicetype.go", `slices.Contains(m[by].ReclaimFrom, from) && m[from].Reclaimable`, `slices.Contains(m[by].ReclaimFrom, from)`, "nothing is reclaimed from a type that is not reclaimable"},
	{"internal/servicetype/servicetype.go", `slices.Contains(m[by].ReclaimFrom, from) && m[from].Reclaimable`, `m[from].Reclaimable`, "a type reclaims only from those that it names"},
	{"internal/servicetype/servicetype.go", `return len(m[name].ReclaimFrom) > 0`, `return len(m[name].ReclaimFrom) >= 0`, "an unknown type takes nothing"},
	{"internal/servicetype/servicetype.go", `Priority: 80000`, `Priority: 60000`, "queues of inference have priority 80000"},
	{"internal/servicetype/servicetype.go", `Priority: 20000, Reclaimable: true`, `Priority: 20000, Reclaimable: false`, "queues of training are reclaimable"},
	{"internal/servicetype/servicetype.go", `Priority: 80000, Reclaimable: false`, `Priority: 80000, Reclaimable: true`, "queues of inference are not reclaimable"},
	{"internal/servicetype/servicetype.go", `[]string{"Deployment", "ReplicaSet"}`, `[]string{"ReplicaSet", "Deployment"}`, "the Deployment has precedence over its ReplicaSet"},
	{"internal/servicetype/servicetype.go", ` && group == "apps" {`, ` {`, "only ReplicaSets of apps are a Deployment's"},
	{"internal/servicetype/servicetype.go", `ofDeployment && owner.Kind == "ReplicaSet"`, `owner.Kind == "ReplicaSet" && (ofDeployment || true)`, "a ReplicaSet by itself is no Deployment"},
	{"internal/servicetype/servicetype.go", `o[strings.TrimSuffix(kind+"."+group, ".")]`, `o[strings.TrimSuffix(kind+".none", ".")]`, "a kind with its group counts"},
	{"internal/servicetype/servicetype.go", `		if name, ok := o[kind]; ok {`, `		if name, ok := o[kind+".none"]; ok {`, "a kind without a group counts"},
	{"internal/servicetype/servicetype.go", `	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return ""
	}`, `	if len(pod.OwnerReferences) == 0 {
		return ""
	}
	owner := &pod.OwnerReferences[0]
	_ = metav1.GetControllerOf`, "only the controller of a pod is its owner"},
}
