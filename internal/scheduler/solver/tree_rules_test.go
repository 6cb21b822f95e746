package solver

import "testing"

// released gives a job a level, and lets each of its pods release so much of the first quota.
func released(level int, amount int64, job Job) Job {
	job.Level = level
	for i := range job.Pods {
		job.Pods[i].Releases = []QuotaAmount{{0, amount}}
	}
	return job
}

// counted lets each pod of a job count so much against limits.
func counted(amount int64, job Job, limits ...int) Job {
	for i := range job.Pods {
		for _, limit := range limits {
			job.Pods[i].Takes = append(job.Pods[i].Takes, TakeAmount{limit, amount})
		}
	}
	return job
}

// onlyCounting lets the pods of a job only count against what is borrowed.
func onlyCounting(job Job) Job {
	for i := range job.Pods {
		job.Pods[i].OnlyCounts = true
	}
	return job
}

// quotaProblem is a problem with room on a node, and what is left of its quota at each level.
func quotaProblem(waiting int, cards float64, levels []int64, jobs ...Job) *Problem {
	return fullProblem(2, waiting, cards, jobs...).changed(func(p *Problem) {
		p.Quotas = []Quota{{Levels: levels}}
		p.Nodes[0].Free = Amounts{100}
		p.PodSets[0].Nodes = []int{0}
	})
}

func TestSolveForQuotasByLevel(t *testing.T) {
	checkVictims(t, map[string]ruleCase{
		"no victims when all levels have enough": {problem: quotaProblem(2, 1, []int64{2, 3, 2}, released(1, 1, gang(1, 0, 0)))},
		"a victim on another node when only the root lacks quota": {
			problem: quotaProblem(1, 1, []int64{5, 5, 0}, released(1, 1, gang(9, 1)), released(2, 1, gang(5, 1))), want: wholeJobs(1)},
		"a sibling when the parent lacks quota": {
			problem: quotaProblem(1, 1, []int64{5, 0, 0}, released(1, 1, gang(9, 1)), released(2, 1, gang(5, 1))), want: wholeJobs(0)},
		"no victims that release nothing at the level": {
			problem: quotaProblem(1, 1, []int64{5, 0, 0}, released(2, 1, gang(5, 1))), refused: true},
		"none for the queue's own quota": {
			problem: quotaProblem(1, 1, []int64{0, 5, 5}, released(1, 1, gang(5, 1)), released(2, 1, gang(5, 1))), refused: true},
		"victims at several levels for what several levels lack": {
			problem: quotaProblem(3, 1, []int64{5, 2, 0}, released(1, 1, gang(9, 1)), released(1, 1, gang(7, 1)), released(2, 1, gang(1, 1)), released(2, 1, gang(2, 1))),
			want:    wholeJobs(1, 2, 3)},
		"what exceeds the quota first": {
			problem: quotaProblem(1, 1, []int64{5, -2}, released(1, 1, gang(1, 1)), released(1, 1, gang(2, 1)), released(1, 1, gang(3, 1)), released(1, 1, gang(4, 1))),
			want:    wholeJobs(0, 1, 2)},
		"several victims for a pod of several cards": {
			problem: quotaProblem(1, 4, []int64{9, 1}, released(1, 1, gang(1, 1)), released(1, 2, gang(5, 1)), released(1, 1, gang(2, 1)), released(1, 1, gang(9, 1))),
			want:    wholeJobs(0, 1)},
		"elastic pods before a gang": {
			problem: quotaProblem(1, 1, []int64{5, 0}, released(1, 1, gang(1, 1)), released(1, 1, elasticJob(1, 90, 1, 1))), want: singlePods(1, 0)},
		"lower ranks first": {
			problem: quotaProblem(1, 1, []int64{5, 0}, withRank(1, released(1, 1, gang(1, 1))), released(1, 1, gang(90, 1))), want: wholeJobs(1)},
		"a victim that makes room and releases quota, not one for each": {
			problem: quotaProblem(1, 1, []int64{5, 0}, released(1, 1, gang(3, 1)), gang(2, 0), released(1, 1, gang(4, 0))).changed(func(p *Problem) { p.Nodes[0].Free = Amounts{0} }),
			want:    wholeJobs(2)},
		"one for each when that loses less": {
			problem: quotaProblem(1, 1, []int64{5, 0}, released(1, 1, gang(3, 1)), gang(2, 0), released(1, 1, gang(6, 0))).changed(func(p *Problem) { p.Nodes[0].Free = Amounts{0} }),
			want:    wholeJobs(0, 1)},
		"no pods for a quota that is exceeded but not used": {
			problem: quotaProblem(1, 1, []int64{1}).changed(func(p *Problem) { p.Quotas = append(p.Quotas, flatQuota(-9)) })},
	})
}

