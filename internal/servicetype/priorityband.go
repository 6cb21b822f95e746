package servicetype

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// MaxQueuePriority is the highest priority of a queue inside its service type.
const MaxQueuePriority = 9999

// Band is the range of priorities of the queues of one service type. It has MaxQueuePriority + 1
// priorities, and ends below the next higher service type. So queues of a higher type always come
// first, and reclaim from those of a lower one.
type Band struct {
	// Type is the service type, whose priority is Lowest.
	Type            string
	Lowest, Highest int32
	// Next is the service type that cuts the band at NextPriority, "" for none.
	Next         string
	NextPriority int32
}

// BandFor returns the band of a service type among all types. Types of the same priority have the
// same band. It is false for a type that is not defined: its queues keep their priority.
func BandFor(name string, types map[string]Type) (Band, bool) {
	own, defined := types[name]
	if !defined {
		return Band{}, false
	}

	// The highest type has no next one, so MaxQueuePriority also bounds each band.
	highest := int64(own.Priority) + MaxQueuePriority
	band := Band{Type: name, Lowest: own.Priority}
	for _, other := range slices.Sorted(maps.Keys(types)) {
		if priority := types[other].Priority; priority > own.Priority && int64(priority) <= highest {
			highest = int64(priority) - 1
			band.Next = other
			band.NextPriority = priority
		}
	}

	band.Highest = int32(min(highest, math.MaxInt32))
	return band, true
}

// PriorityFor returns the priority of a queue with this priority inside its service type. It cuts a
// priority that the band does not contain, and reports that.
func (b Band) PriorityFor(inside int32) (priority int32, cut bool) {
	wanted := int64(b.Lowest) + int64(inside)
	priority = int32(max(int64(b.Lowest), min(wanted, int64(b.Highest))))
	return priority, int64(priority) != wanted
}

// Check refuses a priority inside the service type that the band does not contain.
func (b Band) Check(inside int32) error {
	most := b.Highest - b.Lowest
	switch {
	case inside >= 0 && inside <= most:
		return nil
	case inside < 0 || b.Next == "":
		return fmt.Errorf("priority %d of a queue of service type %q (priority %d): write 0 to %d", inside, b.Type, b.Lowest, most)
	default:
		return fmt.Errorf("priority %d puts a queue of service type %q (priority %d) at %d, into the priorities of service type %q, which begin at %d: write 0 to %d, or set the priorities of the two types further apart",
			inside, b.Type, b.Lowest, int64(b.Lowest)+int64(inside), b.Next, b.NextPriority, most)
	}
}
