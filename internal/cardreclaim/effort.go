package cardreclaim

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
