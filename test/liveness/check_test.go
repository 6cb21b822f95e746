package liveness

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/test/observer/rule"
)

// startsWithin is how many sessions may pass until a unit that fits is bound, while nothing
// else waits. One session enqueues and binds it. The API server shows that in the next one, and
// a last refused write may cost two more.
const startsWithin = 5

// minRestartInterval is how soon after its start a reclaimed job counts as started in vain.
const minRestartInterval = 5 * time.Minute

// sessionMemory is what is remembered between sessions.
type sessionMemory struct {
	// evicted are evicted pods, by UID, taken those of this session.
	evicted, taken map[string]bool
	// lostCards is when cards were taken from a queue: in each session in which some were.
	lostCards map[string][]time.Time
	// fitsAlone is for how many sessions a unit has fitted while nothing else waited.
	fitsAlone map[string]int
	// unfinished are groups of which pods were evicted before and again now.
	unfinished map[string]bool
	// reclaimers are groups for which others were evicted after the last step, with the last
	// eviction.
	reclaimers map[string]reclaimRecord
	// reclaimed are the evictions for jobs of other queues, by "job for other".
	reclaimed map[string]reclaimRecord
	// wants are the groups for which others were evicted and that wait for that, turns those that wait
	// for the ends of others.
	wants map[string]*want
	// possibleWants are the groups for which pods may have been evicted, see recordPossibleWants.
	possibleWants map[string]bool
	turns         map[string]*turn
}

// reclaimRecord is when a job was evicted for another one.
type reclaimRecord struct {
	from string
	at   time.Time
	// placed are the pods that had a node then, pipelined those of the reclaimer that were
	// pipelined, by UID.
	placed, pipelined map[string]bool
	// nodes are the nodes to which they were pipelined.
	nodes []string
}

func newSessionMemory() sessionMemory {
	return sessionMemory{lostCards: map[string][]time.Time{}, evicted: map[string]bool{}, fitsAlone: map[string]int{}, unfinished: map[string]bool{}, reclaimers: map[string]reclaimRecord{}, reclaimed: map[string]reclaimRecord{}, wants: map[string]*want{}, possibleWants: map[string]bool{}, turns: map[string]*turn{}}
}

// checkSession checks a session before it closes, and returns what is wrong, or "".
func (w *sequenceRun) checkSession(before *sessionView) string {
	now := w.recount()
	w.after = now
	victims := w.victimGroups()
	w.traceSession(now, victims)
	wrong := firstWrong(w.checkPipelinedPods,
		func() string { return w.checkTree(before, now, victims) },
		func() string { return w.checkKeptCards(before, now) },
		func() string { return w.checkEvictions(now, victims) })
	if wrong != "" {
		return wrong
	}

	w.recordWants(now, victims)
	if wrong := w.checkTurns(before); wrong != "" {
		return wrong
	}

	w.recordLosses(now, victims)
	return w.countFitting(before)
}

// firstWrong runs checks, each if those before it have found nothing, and returns what is wrong, or "".
func firstWrong(checks ...func() string) string {
	for _, check := range checks {
		if wrong := check(); wrong != "" {
			return wrong
		}
	}
	return ""
}

// victimGroups returns the groups whose pods were evicted in this session, with their number.
func (w *sequenceRun) victimGroups() map[string]int {
	victims := map[string]int{}
	w.taken = map[string]bool{}
	for _, j := range w.ssn.Jobs {
		w.unfinished[j.Name] = false
		for _, task := range j.Tasks {
			w.unfinished[j.Name] = w.unfinished[j.Name] || w.evicted[string(task.Pod.UID)]
		}

		for _, task := range j.TaskStatusIndex[api.Releasing] {
			if uid := string(task.Pod.UID); task.Pod.DeletionTimestamp == nil && !w.evicted[uid] {
				w.evicted[uid] = true
				w.taken[uid] = true
				victims[j.Name]++
			}
		}
	}

	return victims
}

