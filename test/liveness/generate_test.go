package liveness

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// generator draws random sequences.
type generator struct {
	*rand.Rand
	nodes []string
	// free is how many cards of each node are left, card which cards they are.
	free map[string]int
	card map[string]string
	// jobs are the numbers of pods by job, all the names of the jobs.
	jobs map[string]int
	all  []string
}

func pick[T any](g *generator, of ...T) T { return of[g.IntN(len(of))] }

func (g *generator) draw(percent int) bool { return g.IntN(100) < percent }

// generateSequence draws a random sequence.
func generateSequence(r *rand.Rand) sequence {
	g := newGenerator(r)
	policy := "policy"
	if g.draw(30) {
		policy += pick(g, " preempt=last", " preempt=last", " preempt=first")
	}

	if g.draw(20) {
		policy += " minimumRuntime=10m"
	}

	s := sequence{policy}
	for i := range 2 + g.IntN(3) {
		s = append(s, g.drawNode(fmt.Sprintf("n%d", i)))
	}

	for _, queue := range []string{"inf", "inf2", "tra", "tra2", "plain", "free"} {
		s = append(s, g.drawQueue(queue))
	}

	s = append(s, g.drawJobs(6)...)
	for range g.IntN(7) {
		s = append(s, g.drawDisturbance()...)
	}

	return s
}

func (g *generator) drawNode(name string) string {
	g.nodes = append(g.nodes, name)
	g.free[name] = 1 + g.IntN(4)
	g.card[name] = pick(g, "A", "A", "A", "A", "B")
	if g.draw(8) {
		text := fmt.Sprintf("node %s model=%s mig=1g.18gb cards=%d", name, g.card[name], g.free[name])
		g.card[name] += "/mig"
		return text
	}

	text := fmt.Sprintf("node %s model=%s cards=%d", name, g.card[name], g.free[name])
	if g.draw(10) {
		g.free[name] = 0 // nothing runs there yet
		text += " taint=" + taint
	}

	return text
}

var options = map[string]string{
	"inf": "priority=80000 serviceType=inference", "inf2": "priority=70000 serviceType=inference", "tra": "priority=20000 serviceType=training", "tra2": "priority=10000 serviceType=training", "plain": "priority=30000 reclaimable=false", "free": "priority=0 reclaimable=false",
}

func (g *generator) drawQuota(queue string) string {
	if queue == "free" {
		return "none"
	}
	return fmt.Sprintf(`{"A":%d,"B":%d,"A/mig-1g.18gb-mixed":%d}`, pick(g, 0, 1, 2, 4, 6, 9, 9), pick(g, 0, 2, 4), pick(g, 0, 4))
}

func (g *generator) drawQueue(name string) string {
	return fmt.Sprintf("queue %s quota=%s %s", name, g.drawQuota(name), options[name])
}

// drawJobOptions draws the common options of jobs: their cards, their owner and their priority.
func (g *generator) drawJobOptions(cards int) string {
	var words []string
	if cards != 1 {
		words = append(words, fmt.Sprintf("cards=%d", cards))
	}
	if g.draw(60) {
		words = append(words, pick(g, "owner=vcjob", "owner=vcjob", "owner=vcjob evictionPolicy=RestartJob"))
	}
	if g.draw(30) {
		words = append(words, pick(g, "priorityClass=low", "priorityClass=high"))
	}
	return strings.Join(words, " ")
}

// drawWaitingOptions draws options of a job that waits. A Volcano job may be enqueued already.
func (g *generator) drawWaitingOptions(cards int) string {
	drawn := g.drawJobOptions(cards)
	if strings.Contains(drawn, "owner=vcjob") && !strings.Contains(drawn, "evictionPolicy=") {
		drawn += " phase=Inqueue"
	}
	return drawn
}

// drawJobs draws up to so many running jobs, and some that are created later.
func (g *generator) drawJobs(running int) (s sequence) {
	for i := range 1 + g.IntN(running) {
		if text := g.drawRunningJob(fmt.Sprintf("r%d", i)); text != "" {
			s = append(s, text)
		}
	}

	for i := range 2 + g.IntN(4) {
		s = append(s, fmt.Sprintf("session %d: %s", 1+g.IntN(5), g.drawWaitingJob(fmt.Sprintf("w%d", i))))
	}
	return s
}

