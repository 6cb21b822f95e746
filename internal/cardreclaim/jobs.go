package cardreclaim

import (
	"cmp"
	"math"
	"slices"
)

// whole, as the pod of a unit, means all pods of the job.
const whole = -1

// unit is what is taken in one step: one pod that its job can spare, or a job.
type unit struct{ job, pod int }

// job holds its places in the model's pods, sites, roles and units, each from
// the first to before the end.
type job struct {
	loss               int64
	spare              int
	pods, sites, units span
	roles              int // the first of them, none when roles do not matter
	whole              int // its unit, none when it may not be taken as a whole
}

type span struct{ from, end int }

const none = -1

type pod struct {
	gives []float64
	loss  int64
	site  int // none where nobody wants to run
	role  int // none when it does not matter
}

// site is what a job's pods give on one node.
type site struct {
	node  int
	gives []float64
}

// addJobs lays out who can be taken.
func (m *model) addJobs(p *Problem) {
	count := 0
	for i := range p.Jobs {
		count += len(p.Jobs[i].Pods)
	}
	m.jobs = make([]job, len(p.Jobs))
	m.pods = make([]pod, 0, count)
	m.sites = make([]site, 0, count)
	m.units = make([]unit, 0, count+len(p.Jobs))
	wanted, at := make([]bool, len(m.pool)), make([]int, len(m.pool))
	for i := range m.claims {
		for _, node := range m.claims[i].nodes {
			wanted[node] = true
		}
	}
	// Two amounts for each pod: its own, and at most one site.
	amounts := make([]float64, 2*count*m.dims)
	next := func() []float64 {
		a := amounts[:m.dims:m.dims]
		amounts = amounts[m.dims:]
		return a
	}
	// So much can be added up for all pods without running over.
	most := math.MaxInt64 / int64(count+1)
	for i := range p.Jobs {
		from, j := &p.Jobs[i], &m.jobs[i]
		j.spare, j.roles, j.whole = max(from.Spare, 0), none, none
		if from.RoleSpare != nil {
			j.roles = len(m.roles)
			for _, spare := range from.RoleSpare {
				m.roles = append(m.roles, max(spare, 0))
			}
		}
		j.pods.from, j.sites.from, j.units.from = len(m.pods), len(m.sites), len(m.units)
		for k := range from.Pods {
			x := &from.Pods[k]
			loss := min(max(x.Loss, 0), most)
			j.loss += loss
			made := pod{loss: loss, site: none, role: none}
			if x.Node >= 0 && x.Node < len(wanted) && wanted[x.Node] {
				made.gives = next()
				for r, amount := range x.Gives[:min(len(x.Gives), m.dims)] {
					made.gives[r] = max(sound(amount), 0)
				}
				if s := at[x.Node]; s < j.sites.from || s >= len(m.sites) || m.sites[s].node != x.Node {
					at[x.Node] = len(m.sites)
					m.sites = append(m.sites, site{node: x.Node, gives: next()})
				}
				made.site = at[x.Node]
				for r, amount := range made.gives {
					m.sites[made.site].gives[r] += amount
				}
			}
			sparable := j.spare > 0 && !x.Protected && made.site != none
			if from.RoleSpare != nil {
				if sparable = sparable && x.Role >= 0 && x.Role < len(from.RoleSpare) && from.RoleSpare[x.Role] > 0; sparable {
					made.role = j.roles + x.Role
				}
			}
			if sparable {
				m.units = append(m.units, unit{i, len(m.pods)})
			}
			m.pods = append(m.pods, made)
		}
		j.pods.end, j.sites.end = len(m.pods), len(m.sites)
		if from.Whole && j.sites.end > j.sites.from {
			j.whole = len(m.units)
			m.units = append(m.units, unit{i, whole})
		}
		j.units.end = len(m.units)
	}
	m.addTouching()
}

// addTouching lists by node the units that give something there.
func (m *model) addTouching() {
	count, total := make([]int, len(m.pool)), 0
	for pass := range 2 {
		for u := range m.units {
			m.each(u, func(s int) {
				node := m.sites[s].node
				if pass == 0 {
					count[node]++
					total++
				} else {
					m.on[node] = append(m.on[node], u)
				}
			})
		}
		if pass == 0 {
			m.on = make([][]int, len(m.pool))
			all := make([]int, total)
			for node, n := range count {
				m.on[node], all = all[:0:n], all[n:]
			}
		}
	}
}

// each calls for every site where a unit gives something.
func (m *model) each(u int, call func(s int)) {
	if p := m.units[u].pod; p != whole {
		call(m.pods[p].site)
		return
	}
	j := &m.jobs[m.units[u].job]
	for s := j.sites.from; s < j.sites.end; s++ {
		call(s)
	}
}

// price is what taking a unit loses when nothing of its job is taken yet.
func (m *model) price(u int) cost {
	if p := m.units[u].pod; p != whole {
		return cost{spared: m.pods[p].loss}
	}
	return cost{broken: m.jobs[m.units[u].job].loss, jobs: 1}
}

// dearest sorts units so that those that lose most come first, and of equals
// those of the last job.
func (m *model) dearest(units []int) []int {
	sorted := slices.Clone(units)
	slices.SortFunc(sorted, func(a, b int) int {
		return cmp.Or(m.price(b).compare(m.price(a)), cmp.Compare(b, a))
	})
	return sorted
}
