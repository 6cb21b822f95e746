package liveness

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// generateTurns draws a random sequence in which a gang of inference waits behind jobs of training that
// end one by one, and of which new ones come all the time.
func generateTurns(r *rand.Rand) sequence {
	g := newGenerator(r)
	if g.draw(50) {
		s := sequence{"policy reclaim=off", "queue inf quota={\"A\":9} priority=80000 serviceType=inference", "queue tra quota={\"A\":20} priority=20000 serviceType=training"}
		return append(s, g.drawSteadyTurns()...)
	}
	s := sequence{g.drawTurnPolicy("policy")}
	s = append(s, "queue inf quota={\"A\":9,\"B\":9} priority=80000 serviceType=inference", "queue inf2 quota={\"A\":9,\"B\":9} priority=70000 serviceType=inference",
		"queue tra quota={\"A\":20,\"B\":20} priority=20000 serviceType=training", "queue tra2 quota={\"A\":20,\"B\":20} priority=10000 serviceType=training")
	return append(s, g.drawTurns(pick(g, "inf", "inf", "inf2"), 9, []string{"tra", "tra", "tra2"}, pick(g, 1, 1, 2))...)
}

// generateTreeTurns draws the same in a tree: the gang is within what its queue deserves, and the jobs
// of the other queues borrow.
func generateTreeTurns(r *rand.Rand) sequence {
	g := newGenerator(r)
	if g.draw(50) {
		s := sequence{"policy queueHierarchy=Tree reclaim=off", "queue inf quota={\"A\":20} " + pick(g, options["inf"], options["tra2"]) + " deserved={\"A\":4}", "queue tra quota={\"A\":20} priority=20000 serviceType=training deserved={\"A\":0}"}
		return append(s, g.drawSteadyTurns()...)
	}

	s := sequence{g.drawTurnPolicy("policy queueHierarchy=Tree")}
	deserved := 1 + g.IntN(4)
	above := []string{"", ""}
	if g.draw(50) {
		s = append(s, fmt.Sprintf("queue t0 quota={\"A\":20} reclaimable=false parentOnly=true deserved={\"A\":%d}", deserved+g.IntN(2)),
			"queue t1 quota={\"A\":20} reclaimable=false parentOnly=true deserved={\"A\":3}")
		above = []string{" parent=t0", pick(g, " parent=t1", " parent=t0", "")}
	}

	s = append(s, fmt.Sprintf("queue inf quota={\"A\":20} %s deserved={\"A\":%d}%s", pick(g, options["inf"], options["tra"], options["tra2"]), deserved, above[0]),
		fmt.Sprintf("queue tra quota={\"A\":20} %s deserved={\"A\":%d}%s", pick(g, options["tra"], options["tra"], "priority=30000 serviceType=training"), pick(g, 0, 0, 0, 1, 3), above[1]),
		fmt.Sprintf("queue tra2 quota={\"A\":20} priority=20000 serviceType=training deserved={\"A\":%d}", pick(g, 0, 0, 0, 2)))
	return append(s, g.drawTurns("inf", deserved, []string{"tra", "tra", "tra2"}, 1)...)
}

// drawTurnPolicy draws why cards are not simply taken back: none are, or only later, or they are.
func (g *generator) drawTurnPolicy(policy string) string {
	if g.draw(30) {
		policy += " preempt=last"
	}
	policy += pick(g, " reclaim=off", " minimumRuntime=10m", " minimumRuntime=10m", "")
	return policy + pick(g, "", "", " period=20s", " period=1m")
}

// drawTurns draws full nodes, a gang of a queue that fits them, and jobs of other queues that come and
// end.
func (g *generator) drawTurns(queue string, most int, others []string, each int) []string {
	var s []string
	for i := range 1 + g.IntN(3) {
		name := fmt.Sprintf("n%d", i)
		g.free[name] = 1 + g.IntN(4)
		s = append(s, fmt.Sprintf("node %s model=A cards=%d", name, g.free[name]))
		g.nodes = append(g.nodes, name)
	}

	fits := 0
	running := 0
	for _, node := range g.nodes {
		fits += g.free[node] / each
		for left := g.free[node] - pick(g, 0, 0, 0, 1); left > 0; running++ {
			cards := min(left, pick(g, 1, 1, 1, 2))
			left -= cards
			s = append(s, fmt.Sprintf("job r%d queue=%s min=1 running=%s card=A cards=%d age=%s%s", running, pick(g, others...), node, cards, pick(g, "1m", "2m", "1h"), g.drawEnding()))
		}
	}

	pods := max(1, min(1+g.IntN(4), fits, most/each))
	at := 2 + g.IntN(3)
	s = append(s, fmt.Sprintf("session %d: job w0 queue=%s min=%d pending=%d card=A cards=%d %s", at, queue, pods, pods, each, pick(g, "", "owner=vcjob phase=Inqueue")))
	return append(s, g.drawComingAndEnding(at, 2*running+each*pods+6, others)...)
}

// drawSteadyTurns draws full nodes, a gang that waits for some of their cards, and an elastic job of which one
// pod after the other ends and is created again. Without the turn of the gang it takes each card that becomes
// free, before the next one does.
func (g *generator) drawSteadyTurns() []string {
	var s, on []string
	for i := range 1 + g.IntN(2) {
		name := fmt.Sprintf("n%d", i)
		cards := 2 + g.IntN(3)
		s = append(s, fmt.Sprintf("node %s model=A cards=%d", name, cards))
		for range cards {
			on = append(on, name)
		}
	}

	pods := 2 + g.IntN(min(len(on), 4)-1)
	s = append(s, fmt.Sprintf("job r0 queue=tra min=1 running=%s pending=%d card=A age=1h", strings.Join(on, ","), 1+g.IntN(3)),
		fmt.Sprintf("session 3: job w0 queue=inf min=%d pending=%d card=A %s", pods, pods, pick(g, "", "owner=vcjob phase=Inqueue")))
	for i := range 2*len(on) + 2*pods {
		s = append(s, fmt.Sprintf("session %d: deletePod r0-%d", 5+4*i, i%len(on)))
	}

	return s
}

// drawComingAndEnding draws jobs of one pod that come and end until enough others have ended.
func (g *generator) drawComingAndEnding(from, sessions int, queues []string) []string {
	var s []string
	for i := range sessions {
		queue := pick(g, queues...)
		s = append(s, fmt.Sprintf("session %d: job s%d queue=%s min=1 pending=1 card=A cards=%d%s", from-1+i, i, queue, pick(g, 1, 1, 1, 2), g.drawEnding()),
			fmt.Sprintf("session %d: deleteOldestJob queue=%s", from+1+i, queue))
	}
	return s
}
