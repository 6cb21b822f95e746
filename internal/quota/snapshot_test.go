package quota

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// sums writes usages as text, the same for equal usages. A ledger may keep the empty usage of a
// queue that once had pods.
func sums(books []QueueUsage) string {
	var lines []string
	for _, b := range books {
		used := card.Quota{}
		for _, held := range b.Used {
			used[held.Name] = held.Count
		}

		line := fmt.Sprintf("%s of %s, %d, %d, %d pods", used, b.Limits.Cards, b.MilliCPU, b.Memory, b.Pods)
		if line != "{} of {}, 0, 0, 0 pods" {
			lines = append(lines, b.Queue+": "+line+"\n")
		}
	}

	slices.Sort(lines)
	return fmt.Sprint(lines)
}

// recount computes the usages from the pods and limits alone.
func recount(limits map[string]Limits, pods map[string]Charge) []QueueUsage {
	all := map[string]QueueUsage{}
	for queue, l := range limits {
		all[queue] = QueueUsage{Queue: queue, Limits: l}
	}

	used := map[string]map[card.Name]card.Count{}
	for _, c := range pods {
		b := all[c.Queue]
		b.Queue = c.Queue
		b.MilliCPU += c.MilliCPU
		b.Memory += c.Memory
		b.Pods++
		all[c.Queue] = b

		if used[c.Queue] == nil {
			used[c.Queue] = map[card.Name]card.Count{}
		}
		for _, held := range c.Cards {
			used[c.Queue][held.Name] += held.Count
		}
	}

	for queue, cards := range used {
		b := all[queue]
		for name, count := range cards {
			if count > 0 {
				b.Used = append(b.Used, card.Amount{Name: name, Count: count})
			}
		}
		all[queue] = b
	}

	return slices.Collect(maps.Values(all))
}

// TestSnapshotEqualsARecountAndNeverChanges takes a snapshot at every step of a random
// sequence. It compares all earlier ones again after each step.
func TestSnapshotEqualsARecountAndNeverChanges(t *testing.T) {
	queues := []string{"q", "r", "s"}
	names := []card.Name{"A", "B"}
	seed.Check(t, func(t *rapid.T) {
		a := New(0)
		limits := map[string]Limits{}
		pods := map[string]Charge{}

		type handedOut struct {
			books []QueueUsage
			said  string
		}

		var earlier []handedOut
		t.Repeat(map[string]func(*rapid.T){
			"charge": func(t *rapid.T) {
				c := Charge{Queue: rapid.SampledFrom(queues).Draw(t, "queue"), MilliCPU: rapid.Int64Range(0, 4000).Draw(t, "cpu"), Memory: rapid.Int64Range(0, 1<<40).Draw(t, "memory")}
				for _, n := range names {
					if rapid.Bool().Draw(t, "holds "+string(n)) {
						c.Cards = append(c.Cards, card.Amount{Name: n, Count: card.Count(rapid.IntRange(0, 8).Draw(t, "count"))})
					}
				}
				pod := fmt.Sprint("pod-", rapid.IntRange(0, 5).Draw(t, "pod"))
				pods[pod] = c
				a.Charge(pod, &c)
			},
			"refund": func(t *rapid.T) {
				pod := fmt.Sprint("pod-", rapid.IntRange(0, 5).Draw(t, "pod"))
				delete(pods, pod)
				a.Release(pod)
			},
			"set a quota": func(t *rapid.T) {
				queue := rapid.SampledFrom(queues).Draw(t, "queue")
				limits[queue] = Limits{Cards: card.Quota{"A": card.Count(rapid.IntRange(0, 8).Draw(t, "quota"))}}
				a.SetLimits(queue, limits[queue])
			},
			"a queue goes": func(t *rapid.T) {
				gone := rapid.SampledFrom(queues).Draw(t, "queue")
				delete(limits, gone)
				a.Retain(func(queue string) bool { return queue != gone })
			},
			"": func(t *rapid.T) {
				books := a.Snapshot()
				want := recount(limits, pods)
				check.Equal(t, "books, by a recount", sums(want), sums(books))

				for _, queue := range queues {
					of := QueueUsage{Queue: queue}
					if i := slices.IndexFunc(want, func(b QueueUsage) bool { return b.Queue == queue }); i >= 0 {
						of = want[i]
					}
					equalsNumbers(t, a, of, names)
				}

				for _, e := range earlier {
					now := sums(e.books)
					check.Must(t, now == e.said, "books that said %s say %s now", e.said, now)
				}

				earlier = append(earlier, handedOut{books: books, said: sums(books)})
			},
		})
	})
}

// equalsNumbers checks each number of a queue that can be asked for by itself.
func equalsNumbers(t *rapid.T, a *Ledger, want QueueUsage, names []card.Name) {
	for _, name := range names {
		var used card.Count
		for _, held := range want.Used {
			if held.Name == name {
				used = held.Count
			}
		}

		got := a.Used(want.Queue, name)
		check.Must(t, got == used, "queue %s uses %d of %s, a recount says %d", want.Queue, got, name, used)
	}

	cpu, memory := a.UsedCPUMemory(want.Queue)
	check.Must(t, cpu == want.MilliCPU && memory == want.Memory,
		"queue %s uses %d, %d, a recount says %d, %d", want.Queue, cpu, memory, want.MilliCPU, want.Memory)
}

func TestBooksOfAQuietQueueAreNotCopied(t *testing.T) {
	a := New(0)
	for _, queue := range []string{"quiet", "busy"} {
		a.Charge("pod-"+queue, &Charge{Queue: queue, Cards: []card.Amount{{Name: "A", Count: 1}}})
	}

	lists := func() map[string]*card.Amount {
		first := map[string]*card.Amount{}
		for _, b := range a.Snapshot() {
			first[b.Queue] = &b.Used[0]
		}
		return first
	}

	before := lists()
	a.Charge("another", &Charge{Queue: "busy", Cards: []card.Amount{{Name: "A", Count: 1}}})
	after := lists()
	check.That(t, before["quiet"] == after["quiet"] && before["busy"] != after["busy"], "the list of a queue is copied exactly when its cards moved")
}
