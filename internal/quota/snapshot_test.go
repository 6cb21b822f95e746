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

// formatUsages writes usages as text, the same for equal usages. It skips empty ones: a ledger may keep the
// empty usage of a queue that once had pods.
func formatUsages(usages []QueueUsage) string {
	var lines []string
	for _, usage := range usages {
		used := card.Quota{}
		for _, amount := range usage.Used {
			used[amount.Name] = amount.Count
		}

		line := fmt.Sprintf("%s of %s, %d, %d, %d pods", used, usage.Limits.Cards, usage.MilliCPU, usage.Memory, usage.Pods)
		if line != "{} of {}, 0, 0, 0 pods" {
			lines = append(lines, usage.Queue+": "+line+"\n")
		}
	}

	slices.Sort(lines)
	return fmt.Sprint(lines)
}

// recountUsages computes the usages from the limits and the charges of the pods alone.
func recountUsages(limits map[string]Limits, charges map[string]Charge) map[string]QueueUsage {
	usages := map[string]QueueUsage{}
	for queue, l := range limits {
		usages[queue] = QueueUsage{Queue: queue, Limits: l}
	}

	used := map[string]map[card.Name]card.Count{}
	for _, c := range charges {
		usage := usages[c.Queue]
		usage.Queue = c.Queue
		usage.MilliCPU += c.MilliCPU
		usage.Memory += c.Memory
		usage.Pods++
		usages[c.Queue] = usage

		if used[c.Queue] == nil {
			used[c.Queue] = map[card.Name]card.Count{}
		}
		for _, amount := range c.Cards {
			used[c.Queue][amount.Name] += amount.Count
		}
	}

	for queue, cards := range used {
		usage := usages[queue]
		for name, count := range cards {
			if count > 0 {
				usage.Used = append(usage.Used, card.Amount{Name: name, Count: count})
			}
		}
		usages[queue] = usage
	}

	return usages
}

// TestSnapshotEqualsARecountAndNeverChanges: Snapshot returns what the pods of each queue use at one moment. Other
// goroutines keep it, so later events must not change it. Random pods are charged and released, and queues change.
// After each step the snapshot, and Used for each queue and card, equal a recount of the pods. All earlier snapshots
// still have their old text.
func TestSnapshotEqualsARecountAndNeverChanges(t *testing.T) {
	queues := []string{"q", "r", "s"}
	names := []card.Name{"A", "B"}

	seed.Check(t, func(t *rapid.T) {
		l := New(0)
		limits := map[string]Limits{}
		charges := map[string]Charge{}
		var earlier [][]QueueUsage
		var earlierTexts []string

		t.Repeat(map[string]func(*rapid.T){
			"charge a pod": func(t *rapid.T) {
				c := Charge{
					Queue:    rapid.SampledFrom(queues).Draw(t, "queue"),
					MilliCPU: rapid.Int64Range(0, 4000).Draw(t, "cpu"),
					Memory:   rapid.Int64Range(0, 1<<40).Draw(t, "memory"),
				}
				for _, name := range names {
					if rapid.Bool().Draw(t, "uses "+string(name)) {
						c.Cards = append(c.Cards, card.Amount{Name: name, Count: card.Count(rapid.IntRange(0, 8).Draw(t, "count"))})
					}
				}

				pod := fmt.Sprint("pod-", rapid.IntRange(0, 5).Draw(t, "pod"))
				charges[pod] = c
				l.Charge(pod, &c)
			},
			"release a pod": func(t *rapid.T) {
				pod := fmt.Sprint("pod-", rapid.IntRange(0, 5).Draw(t, "pod"))
				delete(charges, pod)
				l.Release(pod)
			},
			"set a quota": func(t *rapid.T) {
				queue := rapid.SampledFrom(queues).Draw(t, "queue")
				limits[queue] = Limits{Cards: card.Quota{"A": card.Count(rapid.IntRange(0, 8).Draw(t, "quota"))}}
				l.SetTree(Flat.WithFlat(limits))
			},
			"delete a queue": func(t *rapid.T) {
				deleted := rapid.SampledFrom(queues).Draw(t, "queue")
				delete(limits, deleted)
				l.SetTree(Flat.WithFlat(limits))
				l.ForgetUnused()
			},
			"": func(t *rapid.T) { // after each step
				want := recountUsages(limits, charges)
				usages := l.Snapshot()
				check.Equal(t, "snapshot", formatUsages(slices.Collect(maps.Values(want))), formatUsages(usages))
				for _, queue := range queues {
					checkUsed(t, l, queue, want[queue], names)
				}

				for i := range earlier {
					check.Equal(t, "an earlier snapshot", earlierTexts[i], formatUsages(earlier[i]))
				}

				earlier = append(earlier, usages)
				earlierTexts = append(earlierTexts, formatUsages(usages))
			},
		})
	})
}

// checkUsed checks what Used returns for each card of a queue.
func checkUsed(t *rapid.T, l *Ledger, queue string, want QueueUsage, names []card.Name) {
	for _, name := range names {
		var used card.Count
		for _, amount := range want.Used {
			if amount.Name == name {
				used = amount.Count
			}
		}
		check.Equal(t, "used "+string(name)+" of "+queue, used, l.Used(queue, name))
	}
}

// TestSnapshotCopiesOnlyChangedLists: most queues do not change between two snapshots. A queue whose cards have not
// changed shares its list of cards with the last snapshot. A queue with a new pod gets a new list.
func TestSnapshotCopiesOnlyChangedLists(t *testing.T) {
	l := New(0)
	for _, queue := range []string{"unchanged", "changed"} {
		l.Charge("pod of "+queue, newCharge(queue, "A", 1))
	}

	listsByQueue := func() map[string]*card.Amount {
		lists := map[string]*card.Amount{}
		for _, usage := range l.Snapshot() {
			lists[usage.Queue] = &usage.Used[0]
		}
		return lists
	}

	before := listsByQueue()
	l.Charge("another pod", newCharge("changed", "A", 1))
	after := listsByQueue()

	check.That(t, before["unchanged"] == after["unchanged"], "the list of the unchanged queue is copied")
	check.That(t, before["changed"] != after["changed"], "the list of the changed queue is shared with the last snapshot")
}
