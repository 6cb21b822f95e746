package cardreclaim

// mostRefining bounds the work that goes into refining a plan.
const mostRefining = 400_000

// refine tries to do without each unit, those that lose most first, by taking
// others in its place, until no such change loses less.
func (s *state) refine() {
	var try state
	banned := make([]bool, len(s.units))
	for end := s.work + mostRefining; ; {
		better := false
		for _, u := range s.dearest(s.chosen) {
			for _, score := range scores[:2] {
				if s.work > end {
					return
				}
				try.set(s)
				try.drop(u)
				banned[u] = true
				ok := try.greedy(score, banned) && try.enough()
				banned[u] = false
				if !ok {
					continue
				}
				if try.prune(); try.cost.compare(s.cost) < 0 {
					s.set(&try)
					better = true
					break
				}
			}
			if better {
				break
			}
		}
		if !better {
			return
		}
	}
}