// traceSession records what a session did.
func (w *sequenceRun) traceSession(now *sessionView, victims map[string]int) {
	var words []string
	for _, g := range now.groups {
		text := fmt.Sprintf("%s[%s]", g.name, g.phase)
		for what, pods := range map[string][]*pod{"on": g.placed, "pipelined to": g.pipelined, "releasing from": g.releasing} {
			for _, p := range pods {
				text += fmt.Sprintf(" %s %s %s", p.name, what, p.node)
			}
		}

		if len(g.waiting) > 0 {
			text += fmt.Sprintf(" %d wait", len(g.waiting))
		}
		if victims[g.name] > 0 {
			text += fmt.Sprintf(" EVICTED %d", victims[g.name])
		}
		words = append(words, text)
	}
	w.tracef("%s", strings.Join(words, "; "))
}

// checkEvictions checks the evictions of a session.
func (w *sequenceRun) checkEvictions(now *sessionView, victims map[string]int) string {
	if len(victims) == 0 {
		return ""
	}

	var pipelined []*pod
	for _, g := range now.groups {
		pipelined = append(pipelined, g.pipelined...)
	}

	for _, g := range now.groups {
		if victims[g.name] == 0 {
			continue
		}
		if wrong := w.checkVictim(now, g, pipelined); wrong != "" {
			return wrong
		}
	}

	return firstWrong(
		func() string { return w.checkEvictedInVain(now, victims, len(pipelined)) },
		func() string { return w.checkEndingSuffices(now, victims) })
}

// checkEvictedInVain reports evictions for the only pipelined group if it fits without them.
func (w *sequenceRun) checkEvictedInVain(now *sessionView, victims map[string]int, pipelined int) string {
	for _, g := range now.groups {
		isOnlyReclaimer := len(g.pipelined) > 0 && pipelined == len(g.pipelined) && w.reclaimedFrom(now, g, victims)
		mayLackQuota := w.coolsDown(now, g.queue) || now.isAwaited(g) || w.mayKeepQuotaFrom(now, g)
		if isOnlyReclaimer && !mayLackQuota && now.fitsWithout(g) {
			return fmt.Sprintf("evicted in vain: %v for %s, which fits without that", victims, g.name)
		}
	}
	return ""
}

// checkPipelinedPods checks that all pipelined pods fit together once the evicted pods are gone.
func (w *sequenceRun) checkPipelinedPods() string {
	v := w.recount()
	nodes := map[string]*nodeView{}
	for _, n := range v.nodes {
		nodes[n.name] = n
		for _, p := range n.releasing {
			n.removePod(p)
		}
	}

	for _, g := range v.groups {
		for _, p := range g.pipelined {
			if !nodes[p.node].canRun(p) {
				return fmt.Sprintf("pipelined in vain: %s cannot be on node %s", p.name, p.node)
			}
		}
	}

	return ""
}

// canRun reports whether a node can run a pod that it already counts, beside the others that it counts.
func (n *nodeView) canRun(p *pod) bool {
	isAlone := !p.apart || n.apart[p.group] <= 1
	isTolerated := !n.tainted || p.tolerates
	if n.cards < 0 || n.cpu < 0 || !isAlone || !isTolerated {
		return false
	}
	return p.cards == 0 || p.allowsCard(n.card)
}

// fitsWithout reports whether the pipelined pods of a group fit beside all other pods,
// including the evicted ones.
func (v *sessionView) fitsWithout(g *group) bool {
	for _, n := range v.nodes {
		for _, p := range g.pipelined {
			if p.node == n.name {
				n.removePod(p)
			}
		}
	}
	if v.tree != nil {
		return v.mustFit(g.pipelined, v.treeFree(&startUnit{g, g.pipelined}))
	}
	return v.mustFit(g.pipelined, v.queues[g.queue].free)
}

