package cardreclaim

// Choose answers a problem at the least loss it finds: the least there is for a
// small problem, and close to it for a large one. It is false when not all that
// wait can be placed, whoever goes; then nobody goes.
func Choose(p *Problem) (*Plan, bool) {
	m := newModel(p)
	for i := range m.claims {
		if m.claims[i].count > mostWaiting {
			return nil, false
		}
	}
	free := m.rooms()
	if !free.short() {
		if place := free.places(); place != nil {
			return &Plan{Place: place}, true
		}
	}
	m.addJobs(p)
	best := m.choose()
	if best == nil {
		return nil, false
	}
	return best.plan(p), true
}

// choose goes from the quick to the thorough, and stops when nothing can lose
// less.
func (m *model) choose() *state {
	base := newState(m)
	limits := base.limits(m.all())
	if limits == nil {
		return nil
	}
	var best *state
	keep := func(s *state) (done bool) {
		if s.prune(); best == nil || s.cost.compare(best.cost) < 0 {
			best = s
		}
		return !limits.allow(best.cost)
	}
	for _, better := range scores {
		if s := base.copy(); s.greedy(better) && s.enough() && keep(s) {
			return best
		}
	}
	if s := base.knapsack(); s != nil && keep(s) {
		return best
	}
	if best == nil {
		if s := base.everything(); s != nil && keep(s) {
			return best
		}
	}
	if best != nil {
		best = base.rework(best)
	}
	return base.exact(best)
}

func (m *model) all() []int {
	all := make([]int, len(m.units))
	for u := range all {
		all[u] = u
	}
	return all
}

// everything takes all there is, nil when even that is not enough.
func (s *state) everything() *state {
	all := s.copy()
	for pass := range 2 {
		for u, x := range s.units {
			if (x.pod == whole) == (pass == 0) && all.possible(u) {
				all.take(u)
			}
		}
	}
	if !all.enough() {
		return nil
	}
	return all
}

// plan tells who goes and who comes.
func (s *state) plan(p *Problem) *Plan {
	plan := &Plan{Place: s.places()}
	for j := range s.jobs {
		job, taking := &s.jobs[j], Taking{Job: j}
		for u := job.units.from; u < job.units.end; u++ {
			if x := s.units[u]; s.in[u] && x.pod == whole {
				taking.Whole, taking.Pods = true, nil
			} else if s.in[u] {
				taking.Pods = append(taking.Pods, x.pod-job.pods.from)
			}
		}
		switch {
		case taking.Whole:
			plan.Loss.Jobs++
			for i := range p.Jobs[j].Pods {
				plan.Loss.Broken = sum(plan.Loss.Broken, max(p.Jobs[j].Pods[i].Loss, 0))
			}
		case len(taking.Pods) > 0:
			for _, i := range taking.Pods {
				plan.Loss.Spared = sum(plan.Loss.Spared, max(p.Jobs[j].Pods[i].Loss, 0))
			}
		default:
			continue
		}
		plan.Take = append(plan.Take, taking)
	}
	return plan
}
