package solver

import "slices"

// on is a pod with a card on a node.
func on(node int, loss int64) Pod { return Pod{Node: node, Usage: Amounts{1}, Loss: loss} }

// gang is a job of one-card pods that is taken whole or not at all, and loses so
// much with each of them.
func gang(loss int64, nodes ...int) Job {
	job := Job{Whole: true}
	for _, node := range nodes {
		job.Pods = append(job.Pods, on(node, loss))
	}
	return job
}

// elastic is a gang that can spare pods.
func elastic(spare int, loss int64, nodes ...int) Job {
	job := gang(loss, nodes...)
	job.Elastic = spare
	return job
}

// times is a node so many times.
func times(n, node int) []int { return slices.Repeat([]int{node}, n) }

// full is a problem in which pods wait for so many cards each, on nodes that are
// full.
func full(nodes, waiting int, cards float64, jobs ...Job) *Problem {
	p := &Problem{Quotas: []int64{1000}, Jobs: jobs}
	c := PodSet{Request: Amounts{cards}, Cards: int64(cards), Count: waiting}
	for node := range nodes {
		p.Nodes = append(p.Nodes, Node{Free: Amounts{0}})
		c.Nodes = append(c.Nodes, node)
	}
	p.PodSets = []PodSet{c}
	return p
}

// but is a problem with something changed.
func (p *Problem) but(change func(p *Problem)) *Problem {
	change(p)
	return p
}

// wholeJobs takes jobs whole.
func wholeJobs(jobs ...int) []JobVictims {
	var all []JobVictims
	for _, job := range jobs {
		all = append(all, JobVictims{Job: job, Whole: true})
	}
	return all
}

// pods takes single pods of a job.
func pods(job int, pods ...int) []JobVictims { return []JobVictims{{Job: job, Pods: pods}} }

// solveAll answers a problem with all the effort that a choice may take.
func solveAll(p *Problem) (*Plan, bool) {
	plan := Solve(p, maxRefineWork).Plan
	return plan, plan != nil
}