// reclaimedFrom reports whether a group may reclaim from any of the victims.
func (w *sequenceRun) reclaimedFrom(now *sessionView, by *group, victims map[string]int) bool {
	return slices.ContainsFunc(now.groups, func(g *group) bool { return victims[g.name] > 0 && !w.isDrained(g.queue) && w.mayTake(now, by, g) })
}

// mayTake reports whether pods of one group may be evicted for another one.
func (w *sequenceRun) mayTake(now *sessionView, by, of *group) bool {
	reclaimer := now.queues[by.queue]
	victim := now.queues[of.queue]
	switch {
	case of.isProtected:
		return false
	case by.name == of.name:
		return w.preempts && outranks(by.pipelined, of.releasing)
	case by.queue == of.queue:
		return w.preempts && by.priority > of.priority && w.mayPreempt(by.name)
	case now.tree != nil:
		return now.mayTakeInTree(by, of)
	}

	return reclaimer.kind == "inference" && victim.kind == "training" && victim.gives && victim.priority < reclaimer.priority
}

// checkVictim checks the state of one group with evicted pods.
func (w *sequenceRun) checkVictim(now *sessionView, g *group, pipelined []*pod) string {
	if left := len(g.placed); left > 0 && left < g.min {
		return fmt.Sprintf("left below its minimum: %d pods of %s run, of which %d are the minimum", left, g.name, g.min)
	}

	if w.isDrained(g.queue) {
		if len(g.placed) > 0 {
			return fmt.Sprintf("drained by half: %d pods of %s stay", len(g.placed), g.name)
		}
		return ""
	}

	if w.unfinished[g.name] { // the rest of an earlier eviction
		return ""
	}

	var reclaimers []string
	for _, p := range pipelined {
		by := now.groups[slices.IndexFunc(now.groups, func(other *group) bool { return other.name == p.group })]
		if w.mayTake(now, by, g) && !slices.Contains(reclaimers, by.name) {
			reclaimers = append(reclaimers, by.name)
		}
	}

	if len(reclaimers) == 0 {
		return fmt.Sprintf("evicted for no pod: %s is evicted, and no pod that may reclaim from it is pipelined", g.name)
	}
	if len(reclaimers) > 1 {
		return ""
	}

	return w.checkReclaimedForOne(now, g, reclaimers[0])
}

// checkReclaimedForOne checks that a group was evicted for one other group.
func (w *sequenceRun) checkReclaimedForOne(now *sessionView, g *group, reclaimer string) string {
	by := now.groups[slices.IndexFunc(now.groups, func(other *group) bool { return other.name == reclaimer })]
	made := now.newReclaimRecord(g, by)
	last, known := w.reclaimed[g.name+" for "+by.name]
	if w.quiet {
		w.reclaimers[by.name] = made
	}

	if wrong := w.checkWantedTwice(now, by, g); wrong != "" {
		return wrong
	}
	if by.queue == g.queue { // preempt evicts pod by pod
		return ""
	}

	key := g.name + " for " + by.name
	w.reclaimed[key] = made
	isAgain := known && made.wantsAgain(last) && w.hasStartedSince(g, last) && time.Since(last.at) < minRestartInterval
	if w.quiet && isAgain && !w.mayTakeAgain(now, by, g, last) {
		return fmt.Sprintf("taken twice: %s, after %s", key, time.Since(last.at))
	}

	return ""
}

// newReclaimRecord records that a victim was evicted for another group.
func (v *sessionView) newReclaimRecord(victim, by *group) reclaimRecord {
	made := reclaimRecord{from: victim.name, at: time.Now(), placed: v.placedPods(), pipelined: map[string]bool{}}
	left := map[string]bool{} // the nodes of its releasing pods: only pods there have wanted its cards
	for _, p := range victim.releasing {
		left[p.node] = true
	}

	for _, p := range by.pipelined {
		made.nodes = append(made.nodes, p.node)
		if left[p.node] {
			made.pipelined[p.uid] = true
		}
	}

	return made
}

