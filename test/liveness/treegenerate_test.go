package liveness

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// treeGenerator draws sequences of sessions with a tree of queues. The leaves have the names of
// the flat queues, so that the same jobs run in them.
type treeGenerator struct {
	*generator
	parents []string
	// of are the lines of the queues.
	of map[string]string
}

// generateTree draws a random sequence with a tree of queues, written by hand: the numbers may
// exceed their parents'.
func generateTree(r *rand.Rand) sequence {
	g := &treeGenerator{generator: newGenerator(r), of: map[string]string{}}
	s := sequence{"policy queueHierarchy=Tree"}
	if g.draw(15) {
		s[0] += " preempt=last"
	}

	if g.draw(20) {
		s[0] += " minimumRuntime=10m"
	}

	for i := range 1 + g.IntN(3) {
		s = append(s, g.drawNode(fmt.Sprintf("n%d", i)))
	}

	for i := range g.IntN(4) { // with the leaves at most four levels
		name := fmt.Sprintf("t%d", i)
		s = append(s, g.drawTreeQueue(name, "reclaimable=false parentOnly=true", 12))
		g.parents = append(g.parents, name)
	}

	for _, leaf := range []string{"inf", "inf2", "tra", "tra2", "plain"} {
		s = append(s, g.drawTreeQueue(leaf, g.leafOptions(leaf), 9))
	}

	s = append(s, "queue free priority=0 reclaimable=false")
	s = append(s, g.drawJobs(5)...)

	for range g.IntN(4) {
		if g.draw(50) {
			s = append(s, g.drawTreeChange())
		} else {
			s = append(s, slices.DeleteFunc(g.drawDisturbance(), func(step string) bool { return strings.Contains(step, ": setQuota ") })...)
		}
	}

	return s
}

// leafOptions draws the priority, type and reclaimability of a leaf.
func (g *treeGenerator) leafOptions(name string) string {
	text := options[name]
	if strings.HasPrefix(name, "inf") && g.draw(25) {
		text += " reclaimable=true"
	}
	if name == "tra2" && g.draw(50) {
		text = options["tra"] // of equal priority
	}
	return text
}

// drawTreeQueue draws the line of a queue in the tree.
func (g *treeGenerator) drawTreeQueue(name, options string, most int) string {
	text := fmt.Sprintf("queue %s quota=%s %s", name, g.drawAmounts(most, 90), options)
	if len(g.parents) > 0 && g.draw(75) {
		text += " parent=" + pick(g.generator, g.parents...)
	}
	text += " deserved=" + g.drawAmounts(most/2, 100)
	if g.draw(40) {
		text += " guarantee=" + g.drawAmounts(most/4, 70)
	}
	g.of[name] = text
	return text
}

// drawAmounts draws numbers of cards. A card may be missing.
func (g *treeGenerator) drawAmounts(most, percent int) string {
	var entries []string
	for _, card := range []string{"A", "B", "A/mig-1g.18gb-mixed"} {
		if g.draw(percent) {
			entries = append(entries, fmt.Sprintf("%q:%d", card, g.IntN(most+1)))
		}
	}
	return "{" + strings.Join(entries, ",") + "}"
}

// drawTreeChange draws a step that changes a queue: its numbers, a hold, or the end of one.
func (g *treeGenerator) drawTreeChange() string {
	leaf := pick(g.generator, "inf", "inf2", "tra", "tra2")
	text := g.of[leaf]
	switch {
	case strings.Contains(text, " stopPolicy="):
		text = text[:strings.Index(text, " stopPolicy=")]
	case g.draw(30):
		text += " stopPolicy=" + pick(g.generator, "Hold", "HoldAndDrain")
	default:
		words := strings.Fields(text)
		for i, word := range words {
			if strings.HasPrefix(word, "deserved=") {
				words[i] = "deserved=" + g.drawAmounts(5, 100)
			}
		}
		text = strings.Join(words, " ")
	}

	g.of[leaf] = text
	return fmt.Sprintf("session %d: %s", 1+g.IntN(6), text)
}
