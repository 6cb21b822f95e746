package liveness

import (
	"fmt"
	"math/rand/v2"
	"strings"
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
		s = append(s, fmt.Sprintf("queue %s %s %s", queue, g.drawTightQuota(used[queue]), options[queue]))
	}
	s = append(s, "queue free - 0 keeps")
	return append(append(s, running...), g.drawPreemptors()...)
}

// generatePreemptingTree does the same in a tree of queues.
func generatePreemptingTree(r *rand.Rand) sequence {
	g := &treeGenerator{generator: newGenerator(r), of: map[string]string{}}
	s := sequence{g.drawPreemptPolicy() + " tree"}
	for i := range 1 + g.IntN(3) {
		s = append(s, g.drawNode(fmt.Sprintf("n%d", i)))
	}

	for i := range g.IntN(3) {
		name := fmt.Sprintf("t%d", i)
		s = append(s, g.drawTreeQueue(name, "keeps parentonly=true", 12))
		g.parents = append(g.parents, name)
	}

	for _, leaf := range leaves {
		s = append(s, g.drawTreeQueue(leaf, g.leafOptions(leaf), 9))
	}

	s = append(s, "queue free - 0 keeps")
	running, _ := g.drawFullQueues()
	return append(append(s, running...), g.drawPreemptors()...)
}

func newGenerator(r *rand.Rand) *generator {
	return &generator{Rand: r, free: map[string]int{}, card: map[string]string{}, jobs: map[string]int{}}
}

// leaves are the queues with quotas, in flat sequences and in trees.
var leaves = []string{"inf", "inf2", "tra", "tra2", "plain"}

func (g *generator) drawPreemptPolicy() string {
	policy := "policy" + pick(g, " preempt", " preempt", " preempt", " preempt=first")
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
		name := fmt.Sprintf("r%d", i)
		text := g.drawRunningJob(name)
		if text == "" {
			continue
		}

		words := strings.Fields(text)
		words[1] = pick(g, leaves...)
		text = strings.NewReplacer(" class=low", "", " class=high", "").Replace(strings.Join(words, " "))
		text += pick(g, " class=low", " class=low", " class=low", "", " class=high") + g.drawLongEnding()
		running = append(running, "job "+text)

		if used[words[1]] == nil {
			used[words[1]] = map[string]int{}
		}
		used[words[1]][g.cardOf(text)] += g.cardsOf(text)
	}

	return running, used
}

// cardOf returns the card that the text of a running job names, as quotas name it.
func (g *generator) cardOf(text string) string {
	_, card, _ := strings.Cut(text, " card=")
	card = strings.Fields(card)[0]
	if strings.Contains(text, " mig ") {
		card += "/mig-1g.18gb-mixed"
	}
	return card
}

// cardsOf returns how many cards a running job holds.
func (g *generator) cardsOf(text string) int {
	each := 1
	if _, cards, is := strings.Cut(text, " cards="); is {
		each = mustParseInt(strings.Fields(cards)[0])
	}
	return each * g.jobs[strings.Fields(text)[0]]
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
		return " grace=7m"
	}
	return g.drawEnding()
}

// drawEnding draws how long the pods of a job take to end: less than freed cards are kept.
func (g *generator) drawEnding() string {
	if g.draw(40) {
		return " grace=" + pick(g, "3s", "6s", "20s", "1m")
	}
	return ""
}

// drawPreemptors draws jobs that come later, most of high priority, and few disturbances.
func (g *generator) drawPreemptors() []string {
	var steps []string
	for i := range 2 + g.IntN(5) {
		words := strings.Fields(g.drawWaitingJob(fmt.Sprintf("w%d", i)))
		words[1] = pick(g, leaves...)
		text := strings.NewReplacer(" class=low", "", " class=high", "").Replace(strings.Join(words, " "))
		text += pick(g, " class=high", " class=high", " class=high", "", " class=low") + g.drawLongEnding()
		if g.draw(15) {
			text += " rising"
		}
		steps = append(steps, fmt.Sprintf("at %d: job %s", 1+g.IntN(6), text))
	}

	if g.draw(50) {
		for range 1 + g.IntN(3) {
			steps = append(steps, g.drawDisturbance()...)
		}
	}

	return steps
}