// mayTakeAgain reports whether a group may need cards of the same victim again, because of what happened
// since the last eviction.
func (w *sequenceRun) mayTakeAgain(now *sessionView, by, victim *group, last reclaimRecord) bool {
	return w.hasOtherCardsSince(victim, last.at) || now.isOvertaken(by, last) || slices.ContainsFunc(last.nodes, w.isUnavailable)
}

// hasOtherCardsSince reports whether a victim may have other cards than those that it lost at a moment: a quota
// that was lowered since gives cards back, and a job that has preempted has cards of others.
func (w *sequenceRun) hasOtherCardsSince(g *group, at time.Time) bool {
	return w.disturbed.After(at) || w.mayHaveWant(g.name)
}

// wantsAgain reports whether a pod was pipelined to cards of the same victim before.
func (r reclaimRecord) wantsAgain(last reclaimRecord) bool {
	for uid := range r.pipelined {
		if last.pipelined[uid] {
			return true
		}
	}
	return false
}

// hasStartedSince reports whether a releasing pod of a victim had no node at the last eviction.
func (w *sequenceRun) hasStartedSince(g *group, last reclaimRecord) bool {
	return slices.ContainsFunc(g.releasing, func(p *pod) bool { return w.taken[p.uid] && !last.placed[p.uid] })
}

// isDrained reports whether the stop policy of a queue or of an ancestor drains it.
func (w *sequenceRun) isDrained(queue string) bool {
	q := rule.NewTree(w.queueObjects, rule.UnmanagedEnforce).Queue(queue)
	return q != nil && q.Stop == rule.HoldAndDrain
}

// isUnavailable reports whether a node accepts no pods, so that its pipelined pods need another node.
func (w *sequenceRun) isUnavailable(name string) bool {
	node, known := w.ssn.Nodes[name]
	return !known || node.Node == nil || node.Node.Spec.Unschedulable || !node.Ready()
}

// placedPods returns the pods with a node, by UID.
func (v *sessionView) placedPods() map[string]bool {
	placed := map[string]bool{}
	for _, g := range v.groups {
		for _, p := range g.placed {
			placed[p.uid] = true
		}
	}
	return placed
}

// isOvertaken reports whether a job with precedence over a reclaimer has got pods placed since:
// it may have used what was freed. Precedence is a higher priority of the queue, or within the
// queue.
func (v *sessionView) isOvertaken(reclaimer *group, since reclaimRecord) bool {
	return slices.ContainsFunc(v.groups, func(g *group) bool {
		ahead := v.queues[g.queue].priority > v.queues[reclaimer.queue].priority || (g.queue == reclaimer.queue && g.priority > reclaimer.priority)
		return ahead && slices.ContainsFunc(g.placed, func(p *pod) bool { return !since.placed[p.uid] })
	})
}

// hasLostCardsSince reports whether other queues took cards back from a queue after a moment.
func (w *sequenceRun) hasLostCardsSince(queue string, since time.Time) bool {
	return slices.ContainsFunc(w.lostCards[queue], func(at time.Time) bool { return at.After(since) })
}

// countFitting counts the sessions in which a unit could start and nothing else waited.
func (w *sequenceRun) countFitting(v *sessionView) string {
	units := v.waitingUnits()
	waits := 0
	for _, g := range v.groups {
		if len(g.waiting)+len(g.pipelined) > 0 {
			waits++
		}
	}

	counted := map[string]int{}
	isAlone := w.quiet && waits == 1 && len(units) == 1 && !v.releases
	if isAlone && !w.coolsDown(v, units[0].queue) && v.unitFits(units[0]) {
		name := units[0].name + "/" + units[0].pods[0].uid
		counted[name] = w.fitsAlone[name] + 1
		if counted[name] > startsWithin {
			return fmt.Sprintf("fits and waits: %s, for %d sessions in which nothing else waited", w.describeUnit(units[0]), startsWithin)
		}
	}

	w.fitsAlone = counted
	return ""
}

