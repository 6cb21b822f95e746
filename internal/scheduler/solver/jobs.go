package solver

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
	m.look(count)
	m.jobs = make([]job, len(p.Jobs))
	m.pods = make([]pod, 0, count)
	m.sites = make([]site, 0, count)
	m.units = make([]unit, 0, count+len(p.Jobs))
	l := &layout{
		model: m,
		at:    make([]int, len(m.pool)),
		most:  math.MaxInt64 / int64(count+1),
	}
	m.wanted = make([]bool, len(m.pool))
	for i := range m.claims {
		for _, node := range m.claims[i].Nodes {
			m.wanted[node] = true
		}
	}
	for i := range p.Jobs {
		l.job(i, &p.Jobs[i])
	}
	m.addTouching()
	m.addRanks(p)
}

// layout is what laying out jobs needs to know.
type layout struct {
	*model
	at   []int // by node: the last site there
	most int64 // loss of a pod that can be added up for all without running over
}

func (l *layout) job(i int, from *Job) {
	j := &l.jobs[i]
	j.spare, j.roles, j.whole = max(from.Spare, 0), none, none
	if from.RoleSpare != nil {
		j.roles = len(l.roles)
		for _, spare := range from.RoleSpare {
			l.roles = append(l.roles, max(spare, 0))
		}
	}
	j.pods.from, j.sites.from, j.units.from = len(l.pods), len(l.sites), len(l.units)
	for k := range from.Pods {
		x := &from.Pods[k]
		made := pod{loss: min(max(x.Loss, 0), l.most), site: none, role: none}
		j.loss += made.loss
		if x.Node >= 0 && x.Node < len(l.wanted) && l.wanted[x.Node] {
			l.give(j, x, &made)
			if j.canSpare(from, x) {
				if from.RoleSpare != nil {
					made.role = j.roles + x.Role
				}
				l.units = append(l.units, unit{i, len(l.pods)})
			}
		}
		l.pods = append(l.pods, made)
	}
	j.pods.end, j.sites.end = len(l.pods), len(l.sites)
	if from.Whole && j.sites.end > j.sites.from {
		j.whole = len(l.units)
		l.units = append(l.units, unit{i, whole})
	}
	j.units.end = len(l.units)
}

// give notes what a pod gives, for itself and for its job on that node.
func (l *layout) give(j *job, x *Pod, made *pod) {
	made.gives = make([]float64, l.dims)
	for r, amount := range x.Gives[:min(len(x.Gives), l.dims)] {
		made.gives[r] = max(l.sound(r, amount), 0)
	}
	if s := l.at[x.Node]; s < j.sites.from || s >= len(l.sites) || l.sites[s].node != x.Node {
		l.at[x.Node] = len(l.sites)
		l.sites = append(l.sites, site{node: x.Node, gives: make([]float64, l.dims)})
	}
	made.site = l.at[x.Node]
	for r, amount := range made.gives {
		l.sites[made.site].gives[r] += amount
	}
}

// canSpare tells whether a pod may ever go while its job goes on.
func (j *job) canSpare(from *Job, x *Pod) bool {
	if j.spare == 0 || x.Protected {
		return false
	}
	return from.RoleSpare == nil || x.Role >= 0 && x.Role < len(from.RoleSpare) && from.RoleSpare[x.Role] > 0
}

// addTouching lists by node the units that give something there.
func (m *model) addTouching() {
	m.on = make([][]touch, len(m.pool))
	for u := range m.units {
		m.each(u, func(s int) {
			node := m.sites[s].node
			m.on[node] = append(m.on[node], touch{u, s})
		})
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

// price is what taking a unit loses when nothing of its job is taken yet, 0 below the
// rank that is decided about.
func (m *model) price(u int) Loss {
	if m.rank[u] != m.top {
		return Loss{}
	}
	if p := m.units[u].pod; p != whole {
		return Loss{Spared: m.pods[p].loss}
	}
	return Loss{Broken: m.jobs[m.units[u].job].loss, Jobs: 1}
}

// dearest sorts units so that those of the highest rank come first, then those that
// lose most, and of equals those of the last job.
func (m *model) dearest(units []int) []int {
	m.look(len(units))
	byLoss := slices.Clone(units)
	slices.SortFunc(byLoss, func(a, b int) int {
		return cmp.Or(cmp.Compare(m.rank[b], m.rank[a]), m.price(b).compare(m.price(a)), cmp.Compare(b, a))
	})
	return byLoss
}
