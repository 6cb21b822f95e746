package solver

// podOn is a pod with a card on a node.
func podOn(node int, loss int64) Pod { return Pod{Node: node, Usage: Amounts{1}, Loss: loss} }

// flatQuota is a quota with one level.
func flatQuota(left int64) Quota { return Quota{Levels: []int64{left}} }

// flatQuotas are quotas with one level.
func flatQuotas(left ...int64) (quotas []Quota) {
	for _, n := range left {
		quotas = append(quotas, flatQuota(n))
	}
	return quotas
}

// fullProblem is a problem with full nodes, and pending pods of so many cards each.
func fullProblem(nodes, pending int, cards float64, jobs ...Job) *Problem {
	p := &Problem{Quotas: flatQuotas(1000), Jobs: jobs}
	c := PodSet{Request: Amounts{cards}, Cards: int64(cards), Count: pending}
	for node := range nodes {
		p.Nodes = append(p.Nodes, Node{Free: Amounts{0}})
		c.Nodes = append(c.Nodes, node)
	}
	p.PodSets = []PodSet{c}
	return p
}

// solveAll solves a problem with the largest budget.
func solveAll(p *Problem) (*Plan, bool) {
	plan := Solve(p, MaxWork).Plan
	return plan, plan != nil
}