// checkAtRest checks what is left when nothing changes any more.
func (w *sequenceRun) checkAtRest() string {
	return firstWrong(w.checkPipelinedAtRest, w.checkHalvesAtRest, w.checkDrainedAtRest, w.checkWaitingAtRest)
}

// checkPipelinedAtRest reports a job whose pods are pipelined and that does not start.
func (w *sequenceRun) checkPipelinedAtRest() string {
	for _, g := range w.after.groups {
		if !w.after.releases && len(g.pipelined) > 0 && len(g.pipelined)+len(g.placed) >= g.min {
			return fmt.Sprintf("pipelined and waits for ever: %s, though no pod is releasing", g.name)
		}
	}
	return ""
}

// checkHalvesAtRest reports a job that keeps fewer pods than its minimum after an eviction.
func (w *sequenceRun) checkHalvesAtRest() string {
	for _, g := range w.last.groups {
		lostPods := slices.ContainsFunc(g.placed, func(p *pod) bool { return w.evicted[p.uid] })
		if lostPods && len(g.placed) < g.min {
			return fmt.Sprintf("taken by half: %s has %d pods, and others were evicted", g.name, len(g.placed))
		}
	}
	return ""
}

// checkDrainedAtRest reports a job that runs in a drained queue.
func (w *sequenceRun) checkDrainedAtRest() string {
	for _, g := range w.last.groups {
		if w.isDrained(g.queue) && len(g.placed) > 0 {
			return fmt.Sprintf("drained and still runs: %s of queue %s", g.name, g.queue)
		}
	}
	return ""
}

// checkWaitingAtRest reports a unit that waits although it evicted others, fits or may reclaim.
func (w *sequenceRun) checkWaitingAtRest() string {
	v := w.last
	for _, u := range v.waitingUnits() {
		switch {
		case w.hasReclaimedInVain(v, u):
			return fmt.Sprintf("evicted in vain: %s for %s, which does not run", w.reclaimers[u.name].from, u.name)
		case v.unitFits(u):
			return "fits and waits for ever: " + w.describeUnit(u)
		case v.tree != nil && !w.reclaimsNothing && v.fitsByTree(u, w.runsEnough):
			return "below what it deserves and waits for ever: " + w.describeUnit(u)
		case v.tree == nil && !w.reclaimsNothing && v.fitsByReclaiming(u, w.runsEnough):
			return "may take and waits for ever: " + w.describeUnit(u)
		case w.fitsByPreempting(v, u):
			return "may preempt and waits for ever: " + w.describeUnit(u)
		}
	}

	return ""
}

// hasReclaimedInVain reports whether others were evicted for a unit that does not run, although no other job can
// have got what was freed.
func (w *sequenceRun) hasReclaimedInVain(v *sessionView, u *startUnit) bool {
	last, took := w.reclaimers[u.name]
	return took && len(u.placed) < u.min && !v.isOvertaken(u.group, last) && !w.hasLostCardsSince(u.queue, last.at)
}

// runsEnough reports whether a group has certainly run for its minimum runtime.
func (w *sequenceRun) runsEnough(g *group) bool {
	return len(g.placed) > 0 && !slices.ContainsFunc(g.placed, func(p *pod) bool {
		start := p.object.Status.StartTime
		return start == nil || (time.Since(start.Time) < w.minimumRuntime+10*time.Minute && w.minimumRuntime > 0)
	})
}

func (w *sequenceRun) describeUnit(u *startUnit) string {
	p := u.pods[0]
	return fmt.Sprintf("%s of queue %s (%s) lacks %d pods with %d cards of %v", u.name, u.queue, u.phase, len(u.pods), p.cards, p.names)
}
