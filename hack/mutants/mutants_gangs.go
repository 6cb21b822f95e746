package main

// The rule for which waiting gangs free cards are kept.
var awaitedCardsMutants = []mutant{
	{"internal/scheduler/capacitycard/awaitedcards.go", `len(keeping) == 0 || !free.canPlaceAll(`, `len(keeping) == 0 || false && !free.canPlaceAll(`, "nothing is kept for a gang that fits the nodes only in part"},
	{"internal/scheduler/capacitycard/gangplacement.go", `slices.ContainsFunc(at.pods, conflicts)`, `slices.ContainsFunc(at.pods[:0], conflicts)`, "pods that must be apart are placed apart"},
	{"internal/scheduler/capacitycard/gangplacement.go", `left == nil || g.conflictsWithOwnPods(task, node)`, `left == nil`, "a missing pod is placed apart from pods of its job that run"},
	{"internal/scheduler/capacitycard/gangplacement.go", `	at.left.SubWithoutAssert(task.Resreq)
`, ``, "two missing pods do not use the same cards"},
}
