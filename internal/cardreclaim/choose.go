package cardreclaim

// Choose answers a problem at the least loss it finds: the least there is for a
// small problem, and close to it for a large one. It is false when not all that
// wait can be placed, whoever goes; then nobody goes.
func Choose(p *Problem) (*Plan, bool) {
	plan, _ := ChooseWithin(p, mostEffort)
	return plan, plan != nil
}

// ChooseWithin is Choose with a bound of the effort, in amounts looked at, at
// most as much as Choose makes. It returns the effort that was made, and no plan
// when there is none, or none was found by then. Once the bound is reached it
// ends after a look or two at every node and job.
func ChooseWithin(p *Problem, most int) (*Plan, int) {
	asked := p.withoutEmpty()
	m := newModel(asked)
	m.most = min(most, mostEffort)
	plan := m.answer(asked)
	if plan != nil && asked != p {
		plan.Place = p.withEmpty(plan.Place)
	}
	return plan, m.effort
}

// answer is the plan for the problem of the model, nil when none was found.
func (m *model) answer(p *Problem) *Plan {
	for i := range m.claims {
		if m.claims[i].count > mostWaiting {
			return nil
		}
	}
	if m.beyondPools() {
		return nil
	}
	free := m.rooms()
	if !free.short() {
		if place := free.places(); place != nil {
			return &Plan{Place: place}
		}
	}
	m.addJobs(p)
	best := m.choose()
	if best == nil {
		return nil
	}
	return best.plan(p)
}

// choose goes from the quick to the thorough, and stops when nothing can lose
// less, or no more may go into it.
func (m *model) choose() *state {
	base := newState(m)
	limits := base.limits(m.all())
	if limits == nil {
		return nil
	}
	best := base.quick(limits)
	if best != nil && !limits.allow(best.cost) || m.exhausted() {
		return best
	}
	if best != nil {
		best = base.rework(best)
	}
	return base.exact(best)
}

// quick is the best of what is found without a search, nil when that is nothing.
func (s *state) quick(limits *limits) *state {
	var best *state
	keep := func(s *state) (done bool) {
		if s.prune() && (best == nil || s.cost.compare(best.cost) < 0) {
			best = s
		}
		return best != nil && !limits.allow(best.cost)
	}
	for _, better := range scores {
		if found := s.copy(); found.greedy(better) && found.enough() && keep(found) {
			return best
		}
	}
	if found := s.knapsack(); found != nil && keep(found) {
		return best
	}
	if best == nil && !s.exhausted() {
		if found := s.everything(); found != nil {
			keep(found)
		}
	}
	return best
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

// plan tells who goes and who comes, nil when the bound is reached before that is known.
func (s *state) plan(p *Problem) *Plan {
	place := s.places()
	if place == nil {
		return nil // the bound was reached before all were seated
	}
	plan := &Plan{Place: place}
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
