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

// TestFitsAfterReleaseIsWhatFitsOnceItIsReleased: what is checked beside pods that go is what is checked
// when they are gone, or terminate. In particular, a pod that goes leaves no guarantee of others to one
// that comes.
func TestFitsAfterReleaseIsWhatFitsOnceItIsReleased(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		h := newGuaranteesTest(t)
		for range 20 {
			queue := rapid.SampledFrom([]string{"batch", "serving"}).Draw(t, "queue")
			name := rapid.SampledFrom([]card.Name{"A", CPUName}).Draw(t, "name")
			count := int64(rapid.IntRange(1, 3).Draw(t, "count"))
			isUnreclaimable := rapid.Bool().Draw(t, "fixed")
			released, after := h.drawReleased(t, queue)

			got := h.ledger.FitsAfterRelease(queue, requestOf(name, count, isUnreclaimable), name, released)
			want := after.refusal(queue, name, count, isUnreclaimable)
			check.Must(t, (got == nil) == (want == ""), "%d more %s in %s (fixed %v) beside %+v: refused for %+v, want %q", count, name, queue, isUnreclaimable, released, got, want)
		}
	})
}

// newGuaranteesTest draws a tenant with two queues beside another tenant. Their pods and guarantees are
// about as much as the nodes have.
func newGuaranteesTest(t *rapid.T) *treeTest {
	h := &treeTest{ledger: New(0), naive: &naiveLedger{pods: map[string]naivePod{}, holds: map[string]naivePod{}}}
	h.tree = map[string]TreeQueue{}
	for name, parent := range map[string]string{"tenant": "", "batch": "tenant", "serving": "tenant", "other": ""} {
		h.tree[name] = TreeQueue{Parent: parent, Quota: Amounts{}, Deserved: Amounts{}, Guarantee: Amounts{}}
	}

	for _, name := range slices.Sorted(maps.Keys(h.tree)) {
		for _, of := range []card.Name{"A", CPUName} {
			q := h.tree[name]
			q.Quota[of] = int64(rapid.IntRange(4, 9).Draw(t, "quota"))
			q.Guarantee[of] = int64(rapid.IntRange(0, 4).Draw(t, "guarantee"))
			q.Deserved[of] = int64(rapid.IntRange(int(q.Guarantee[of]), 8).Draw(t, "deserved"))
		}
	}
	h.setTree(t)

	h.naive.inventory["A"] = int64(rapid.IntRange(3, 9).Draw(t, "cards"))
	h.naive.inventory[CPUName] = int64(rapid.IntRange(3, 9).Draw(t, "CPU"))
	h.ledger.SetInventory(map[card.Name]card.Count{"A": card.Count(h.naive.inventory["A"])}, h.naive.inventory[CPUName], Unlimited)
	h.naive.inventory[MemoryName] = Unlimited

	h.ledger.Refresh()
	for i := range rapid.IntRange(2, 6).Draw(t, "pods") {
		p := naivePod{queue: rapid.SampledFrom([]string{"batch", "batch", "serving", "other"}).Draw(t, "queue"), amounts: map[card.Name]int64{"A": 1, CPUName: 1}}
		p.isUnreclaimable = rapid.IntRange(0, 3).Draw(t, "fixed") == 0
		p.isOff = rapid.IntRange(0, 3).Draw(t, "off inventory") == 0
		p.isNotOffered = rapid.IntRange(0, 3).Draw(t, "not offered") == 0
		h.naive.pods[fmt.Sprint(i)] = p
		h.ledger.Charge(fmt.Sprint(i), p.charge())
	}

	if rapid.IntRange(0, 2).Draw(t, "hold") == 0 {
		p := naivePod{queue: rapid.SampledFrom([]string{"batch", "serving", "other"}).Draw(t, "queue"), amounts: map[card.Name]int64{"A": 1, CPUName: 1}}
		h.naive.holds["held"] = p
		h.ledger.Hold("held", p.charge())
	}

	return h
}

// drawReleased draws pods of a queue that go, and returns their charges and the ledger without them.
func (h *treeTest) drawReleased(t *rapid.T, queue string) (Released, *naiveLedger) {
	released := Released{Evicted: rapid.Bool().Draw(t, "evicted")}
	after := *h.naive
	after.pods = maps.Clone(h.naive.pods)
	for _, id := range slices.Sorted(maps.Keys(h.naive.pods)) {
		p := h.naive.pods[id]
		if p.queue != queue || p.isEnd || !rapid.Bool().Draw(t, "goes") {
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
func requestOf(name card.Name, count int64, isUnreclaimable bool) Request {
	request := Request{IsUnreclaimable: isUnreclaimable}
	switch name {
	case CPUName:
		request.MilliCPU = count
	case MemoryName:
		request.Memory = count
	default:
		request.Names = []card.Name{name}
		request.Count = card.Count(count)
	}
	return request
}
