package cardreclaim

// Bounds of reworking a plan: the units of a neighbourhood without and with the
// promising ones, the work that goes into one, and into all.
const (
	mostNear       = 32
	mostPromising  = 48
	mostNearWork   = 20_000
	mostReworkings = 600_000
)

// rework decides anew, for each unit that was taken, about all units near it, and
// leaves the others as they are, until no such change costs less.
func (s *state) rework(found *state) *state {
	m, promising := s.model, s.inOrder(s.useful())
	end := m.work + mostReworkings
	tried := make([]bool, len(m.units))
	for again := true; again; {
		again = false
		for _, u := range m.dearest(found.chosen) {
			if tried[u] || !found.in[u] {
				continue
			}
			if m.work += len(m.pool); m.work > end || m.exhausted() {
				return found
			}
			tried[u] = true
			near := m.near(u, promising)
			if better := found.except(near).best(near, found, mostNearWork); better != nil && better.cost.compare(found.cost) < 0 {
				found, again = better, true
				for _, v := range near {
					tried[v] = false
				}
			}
		}
	}
	return found
}

// near lists units around one: those of its job, of the jobs on its nodes, of the
// jobs on theirs, until they are too many, and then promising ones that can make
// room in the same pool.
func (m *model) near(u int, promising []int) []int {
	seen, jobs, units := map[int]bool{}, []int{}, []int(nil)
	add := func(job, most int) {
		span := m.jobs[job].units
		if size := span.end - span.from; !seen[job] && len(units)+size <= most {
			seen[job] = true
			jobs = append(jobs, job)
			for v := span.from; v < span.end; v++ {
				units = append(units, v)
			}
		}
	}
	add(m.units[u].job, mostNear)
	for i := 0; i < len(jobs); i++ {
		sites := m.jobs[jobs[i]].sites
		for s := sites.from; s < sites.end; s++ {
			m.spend(8 * len(m.on[m.sites[s].node]))
			for _, v := range m.on[m.sites[s].node] {
				add(m.units[v].job, mostNear)
			}
		}
	}
	pools := make([]bool, len(m.pools))
	m.each(u, func(s int) { pools[m.pool[m.sites[s].node]] = true })
	for _, v := range promising {
		if len(units) >= mostPromising {
			break
		}
		m.each(v, func(s int) {
			m.spend(1)
			if pools[m.pool[m.sites[s].node]] {
				add(m.units[v].job, mostPromising)
			}
		})
	}
	return units
}

// except is the state without some units.
func (s *state) except(units []int) *state {
	made := s.copy()
	for _, u := range units {
		if made.in[u] {
			made.drop(u)
		}
	}
	return made
}