func TestSolveForQuotasOfAllNodes(t *testing.T) {
	uses := func(amount int64, left ...int64) func(p *Problem) {
		return func(p *Problem) {
			p.Quotas = append(p.Quotas, Quota{Levels: left})
			p.PodSets[0].Uses = []QuotaAmount{{1, amount}}
		}
	}

	cpu := func(level int, amount int64, job Job) Job {
		job.Level = level
		for i := range job.Pods {
			job.Pods[i].Releases = append(job.Pods[i].Releases, QuotaAmount{1, amount})
		}
		return job
	}

	checkVictims(t, map[string]ruleCase{
		"no victims when it suffices": {problem: quotaProblem(2, 1, []int64{5}, cpu(1, 1, gang(1, 1))).changed(uses(3, 6))},
		"a pod without cards": {
			problem: quotaProblem(2, 1, []int64{5, 5}, cpu(1, 4, gang(4, 1)), cpu(1, 3, gang(5, 1))).changed(uses(3, 6, 3)), want: wholeJobs(0)},
		"one victim for cards and CPU": {
			problem: quotaProblem(1, 1, []int64{5, 0}, released(1, 1, gang(3, 1)), cpu(1, 3, gang(3, 1)), cpu(1, 3, released(1, 1, gang(5, 1)))).changed(uses(3, 5, 0)),
			want:    wholeJobs(2)},
		"no victims when all of them release too little": {
			problem: quotaProblem(2, 1, []int64{5, 5}, cpu(1, 1, gang(4, 1)), cpu(1, 1, gang(5, 1))).changed(uses(3, 6, 3)), refused: true},
	})
}