// drawRunningJob draws a running job, "" when there is no room for it.
func (g *generator) drawRunningJob(name string) string {
	cards := pick(g, 1, 1, 2)
	var on []string
	first := ""
	for range 1 + g.IntN(4) {
		n := pick(g, g.nodes...)
		if first == "" {
			first = g.card[n]
		}
		if g.free[n] >= cards && g.card[n] == first {
			g.free[n] -= cards
			on = append(on, n)
		}
	}

	if len(on) == 0 {
		return ""
	}

	g.jobs[name] = len(on)
	g.all = append(g.all, name)
	card := "card=" + first
	if strings.HasSuffix(first, "/mig") {
		card = "mig=1g.18gb card=" + strings.TrimSuffix(first, "/mig")
	}

	text := fmt.Sprintf("job %s queue=%s min=%d running=%s %s age=1h %s", name, pick(g, "tra", "tra", "tra", "tra2", "tra2", "plain", "inf2"), 1+g.IntN(len(on)), strings.Join(on, ","), card, g.drawJobOptions(cards))
	if g.draw(10) {
		text += " preemptable=false"
	}

	return strings.TrimSpace(text)
}

// drawWaitingJob draws a job that is created later.
func (g *generator) drawWaitingJob(name string) string {
	pods := 1 + g.IntN(4)
	g.jobs[name] = pods
	g.all = append(g.all, name)
	queue := pick(g, "inf", "inf", "inf", "inf", "inf", "inf2", "tra", "tra", "tra", "tra2", "plain", "free")
	least := pick(g, 1, pods, pods)

	if g.draw(15) { // of several roles
		pods = 3
		g.jobs[name] = pods
		return fmt.Sprintf("job %s queue=%s min=3 pending=3 card=A task=ps,pods:1,min:1,cards:%d task=w,pods:2,min:2,cards:%d %s", name, queue, g.IntN(2), 1+g.IntN(2), g.drawWaitingOptions(1))
	}

	card := pick(g, "card=A", "card=A", "card=A", "card=A|B", "card=B|A", "card=none")
	if g.draw(8) {
		card = pick(g, "card=B", "mig=1g.18gb card=A")
	}

	text := fmt.Sprintf("job %s queue=%s min=%d pending=%d %s %s", name, queue, least, pods, card, g.drawWaitingOptions(pick(g, 1, 1, 1, 2, 3)))
	for _, option := range []string{"podsPerNode=1", "toleration=reserved", "cpu=20"} {
		if g.draw(12) {
			text += " " + option
		}
	}

	return strings.TrimSpace(text)
}

// drawDisturbance draws changes from outside.
func (g *generator) drawDisturbance() []string {
	at := 1 + g.IntN(6)
	step := func(after int, format string, args ...any) string {
		return fmt.Sprintf("session %d: ", at+after) + fmt.Sprintf(format, args...)
	}

	node := pick(g, g.nodes...)
	job := pick(g, g.all...)
	queue := pick(g, "inf", "inf2", "tra", "tra2", "plain")
	switch g.IntN(10) {
	case 0:
		return []string{step(0, "cordon %s", node), step(1+g.IntN(3), "uncordon %s", node)}
	case 1:
		return []string{step(0, "down %s", node), step(1+g.IntN(3), "up %s", node)}
	case 2:
		return []string{step(0, "cordon %s", node)}
	case 3:
		return []string{step(0, "setQuota %s quota=%s", queue, g.drawQuota(queue))}
	case 4:
		return []string{step(0, "setQuota %s quota=%s", queue, g.drawQuota(queue)), step(1+g.IntN(3), "setQuota %s quota=%s", queue, g.drawQuota(queue))}
	case 5:
		return []string{step(0, "deleteJob %s", job)}
	case 6:
		return []string{step(0, "deletePod %s-%d", job, g.IntN(g.jobs[job]))}
	case 7:
		return []string{step(0, "delay %s sessions=%d", pick(g, "pods", "pods", "groups"), 1+g.IntN(4))}
	default:
		return []string{step(0, "faults percent=%d seed=%d", pick(g, 10, 30, 60), g.IntN(1000)), step(1+g.IntN(4), "faults percent=0 seed=0")}
	}
}
