// Package solver chooses who gives cards back: whole jobs rather than parts of them, and the
// ones that lose least. It is pure: numbers in, a plan out; no client, no clock, no logger.
// The caller decides what may be taken at all.
package solver

// Answer is what a choice found.
type Answer struct {
	// Plan is who goes, nil when no plan was found.
	Plan *Plan
	// Effort is what went into the choice.
	Effort int
	// Cut tells that the choice ended for lack of effort: with a plan, that a
	// cheaper one may have been missed; without one, that there may be one.
	Cut bool
}

// ChooseWithin answers a problem at the least loss it finds: the least there is for a
// small problem, and close to it for a large one. There is no plan when not all that wait
// can be placed, whoever goes; then nobody goes. The effort that goes into making the
// first plan cheaper is bounded by most; the first plan has an effort of its own.
func ChooseWithin(p *Problem, most int) Answer {
	m := newModel(p)
	plan := m.answer(p, min(most, mostEffort))
	return Answer{Plan: plan, Effort: m.effort, Cut: m.cut}
}

// answer is the plan for the problem of the model, nil when none was found.
func (m *model) answer(p *Problem, most int) *Plan {
	for i := range m.claims {
		if m.claims[i].Count > mostWaiting {
			return nil
		}
	}
	if m.beyondPools() {
		return nil
	}
	m.allowPruning()
	free := m.rooms()
	if !free.short() {
		if place := free.places(); place != nil {
			return &Plan{Place: place}
		}
	}
	m.addJobs(p)
	m.refining = most
	best := m.chooseByRank()
	if best == nil {
		return nil
	}
	return best.plan(p)
}

// choose finds a first plan, and makes it cheaper as far as the effort goes.
func (m *model) choose() *state {
	s := m.first()
	if s == nil {
		if s = m.start(); s.potential(m.open()).short() {
			m.cut = false
			return nil
		}
		m.allowRefining()
		found, complete := s.tryAll()
		if !found {
			m.cut = !complete
			return nil
		}
		m.allowPruning()
		s.prune()
	}
	before := m.effort
	m.allowRefining()
	changed := s.refine()
	m.refining = max(0, m.refining-(m.effort-before))
	if changed {
		m.allowPruning()
		s.prune()
	}
	return s
}

// first is a plan that is found without a search, nil when that is none: what is
// best step by step, or all there is, without what is not needed.
func (m *model) first() *state {
	s := m.start()
	greedy := s.greedy()
	m.allowPruning()
	if !greedy {
		if s = m.everything(); s == nil {
			return nil
		}
		m.allowPruning()
	}
	s.prune()
	return s
}

// everything takes all there is, nil when even that is not enough.
func (m *model) everything() *state {
	all := m.start()
	for pass := range 2 {
		for u, x := range m.units {
			if (x.pod == whole) == (pass == 0) && all.possible(u) {
				all.take(u, none)
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
	plan := &Plan{Place: s.place}
	if len(s.order) == 1 {
		plan.Place = s.places()
	}
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

// mostEffort bounds what goes into one choice, beside its first plan. A count is
// the same on every machine, and one takes about 5 ns.
const mostEffort = 150_000_000

// ofLook is what a look at one node for one claim, or a change of it, counts for.
const ofLook = 4

// look counts looks at nodes for claims.
func (m *model) look(looks int) { m.effort += ofLook * looks }

// exhausted tells that no more may go into what is being done.
func (m *model) exhausted() bool {
	if m.effort <= m.most {
		return false
	}
	m.cut = true
	return true
}

// linear is so many looks at all nodes and pods for all claims.
func (m *model) linear(looks int) int {
	return ofLook * looks * (len(m.pool) + len(m.pods) + leastSize) * len(m.claims)
}

// leastSize is the size from which on effort follows the size of a problem: a
// small one is searched through.
const leastSize = 10_000

// Bounds of effort, in looks at all nodes and pods for all claims.
const (
	mostPruning  = 20 // for seating and pruning a first plan
	mostRanking  = 40 // for deciding about one rank after the other
	mostRefining = 20 // for making a plan cheaper
)

// allowPruning lets a first plan seat its pods and prune itself.
func (m *model) allowPruning() { m.most = m.effort + m.linear(mostPruning) }

// allowRefining lets a plan become cheaper, at most with the effort that is left for it.
func (m *model) allowRefining() { m.most = m.effort + min(m.refining, m.linear(mostRefining)) }
