package main

// The anomalies of the CardInventory.
var inventoryMutants = []mutant{
	{"internal/cardinventory/anomalies.go", `return max(countOf(`, `return min(countOf(`, "a resource that no card is left of counts by its capacity"},
	{"internal/cardinventory/anomalies.go", `		case cards.IsCard(resource):`, `		case false:`, "a card of other nodes is one without a label, too"},
	{"internal/cardinventory/anomalies.go", `		case l.looksLikeCard(resource):`, `		case false:`, "a card of a known device plugin is listed without a mapping"},
	{"internal/cardinventory/anomalies.go", `.Sub(offered.Count); broken > 0 {`, `.Sub(offered.Count); broken > 1 {`, "one broken card is an anomaly"},
	{"internal/cardinventory/anomalies.go", `} else if offered.Count == 0 && !hasCardOfVendor(node, offered.Resource) {`, `} else if false {`, "a node whose device plugin has stopped has broken cards"},
	{"internal/cardinventory/anomalies.go", `strings.HasPrefix(string(other), vendor+"/") &&`, `strings.HasPrefix(string(other), vendor+"/") && other == resource &&`, "a node with slices has no broken whole cards"},
	{"internal/card/vendorresources.go", `/(.*[^a-z])?(rdma|`, `/.*(rdma|`, "a processor is no network device"},
	{"internal/cardinventory/anomalies.go", `countOf(node.Object.Status.Allocatable, anomaly.Resource))`, `countOf(node.Object.Status.Capacity, anomaly.Resource))`, "cards without a name are counted by allocatable"},
	{"internal/cardinventory/anomalies.go", `		sum.nodes[node] = true`, `		sum.nodes = map[string]bool{node: true}`, "an anomaly is of all its nodes"},
	{"internal/card/sharing.go", `string(resource)) > 1 && !hasSharesOf(`, `string(resource)) > 1 && hasSharesOf(`, "replicas of a profile without a resource of their own are shares"},
	{"internal/card/mapping.go", `return Name(model + sliceSuffix(m.Resource, isShared))`, `return Name(model + sliceSuffix(m.Resource, !isShared))`, "a mapped slice and its share are two cards"},
	{"internal/card/noderecognition.go", `case offered.Count < 2*labelled.number:`, `case offered.Count <= 2*labelled.number:`, "twice as many cards as labelled are shares"},
	{"internal/card/noderecognition.go", `case !isLabelled || offered.Count <= labelled.number:`, `case !isLabelled || offered.Count < labelled.number:`, "as many cards as labelled are no anomaly"},
	{"internal/card/sharing.go", `if err != nil || replicas == 0 {
		return 1`, `if err != nil {
		return 1`, "no replicas are one"},
	{"internal/workload/resolver.go", `inv.CardInUseOnNode(node, requested.Resource)`, `inv.CardOnNode(node, requested.Resource)`, "cards that are withheld stay charged"},
	{"internal/cardinventory/anomalies.go", `if offered.Count == 0 && l.offersAnotherForm(node, offered) {`, `if offered.Count < 0 {`, "a card in another form is not broken"},
	{"internal/card/noderecognition.go", `		for _, resource := range out.Unnamed {`, `		for _, resource := range out.Unnamed[:min(1, len(out.Unnamed))] {`, "each resource without a label is an anomaly"},
	{"internal/card/noderecognition.go", `			r.withhold(NoModelLabel, resource, "offers`, `			r.withhold(InvalidLabel, resource, "offers`, "a slice beside another vendor's label has no model"},
	{"internal/card/noderecognition.go", `			r.withhold(InvalidLabel, resource, "offers %s, which makes`, `			r.withhold(NoModelLabel, resource, "offers %s, which makes`, "a profile that makes no card name has an invalid label"},
	{"internal/card/mappedrecognition.go", `		m.withhold(Anomaly{SeveralModels, resource,`, `		m.withhold(Anomaly{InvalidLabel, resource,`, "two entries for one node are several models"},
	{"internal/card/mappedrecognition.go", `			return "", &Anomaly{NoModelLabel, m.Resource,`, `			return "", &Anomaly{InvalidLabel, m.Resource,`, "a mapping by a missing label names no model"},
	{"internal/card/mappedrecognition.go", `		return "", &Anomaly{InvalidLabel, m.Resource, fmt.Sprintf("offers %s, which makes`, `		return "", &Anomaly{NoModelLabel, m.Resource, fmt.Sprintf("offers %s, which makes`, "a mapped label that makes no card name is invalid"},
}
