package solver

import (
	"cmp"
	"math"
	"slices"
)

// model is a problem laid out for the search, with its numbers made sound: what
// is not a number, negative where it may not be or names something that is not
// there offers nothing and fits nowhere.
type model struct {
	dims   int
	room   []float64 // by node and resource
	excess []float64 // by resource: by how much requests may exceed what a node has
	pool   []int     // by node
	pools  []int64   // the last has no cards, for nodes that name none
	claims []claim
	order  []int // the claims for which pods wait, those that are hard to place first
	jobs   []job
	pods   []pod
	sites  []site
	roles  []int // by role of all jobs: how many can be spared
	units  []unit
	wanted []bool    // by node: somebody wants to run there
	on     [][]touch // by node: the units that give something there
	rank   []int     // by unit, from 0 on without gaps
	top    int       // the rank that is decided about
	given  []bool    // by unit: taken before the choice begins, and not up to it
	effort int       // done so far
	most   int       // of effort
	// refining is how much effort is left for making plans cheaper.
	refining int
	cut      bool // no more could go into something
}

// touch is a unit that gives something on a node, and its site there.
type touch struct{ unit, site int }

// claim is a Claim whose numbers are sound, and that names each of its nodes once.
type claim struct {
	Claim
	wants []bool // by node
}

// Bounds of sound numbers: the amount of a resource, and the pods that wait in
// one claim.
const (
	mostAmount  = 1e18
	mostWaiting = 1 << 20
)

// newModel lays out nodes and claims; the jobs follow when they are needed.
func newModel(p *Problem) *model {
	m := &model{dims: 1, pools: append(slices.Clone(p.Pools), 0), pool: make([]int, len(p.Nodes))}
	for i := range p.Claims {
		m.dims = max(m.dims, len(p.Claims[i].Request))
	}
	m.room, m.excess = make([]float64, len(p.Nodes)*m.dims), make([]float64, m.dims)
	for i, node := range p.Nodes {
		m.pool[i] = node.Pool
		if node.Pool < 0 || node.Pool >= len(p.Pools) {
			m.pool[i] = len(p.Pools)
		}
		for r, amount := range node.Room[:min(len(node.Room), m.dims)] {
			m.room[i*m.dims+r] = m.sound(r, amount)
		}
	}
	for i := range p.Claims {
		m.claims = append(m.claims, m.claim(&p.Claims[i]))
	}
	m.order = hardest(m.claims)
	return m
}

// beyondPools tells that the claims need more cards together than all pools have
// in which any of them could be placed.
func (m *model) beyondPools() bool {
	var need, have int64
	in := make([]bool, len(m.pools))
	for i := range m.claims {
		c := &m.claims[i]
		if c.Cards == 0 || c.Count == 0 {
			continue
		}
		if c.Cards > math.MaxInt64/int64(c.Count) {
			return false // the search finds out
		}
		need = sum(need, c.Cards*int64(c.Count))
		for _, node := range c.Nodes {
			in[m.pool[node]] = true
		}
	}
	for pool, wanted := range in {
		if wanted {
			have = sum(have, max(m.pools[pool], 0))
		}
	}
	return need > have
}

func (m *model) sound(resource int, amount float64) float64 {
	if math.IsNaN(amount) {
		return 0
	}
	m.part(resource, amount)
	return min(max(amount, -mostAmount), mostAmount)
}

// part notes an amount of a resource. Where all are whole the tolerance lets no
// request exceed anything.
func (m *model) part(resource int, amount float64) {
	if amount != math.Trunc(amount) {
		m.excess[resource] = tolerance
	}
}

// claim is a claim with sound numbers. It has no nodes when none of its pods wait.
func (m *model) claim(from *Claim) claim {
	c := claim{Claim: Claim{Request: make(Amounts, m.dims), Cards: max(from.Cards, 0), Count: max(from.Count, 0)}, wants: make([]bool, len(m.pool))}
	if c.Count == 0 {
		return c
	}
	for r, amount := range from.Request {
		if math.IsNaN(amount) || amount > mostAmount {
			amount = math.Inf(1)
		}
		c.Request[r] = max(amount, 0)
		m.part(r, amount)
	}
	m.look(len(from.Nodes))
	for _, node := range from.Nodes {
		if node >= 0 && node < len(c.wants) && !c.wants[node] {
			c.wants[node] = true
			c.Nodes = append(c.Nodes, node)
		}
	}
	return c
}

// hardest lists the claims for which pods wait so that those that are hard to place come
// first: more cards before fewer, then fewer nodes to choose from.
func hardest(claims []claim) []int {
	var order []int
	for i := range claims {
		if claims[i].Count > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &claims[a], &claims[b]
		return cmp.Or(cmp.Compare(y.Cards, x.Cards), cmp.Compare(len(x.Nodes), len(y.Nodes)))
	})
	return order
}

// fits is how many of a claim's pods what is available would take.
func (c *claim) fits(available []float64) int {
	n := math.MaxInt
	for i, request := range c.Request {
		if request > 0 {
			n = min(n, int(max(0, min(math.Floor((available[i]+tolerance)/request), math.MaxInt32))))
		}
	}
	if n == math.MaxInt {
		return c.Count // asks for nothing that is counted
	}
	return n
}

// tolerance is how much Volcano lets a request exceed what is idle
// (pkg/scheduler/api, minResource).
const tolerance = 0.1

// within is how many of a claim's pods a pool has cards for.
func (c *claim) within(pool int64) int {
	if c.Cards == 0 {
		return math.MaxInt32
	}
	return int(min(max(pool, 0)/c.Cards, math.MaxInt32))
}

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
