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

// TestWhatFitsAfterAReleaseIsWhatFitsOnceItIsReleased: before an eviction, Check says whether a request fits
// once some pods are released. It must answer as the rules do for a ledger without these pods, or with them as
// terminating pods. In particular, cards that others are guaranteed stay free when a pod leaves them. The amounts of a
// small tree, its pods, the released pods and the request are random. naiveLedger counts by the rules from scratch.
func TestWhatFitsAfterAReleaseIsWhatFitsOnceItIsReleased(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		h := newGuaranteesTest(t)
		for range 20 {
			queue := rapid.SampledFrom([]string{"batch", "serving"}).Draw(t, "queue")
			name := rapid.SampledFrom([]Resource{"A", CPU}).Draw(t, "name")
			count := int64(rapid.IntRange(1, 3).Draw(t, "count"))
			isUnreclaimable := rapid.Bool().Draw(t, "unreclaimable")
			released, after := h.drawReleased(t, queue)

			got := h.ledger.Check(queue, requestOf(name, count, isUnreclaimable), Within{Released: released})
			want := after.findRefusal(queue, name, count, isUnreclaimable)
			check.Must(t, (got == nil) == (want == ""), "%d more %s in %s (unreclaimable %v) after the release of %+v: refused for %+v, want %q", count, name, queue, isUnreclaimable, released, got, want)
		}
	})
}

// newGuaranteesTest draws the amounts of a tenant with queues "batch" and "serving", beside queue "other". Their
// pods and guarantees need about as much as the nodes have.
func newGuaranteesTest(t *rapid.T) *treeTest {
	tree := map[string]TreeQueue{}
	for name, parent := range map[string]string{"tenant": "", "batch": "tenant", "serving": "tenant", "other": ""} {
		tree[name] = newTreeQueue(parent)
	}

	for _, name := range slices.Sorted(maps.Keys(tree)) {
		for _, of := range []Resource{"A", CPU} {
			q := tree[name]
			q.Quota[of] = int64(rapid.IntRange(4, 9).Draw(t, "quota"))
			q.Guarantee[of] = int64(rapid.IntRange(0, 4).Draw(t, "guarantee"))
			q.Deserved[of] = int64(rapid.IntRange(int(q.Guarantee[of]), 8).Draw(t, "deserved"))
		}
	}
	h := newTreeTestOf(t, tree)

	h.naive.inventory["A"] = int64(rapid.IntRange(3, 9).Draw(t, "cards"))
	h.naive.inventory[CPU] = int64(rapid.IntRange(3, 9).Draw(t, "CPU"))
	h.ledger.SetInventory(map[card.Name]card.Count{"A": card.Count(h.naive.inventory["A"])}, h.naive.inventory[CPU], Unlimited)
	h.naive.inventory[Memory] = Unlimited

	h.ledger.recomputeUnused()
	for i := range rapid.IntRange(2, 6).Draw(t, "pods") {
		p := naivePod{queue: rapid.SampledFrom([]string{"batch", "batch", "serving", "other"}).Draw(t, "queue"), amounts: map[Resource]int64{"A": 1, CPU: 1}}
		p.isUnreclaimable = rapid.IntRange(0, 3).Draw(t, "unreclaimable") == 0
		p.isOff = rapid.IntRange(0, 3).Draw(t, "off inventory") == 0
		p.isNotOffered = rapid.IntRange(0, 3).Draw(t, "not offered") == 0
		h.charge(fmt.Sprint(i), p)
	}

	if rapid.IntRange(0, 2).Draw(t, "keep") == 0 {
		queue := rapid.SampledFrom([]string{"batch", "serving", "other"}).Draw(t, "queue")
		h.keepFor("pod", naivePod{queue: queue, amounts: map[Resource]int64{"A": 1, CPU: 1}})
	}

	return h
}

// drawReleased draws pods of a queue to release, and returns their charges and the ledger without them.
func (h *treeTest) drawReleased(t *rapid.T, queue string) (Released, *naiveLedger) {
	released := Released{Evicted: rapid.Bool().Draw(t, "evicted")}
	after := *h.naive
	after.pods = maps.Clone(h.naive.pods)
	for _, id := range slices.Sorted(maps.Keys(h.naive.pods)) {
		p := h.naive.pods[id]
		if p.queue != queue || p.isEnd || !rapid.Bool().Draw(t, "released") {
			continue
		}

		released.Add(p.charge())
		delete(after.pods, id)
		if released.Evicted {
			p.isEnd = true
			after.pods[id] = p
		}
	}

	return released, &after
}

// requestOf returns a request of so many of one name.
func requestOf(name Resource, count int64, isUnreclaimable bool) Request {
	request := Request{IsUnreclaimable: isUnreclaimable}
	switch name {
	case CPU:
		request.MilliCPU = count
	case Memory:
		request.Memory = count
	default:
		request.Names = []card.Name{name.Card()}
		request.Count = card.Count(count)
	}
	return request
}
