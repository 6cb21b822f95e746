package liveness

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"

	"cardquota.dev/operator/internal/testing/words"
)

// generatePreempting draws a random sequence in which jobs of several queues preempt: most queues are
// full of jobs of low priority, and jobs of high priority come. Pods may take long to end.
func generatePreempting(r *rand.Rand) sequence {
	g := newGenerator(r)
	s := sequence{g.drawPreemptPolicy()}
	for i := range 1 + g.IntN(3) {
		s = append(s, g.drawNode(fmt.Sprintf("n%d", i)))
	}
	running, used := g.drawFullQueues()
	for _, queue := range leaves {
		s = append(s, fmt.Sprintf("queue %s quota=%s %s", queue, g.drawTightQuota(used[queue]), options[queue]))
	}
	s = append(s, "queue free priority=0 reclaimable=false")
	return append(append(s, running...), g.drawPreemptors()...)
}

// generatePreemptingTree does the same in a tree of queues.
func generatePreemptingTree(r *rand.Rand) sequence {
	g := &treeGenerator{generator: newGenerator(r), of: map[string]string{}}
	s := sequence{g.drawPreemptPolicy() + " queueHierarchy=Tree"}
	for i := range 1 + g.IntN(3) {
		s = append(s, g.drawNode(fmt.Sprintf("n%d", i)))
	}

	for i := range g.IntN(3) {
		name := fmt.Sprintf("t%d", i)
		s = append(s, g.drawTreeQueue(name, "reclaimable=false parentOnly=true", 12))
		g.parents = append(g.parents, name)
	}

	for _, leaf := range leaves {
		s = append(s, g.drawTreeQueue(leaf, g.leafOptions(leaf), 9))
	}

	s = append(s, "queue free priority=0 reclaimable=false")
	running, _ := g.drawFullQueues()
	return append(append(s, running...), g.drawPreemptors()...)
}

func newGenerator(r *rand.Rand) *generator {
	return &generator{Rand: r, free: map[string]int{}, card: map[string]string{}, jobs: map[string]int{}}
}

// leaves are the queues with quotas, in flat sequences and in trees.
var leaves = []string{"inf", "inf2", "tra", "tra2", "plain"}

func (g *generator) drawPreemptPolicy() string {
	policy := "policy" + pick(g, " preempt=last", " preempt=last", " preempt=last", " preempt=first")
	if g.draw(20) {
		policy += " minimumRuntime=10m"
	}
	if g.draw(25) {
		policy += " reclaim=off"
	}
	return policy
}

// drawFullQueues draws running jobs, most of low priority, and returns the cards that each queue uses.
func (g *generator) drawFullQueues() (running []string, used map[string]map[string]int) {
	used = map[string]map[string]int{}
	for i := range 2 + g.IntN(5) {
		text := g.drawRunningJob(fmt.Sprintf("r%d", i))
		if text == "" {
			continue
		}

		queue := pick(g, leaves...)
		text = moveJob(text, queue)
		text += pick(g, " priorityClass=low", " priorityClass=low", " priorityClass=low", "", " priorityClass=high") + g.drawLongEnding()
		running = append(running, text)

		if used[queue] == nil {
			used[queue] = map[string]int{}
		}
		used[queue][g.cardOf(text)] += g.cardsOf(text)
	}

	return running, used
}

// moveJob moves a job to a queue, without a priority class.
func moveJob(text, queue string) string {
	line := words.Lines(text)[0]
	var kept []words.Word
	for _, word := range line.Words {
		switch word.Key {
		case "queue":
			kept = append(kept, words.Word{Key: "queue", Value: queue})
		case "priorityClass":
		default:
			kept = append(kept, word)
		}
	}

	line.Words = kept
	return line.String()
}

// cardOf returns the card that the text of a running job names, as quotas name it.
func (g *generator) cardOf(text string) string {
	line := words.Lines(text)[0]
	if line.Value("mig") != "" {
		return line.Value("card") + "/mig-1g.18gb-mixed"
	}
	return line.Value("card")
}

// cardsOf returns how many cards a running job uses.
func (g *generator) cardsOf(text string) int {
	line := words.Lines(text)[0]
	return mustParseInt(cmp.Or(line.Value("cards"), "1")) * g.jobs[line.Name()]
}

// drawTightQuota draws a quota with little or nothing unused.
func (g *generator) drawTightQuota(used map[string]int) string {
	var entries []string
	for _, card := range []string{"A", "B", "A/mig-1g.18gb-mixed"} {
		entries = append(entries, fmt.Sprintf("%q:%d", card, used[card]+pick(g, 0, 0, 0, 1, 2, 4)))
	}
	return "{" + strings.Join(entries, ",") + "}"
}

// drawLongEnding draws how long the pods of a job take to end. A few take longer than freed cards are kept
// after that.
func (g *generator) drawLongEnding() string {
	if g.draw(8) {
		return " gracePeriod=7m"
	}
	return g.drawEnding()
}

// drawEnding draws how long the pods of a job take to end: less than freed cards are kept.
func (g *generator) drawEnding() string {
	if g.draw(40) {
		return " gracePeriod=" + pick(g, "3s", "6s", "20s", "1m")
	}
	return ""
}

// drawPreemptors draws jobs that come later, most of high priority, and few disturbances.
func (g *generator) drawPreemptors() []string {
	var steps []string
	for i := range 2 + g.IntN(5) {
		text := moveJob(g.drawWaitingJob(fmt.Sprintf("w%d", i)), pick(g, leaves...))
		text += pick(g, " priorityClass=high", " priorityClass=high", " priorityClass=high", "", " priorityClass=low") + g.drawLongEnding()
		if g.draw(15) {
			text += " taskPriority=index"
		}
		steps = append(steps, fmt.Sprintf("session %d: %s", 1+g.IntN(6), text))
	}

	if g.draw(50) {
		for range 1 + g.IntN(3) {
			steps = append(steps, g.drawDisturbance()...)
		}
	}

	return steps
}
