package main

import "time"

const (
	// borrowColumns are the cards of a tree by queue.
	borrowColumns = `custom-columns=NAME:.metadata.name,PARENT:.spec.parent,CARD:.status.cards[*].name,QUOTA:.status.cards[*].quota,DESERVED:.status.cards[*].deserved,USED:.status.cards[*].used,BORROWED:.status.cards[*].borrowed`
	treeColumns   = `custom-columns=POD:.metadata.name,STATUS:.status.phase,CARD:.metadata.annotations.volcano\.sh/card\.name,NODE:.spec.nodeName`
	// treeSelector selects the pods of the third act.
	treeSelector = "app in (galaxies, supernovae, lensing, proteins, microscopy)"
)

func (g *tour) buildTree() {
	g.Headline("Third act: a tree of quotas", "An institute shares eight H800 and four MIG slices between two tenants. Each deserves half, and may borrow what the other leaves idle.")
	g.showKubectl("patch", "stp", "default", "--type=merge", "-p", `{"spec":{"queueHierarchy":"Tree"}}`)
	g.waitForPolicy() // admission judges quotas by the policy in force
	g.applyFiles("test", "demo", "workloads", "tree-quotas.yaml")
	g.showKubectl("wait", "cardq", "institute", "astronomy", "biology", "--for=condition=Ready", "--timeout=30s")
	g.showKubectl("get", "cardq", "institute", "astronomy", "biology", "-o", borrowColumns)
}

func (g *tour) lendAtNight() {
	g.Headline("Night: one tenant borrows", "Biology is idle. Astronomy trains on its own cards, and on those that biology deserves.")
	g.applyFiles("test", "demo", "workloads", "tree-night.yaml")
	for app, count := range map[string]int{"galaxies": 2, "supernovae": 2, "lensing": 4} {
		g.waitForRunning("app="+app, count)
	}
	g.waitForCards("astronomy", "borrowed", "4 2")
	g.showTree()
	g.printf("\nThe same as bars, where + is borrowed:\n")
	g.showKubectl("cardquota", "top", "institute")
}

func (g *tour) reclaimInTheMorning() {
	g.Headline("Morning: the owner reclaims", "Biology starts. It gets back what it deserves: one gang is evicted as a whole, and two pods of the elastic job. Astronomy keeps what it deserves.")
	began := time.Now()
	g.applyFiles("test", "demo", "workloads", "tree-morning.yaml")
	g.waitForRunning("app=proteins", 2)
	g.waitForRunning("app=microscopy", 2)
	g.printf("\nRunning %.1f s after the command:\n", time.Since(began).Seconds())

	g.waitForRunning("app=lensing", 2)
	g.waitForCards("astronomy", "borrowed", "0 0")
	g.waitForCards("biology", "used", "4 2")
	g.waitForCards("institute", "used", "8 4")
	g.showTree()
	g.checkOneGangRuns("app in (galaxies, supernovae)")
}

// waitForCards waits until a field of the cards of a CardQuota's status has the given numbers.
func (g *tour) waitForCards(name, field, want string) {
	g.waitForOutput(want, "get", "cardq", name, "-o", `go-template={{range $i, $c := .status.cards}}{{if $i}} {{end}}{{or .`+field+` 0}}{{end}}`)
}

// showTree shows what each queue of the tree uses, and which pods use the cards.
func (g *tour) showTree() {
	g.showKubectl("get", "cardq", "institute", "astronomy", "biology", "-o", borrowColumns)
	g.showKubectl("get", "pods", "-l", treeSelector, "--sort-by=.metadata.name", "-o", treeColumns)
}
