package cardreclaim

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/testing/session"
	"cardquota.dev/operator/internal/testing/words"
)

// newTree returns a scene with queues in a tree, one part between semicolons each, see queueText. The
// plugin gets a new cache, because it remembers by name which queues may not borrow.
func newTree(queues, text string, changes ...func(*corev1.Pod)) *scene {
	w := &scene{Cluster: session.New(""), habits: fakePolicies{}, args: framework.Arguments{"queueHierarchy": "Tree"}}
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

// queueText returns a queue of newTree in the format of package session: its words, with the numbers of
// card A for quota=, deserved= and guarantee=. Quota and deserved of card B are the same.
func queueText(text string) string {
	line := words.Lines("queue " + text)[0]
	described := []string{"queue", line.Name(), "cpu=1000"}
	for _, key := range []string{"deserved", "guarantee"} {
		if line.Value(key) == "" {
			line.Words = append(line.Words, words.Word{Key: key, Value: "0"})
		}
	}

	if line.Value("priority") == "" {
		priority := map[bool]string{true: "80000", false: "20000"}[line.Value("serviceType") == "inference"]
		line.Words = append(line.Words, words.Word{Key: "priority", Value: priority})
	}

	for _, word := range line.Words {
		switch word.Key {
		case "quota", "deserved":
			word.Value = fmt.Sprintf(`{"A":%s,"B":%s}`, word.Value, word.Value)
		case "guarantee":
			word.Value = fmt.Sprintf(`{"A":%s}`, word.Value)
		}
		described = append(described, word.String())
	}

	return strings.Join(described, " ")
}