func TestSolveWithinTakeLimits(t *testing.T) {
	limited := func(borrowed bool, most ...int64) func(p *Problem) {
		return func(p *Problem) {
			for _, n := range most {
				p.TakeLimits = append(p.TakeLimits, TakeLimit{Most: n, Borrowed: borrowed})
			}
		}
	}

	guarantee := func(most ...int64) func(p *Problem) { return limited(false, most...) }
	borrowed := func(most ...int64) func(p *Problem) { return limited(true, most...) }
	checkVictims(t, map[string]ruleCase{
		"up to the guarantee": {problem: fullProblem(1, 2, 1, counted(1, gang(1, 0, 0), 0)).changed(guarantee(2)), want: wholeJobs(0)},
		"no gang below the guarantee": {
			problem: fullProblem(1, 1, 1, counted(1, gang(1, 0, 0), 0), gang(9, 0)).changed(guarantee(1)), want: wholeJobs(1)},
		"a gang below what is deserved": {problem: fullProblem(1, 1, 1, counted(1, gang(1, 0, 0), 0), gang(9, 0)).changed(borrowed(1)), want: wholeJobs(0)},
		"the large gang last": {
			problem: fullProblem(1, 4, 1, counted(1, gang(1, 0, 0, 0), 0), counted(1, gang(1, 0), 0)).changed(borrowed(2)), want: wholeJobs(0, 1)},
		"no second gang when nothing is borrowed any more": {
			problem: fullProblem(1, 4, 1, counted(1, gang(1, 0, 0), 0), counted(1, gang(1, 0, 0), 0), gang(9, 0, 0)).changed(borrowed(2)), want: wholeJobs(0, 2)},
		"nothing when nothing is borrowed": {problem: fullProblem(1, 1, 1, counted(1, gang(1, 0), 0)).changed(borrowed(0)), refused: true},
		"a limit that nothing counts against does not matter": {
			problem: fullProblem(1, 1, 1, counted(1, gang(1, 0), 0)).changed(borrowed(3, 0)).changed(guarantee(0)), want: wholeJobs(0)},
		"elastic pods only while something is borrowed": {
			problem: fullProblem(1, 3, 1, counted(1, elasticJob(3, 1, 0, 0, 0), 0), gang(9, 0)).changed(borrowed(2)).changed(func(p *Problem) { p.Jobs[0].Whole = false }),
			want:    append(singlePods(0, 0, 1), wholeJobs(1)...)},
		"a whole job of which all that counts can be spared": {
			problem: fullProblem(1, 2, 1, elasticJob(1, 1, 0, 0)).changed(borrowed(2)).changed(func(p *Problem) { p.Jobs[0].Pods[0].Takes = []TakeAmount{{0, 2}} }),
			want:    wholeJobs(0)},
		"no job whose pods fit a limit only alone": {
			problem: fullProblem(1, 3, 1, counted(1, elasticJob(2, 1, 0, 0, 0), 0)).changed(guarantee(2)), refused: true},
		"of two queues each within its limit": {
			problem: fullProblem(1, 2, 1, counted(1, gang(1, 0), 0), counted(1, gang(2, 0), 0), counted(1, gang(8, 0), 1)).changed(guarantee(1, 1)), want: wholeJobs(0, 2)},
		"of two queues within their parent's limit": {
			problem: fullProblem(1, 2, 1, counted(1, gang(1, 0), 0, 2), counted(1, gang(2, 0), 1, 2), gang(9, 0)).changed(guarantee(5, 5, 1)), want: wholeJobs(0, 2)},
		"the gang of the one queue and then the other's, as the parent allows": {
			problem: fullProblem(1, 5, 1, counted(1, gang(1, 0, 0, 0), 0, 2), counted(1, gang(1, 0, 0), 1, 2)).changed(borrowed(1, 1, 3)), want: wholeJobs(0, 1)},
		"not both when each must be the last of the parent": {
			problem: fullProblem(1, 5, 1, counted(1, gang(1, 0, 0, 0), 0, 2), counted(1, gang(1, 0, 0), 1, 2)).changed(borrowed(1, 1, 2)), refused: true},
		"a pod that only counts beyond what is borrowed": {
			problem: fullProblem(1, 2, 1, onlyCounting(counted(1, gang(1, 0), 0)), onlyCounting(counted(1, gang(2, 0), 0)), gang(9, 0)).changed(borrowed(1)), want: wholeJobs(0, 1)},
		"what only counts uses up what is borrowed": {
			problem: fullProblem(1, 2, 1, onlyCounting(counted(1, gang(1, 0), 0)), counted(1, gang(2, 0), 0), gang(9, 0)).changed(borrowed(1)), want: wholeJobs(0, 2)},
		"and leaves the rest of it": {
			problem: fullProblem(1, 2, 1, onlyCounting(counted(1, gang(1, 0), 0)), counted(1, gang(2, 0), 0), gang(9, 0)).changed(borrowed(2)), want: wholeJobs(0, 1)},
		"of which the last job may be larger": {
			problem: fullProblem(1, 3, 1, onlyCounting(counted(1, gang(1, 0), 0)), counted(1, gang(2, 0, 0), 0), gang(99, 0, 0)).changed(borrowed(2)), want: wholeJobs(0, 1)},
		"the tree takes nothing before the other rule takes more": {
			problem: fullProblem(1, 2, 1, counted(1, gang(1, 0), 0), onlyCounting(counted(2, gang(2, 0), 0)), gang(9, 0)).changed(borrowed(2)), want: wholeJobs(0, 2)},
		"a guarantee also refuses what only counts elsewhere": {
			problem: fullProblem(1, 1, 1, onlyCounting(counted(1, gang(1, 0), 0, 1)), gang(9, 0)).changed(borrowed(1)).changed(guarantee(0)), want: wholeJobs(1)},
		"a higher rank where the limit keeps the lower one": {
			problem: fullProblem(1, 2, 1, counted(1, gang(1, 0), 0), counted(1, gang(2, 0), 0), withRank(1, gang(9, 0))).changed(guarantee(1)), want: wholeJobs(0, 2)},
	})
}
