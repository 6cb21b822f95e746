package cardreclaim

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/testing/session"
)

// newTree returns a world with queues in a tree, one statement each: "b<a 8/4/2 training" is a
// queue b below a that has quota 8, deserves 4 and is guaranteed 2 of card A. The plugin gets a new
// cache, because it remembers by name which queues may not borrow.
func newTree(queues, text string, changes ...func(*corev1.Pod)) *world {
	w := &world{Cluster: session.New(""), habits: fakePolicies{}, args: framework.Arguments{"queueHierarchy": "Tree"}}
	useNewCache()
	for _, statement := range strings.Split(queues, ";") {
		w.add(queueText(statement))
	}
	return w.add(text, changes...)
}

// useNewCache gives the plugin a new cache, as a restart of the scheduler does.
func useNewCache() {
	cards = capacitycard.NewCache()
	framework.RegisterPluginBuilder(capacitycard.PluginName, capacitycard.Builder(cards))
}

// queueText returns a queue of newTree in the format of package session.
func queueText(statement string) string {
	words := strings.Fields(statement)
	name, parent, isChild := strings.Cut(words[0], "<")
	amounts := append(strings.Split(words[1], "/"), "0", "0")

	priority := 20000
	if slices.Contains(words, "inference") {
		priority = 80000
	}

	text := fmt.Sprintf(`queue %s {"A":%s,"B":%s} deserved={"A":%s,"B":%s} guarantee={"A":%s} cpu=1000 %d %s`,
		name, amounts[0], amounts[0], amounts[1], amounts[1], amounts[2], priority, strings.Join(words[2:], " "))
	if isChild {
		text += " parent=" + parent
	}

	return text
}
