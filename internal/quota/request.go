package quota

import (
	"slices"
	"strconv"

	"cardquota.dev/operator/internal/card"
)

// Request is what a pending pod requests.
type Request struct {
	// Names are the allowed cards in order of preference; empty exactly when Count is 0.
	Names []card.Name
	// Count is how many cards of one name the pod requests.
	Count card.Count
	// MilliCPU and Memory count against the limits of the queue.
	MilliCPU, Memory int64
	// IsUnreclaimable reports whether other queues could not reclaim from the pod, see Charge.
	IsUnreclaimable bool
}

// Amount returns how much of a resource the pod requests: Count of each of its cards.
func (r *Request) Amount(of Resource) int64 {
	return of.selectAmount(r.MilliCPU, r.Memory, int64(r.Count))
}

// On returns the request for one card alone, as that of a node. Calls of Fits with it allocate no memory.
func (r Request) On(name card.Name) Request {
	r.Names = []card.Name{name}
	return r
}

// OnlyCards returns the request without CPU and memory.
func (r Request) OnlyCards() Request {
	r.MilliCPU = 0
	r.Memory = 0
	return r
}

// CardRequest is how many cards of any of the Names a whole job requests. Whether the cards of one pod
// come from one node is checked per pod.
type CardRequest struct {
	Names []card.Name
	Count card.Count
}

// JobRequest is what one job requests at enqueue.
type JobRequest struct {
	Cards            []CardRequest
	MilliCPU, Memory int64
	// IsUnreclaimable reports whether other queues could not reclaim from its pods, see Charge.
	IsUnreclaimable bool
}

// IsEmpty reports whether nothing is requested.
func (r JobRequest) IsEmpty() bool { return len(r.Cards) == 0 && r.MilliCPU == 0 && r.Memory == 0 }

// Key returns a text that is the same for equal requests only.
func (r JobRequest) Key() string {
	key := make([]byte, 0, 64)
	key = strconv.AppendInt(key, r.MilliCPU, 10)
	key = strconv.AppendInt(append(key, ' '), r.Memory, 10)
	key = strconv.AppendBool(append(key, ' '), r.IsUnreclaimable)
	for _, wanted := range r.Cards {
		key = strconv.AppendInt(append(key, ' '), int64(wanted.Count), 10)
		for _, name := range wanted.Names {
			key = append(append(key, '|'), name...)
		}
	}
	return string(key)
}

// Excess returns the part of another request that this one does not cover: its cards, all or
// none, and the rest of its CPU and memory.
func (r JobRequest) Excess(other JobRequest) JobRequest {
	excess := JobRequest{IsUnreclaimable: other.IsUnreclaimable, MilliCPU: max(0, other.MilliCPU-r.MilliCPU), Memory: max(0, other.Memory-r.Memory)}
	if !r.coversCards(other.Cards) {
		excess.Cards = other.Cards
	}
	return excess
}

// Without returns this request without an excess that Excess returned.
func (r JobRequest) Without(excess JobRequest) JobRequest {
	if len(excess.Cards) > 0 {
		r.Cards = nil
	}
	r.MilliCPU -= excess.MilliCPU
	r.Memory -= excess.Memory
	return r
}

// coversCards reports whether this request reserves cards that suffice for the requests of another job. A
// request for A is covered by one for A, and one for A or B by one for A. It may overlook a cover where
// several requests can cover one, because it takes the first.
func (r JobRequest) coversCards(requests []CardRequest) bool {
	// Most jobs of a queue request the same cards, so compare those with equal names first.
	var own cardRequestIndex
	if !slices.ContainsFunc(requests, func(wanted CardRequest) bool {
		i := own.find(r.Cards, wanted.Names)
		return i < 0 || r.Cards[i].Count < wanted.Count
	}) {
		return true
	}

	// A request of fewer alternatives is harder to meet, so it covers one that accepts all of
	// them.
	remaining := slices.Clone(r.Cards)
	for _, wanted := range requests {
		for i := range remaining {
			if len(remaining[i].Names) > 0 && len(removeNames(remaining[i].Names, func(name card.Name) bool { return slices.Contains(wanted.Names, name) })) == 0 {
				met := min(wanted.Count, remaining[i].Count)
				wanted.Count -= met
				remaining[i].Count = remaining[i].Count - met
			}
		}

		if wanted.Count > 0 {
			return false
		}
	}

	return true
}

// stoppedPart returns the part of a request that is for resources only that a queue may not borrow for now.
func (r JobRequest) stoppedPart(stopped map[Resource]bool) (part JobRequest) {
	isFree := func(name card.Name) bool { return !stopped[Resource(name)] }

	// A request with a free alternative borrows that one, so it is not stopped.
	for _, wanted := range r.Cards {
		if wanted.Count > 0 && len(wanted.Names) > 0 && !slices.ContainsFunc(wanted.Names, isFree) {
			part.Cards = append(part.Cards, wanted)
		}
	}

	if stopped[CPU] {
		part.MilliCPU = r.MilliCPU
	}
	if stopped[Memory] {
		part.Memory = r.Memory
	}

	return part
}

// JobRequestBuilder sums the requests of a job's pods. Requests for the same names in the same
// order become one, in the order of their first pods.
type JobRequestBuilder struct {
	JobRequest
	index cardRequestIndex
}

// Add adds the request of one pod.
func (j *JobRequestBuilder) Add(r Request) {
	j.MilliCPU = AddSaturating(j.MilliCPU, r.MilliCPU)
	j.Memory = AddSaturating(j.Memory, r.Memory)
	if r.Count == 0 {
		return
	}
	if i := j.index.find(j.Cards, r.Names); i >= 0 {
		j.Cards[i].Count = j.Cards[i].Count.Add(r.Count)
		return
	}
	j.Cards = append(j.Cards, CardRequest{Names: r.Names, Count: r.Count})
}

// cardRequestIndex finds a request by its names in a list that only grows.
type cardRequestIndex struct{ byNames map[string]int }

// maxLinearSearch is the length up to which a list is scanned: most have few entries, and a map costs
// more.
const maxLinearSearch = 8

// find returns the index of the request for these names, -1 if there is none.
func (index *cardRequestIndex) find(requests []CardRequest, names []card.Name) int {
	// Most queues request few different cards. For these a map costs more than a comparison.
	if len(requests) <= maxLinearSearch {
		for i := range requests {
			if slices.Equal(requests[i].Names, names) {
				return i
			}
		}
		return -1
	}

	if index.byNames == nil {
		index.byNames = make(map[string]int, 2*len(requests))
	}

	// Requests are only appended, so only those since the last call are missing.
	for i := len(index.byNames); i < len(requests); i++ {
		index.byNames[joinNames(requests[i].Names)] = i
	}

	if i, ok := index.byNames[joinNames(names)]; ok {
		return i
	}

	return -1
}

// joinNames returns names as users write them, "A|B".
func joinNames(names []card.Name) string {
	if len(names) == 1 {
		return string(names[0]) // without allocating
	}
	return card.Join(names, "|")
}

// removeNames returns names without some. It copies only if it removes any.
func removeNames(names []card.Name, some func(card.Name) bool) []card.Name {
	if !slices.ContainsFunc(names, some) {
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), some)
}
