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
	g := &generator{Rand: r, free: map[string]int{}, card: map[string]string{}, jobs: map[string]int{}}
	var s sequence

	policy := "policy"
	if g.draw(30) {
		policy += pick(g, " preempt", " preempt", " preempt=first")
	}

	if g.draw(20) {
		policy += " minimumRuntime=10m"
	}

	s = append(s, policy)
	for i := range 2 + g.IntN(3) {
		s = append(s, g.drawNode(fmt.Sprintf("n%d", i)))
	}

	for _, queue := range []string{"inf", "inf2", "tra", "tra2", "plain", "free"} {
		s = append(s, g.drawQueue(queue))
	}

	for i := range 1 + g.IntN(6) {
		if text := g.drawRunningJob(fmt.Sprintf("r%d", i)); text != "" {
			s = append(s, "job "+text)
		}
	}

	for i := range 2 + g.IntN(4) {
		s = append(s, fmt.Sprintf("at %d: job %s", 1+g.IntN(5), g.drawWaitingJob(fmt.Sprintf("w%d", i))))
	}
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
		text := fmt.Sprintf("mig %s %s %d", name, g.card[name], g.free[name])
		g.card[name] += "/mig"
		return text
	}

	text := fmt.Sprintf("node %s %s %d", name, g.card[name], g.free[name])
	if g.draw(10) {
		g.free[name] = 0 // nothing runs there yet
		text += " " + taint
	}

	return text
}

var options = map[string]string{
	"inf": "80000 inference", "inf2": "70000 inference", "tra": "20000 training", "tra2": "10000 training", "plain": "30000 keeps", "free": "0 keeps",
}

func (g *generator) drawQuota(queue string) string {
	if queue == "free" {
		return "-"
	}
	return fmt.Sprintf(`{"A":%d,"B":%d,"A/mig-1g.18gb-mixed":%d}`, pick(g, 0, 1, 2, 4, 6, 9, 9), pick(g, 0, 2, 4), pick(g, 0, 4))
}

func (g *generator) drawQueue(name string) string {
	return fmt.Sprintf("queue %s %s %s", name, g.drawQuota(name), options[name])
}

// drawJobOptions draws the common options of jobs: their cards, their owner and their priority.
func (g *generator) drawJobOptions(cards int) string {
	var words []string
	if cards != 1 {
		words = append(words, fmt.Sprintf("cards=%d", cards))
	}
	if g.draw(60) {
		words = append(words, pick(g, "vcjob", "vcjob", "vcjob=inelastic"))
	}
	if g.draw(30) {
		words = append(words, pick(g, "class=low", "class=high"))
	}
	return strings.Join(words, " ")
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
		card = "mig card=" + strings.TrimSuffix(first, "/mig")
	}

	text := fmt.Sprintf("%s %s %d: %s %s ran=1h %s", name, pick(g, "tra", "tra", "tra", "tra2", "tra2", "plain", "inf2"), 1+g.IntN(len(on)), strings.Join(on, " "), card, g.drawJobOptions(cards))
	if g.draw(10) {
		text += " protected"
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
		return fmt.Sprintf("%s %s 3: -*3 card=A tasks=ps*1/1,w*2/2 each=ps:%d,w:%d %s", name, queue, g.IntN(2), 1+g.IntN(2), g.drawJobOptions(1))
	}

	card := pick(g, "card=A", "card=A", "card=A", "card=A|B", "card=B|A", "card=-")
	if g.draw(8) {
		card = pick(g, "card=B", "mig card=A")
	}

	text := fmt.Sprintf("%s %s %d: -*%d %s %s", name, queue, least, pods, card, g.drawJobOptions(pick(g, 1, 1, 1, 2, 3)))
	for _, option := range []string{"apart", "tolerates", "cpu=20"} {
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
		return fmt.Sprintf("at %d: ", at+after) + fmt.Sprintf(format, args...)
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
		return []string{step(0, "quota %s %s", queue, g.drawQuota(queue))}
	case 4:
		return []string{step(0, "quota %s %s", queue, g.drawQuota(queue)), step(1+g.IntN(3), "quota %s %s", queue, g.drawQuota(queue))}
	case 5:
		return []string{step(0, "end %s", job)}
	case 6:
		return []string{step(0, "delete %s-%d", job, g.IntN(g.jobs[job]))}
	case 7:
		return []string{step(0, "hold %s %d", pick(g, "pods", "pods", "groups"), 1+g.IntN(4))}
	default:
		return []string{step(0, "faults %d %d", pick(g, 10, 30, 60), g.IntN(1000)), step(1+g.IntN(4), "faults 0 0")}
	}
}
