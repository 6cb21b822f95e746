package solver

import "slices"

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

// gang is a job of one-card pods that is evicted as a whole or not at all, and the loss of
// each.
func gang(loss int64, nodes ...int) Job {
	job := Job{Whole: true}
	for _, node := range nodes {
		job.Pods = append(job.Pods, podOn(node, loss))
	}
	return job
}

// elasticJob is a gang with elastic pods.
func elasticJob(spare int, loss int64, nodes ...int) Job {
	job := gang(loss, nodes...)
	job.Elastic = spare
	return job
}

// losingMore is a job that loses more as a whole than its pods do.
func losingMore(loss int64, job Job) Job {
	job.WholeLoss = loss
	return job
}

// repeatNode returns a node so many times.
func repeatNode(n, node int) []int { return slices.Repeat([]int{node}, n) }

// fullProblem is a problem with full nodes, and pending pods of so many cards each.
func fullProblem(nodes, waiting int, cards float64, jobs ...Job) *Problem {
	p := &Problem{Quotas: flatQuotas(1000), Jobs: jobs}
	c := PodSet{Request: Amounts{cards}, Cards: int64(cards), Count: waiting}
	for node := range nodes {
		p.Nodes = append(p.Nodes, Node{Free: Amounts{0}})
		c.Nodes = append(c.Nodes, node)
	}
	p.PodSets = []PodSet{c}
	return p
}

// changed returns the problem with something changed.
func (p *Problem) changed(change func(p *Problem)) *Problem {
	change(p)
	return p
}

// wholeJobs returns whole jobs as victims.
func wholeJobs(jobs ...int) []JobVictims {
	var all []JobVictims
	for _, job := range jobs {
		all = append(all, JobVictims{Job: job, Whole: true})
	}
	return all
}

// singlePods returns single pods of a job as victims.
func singlePods(job int, pods ...int) []JobVictims {
	return []JobVictims{{Job: job, Pods: pods}}
}

// solveAll solves a problem with the largest budget.
func solveAll(p *Problem) (*Plan, bool) {
	plan := Solve(p, maxRefineWork).Plan
	return plan, plan != nil
}
