package cardreclaim

// mostEffort bounds what goes into one choice: amounts looked at or changed, each
// of one resource on one node for one claim, or work that takes as long. A count
// is the same on every machine, and one takes 5 to 20 ns. Among 4000 pods that
// hold cards a claim takes a fifth of it at most, eight of them nearly all.
const mostEffort = 150_000_000

// spend counts amounts that were looked at or changed.
func (m *model) spend(amounts int) { m.effort += amounts }

// width is what a look at all resources of a node counts for: many go faster than
// one after the other.
func (m *model) width() int { return 3 + m.dims/4 }

// exhausted tells that no more may go into the choice. A search then ends without
// an answer, and what was found before it is the answer.
func (m *model) exhausted() bool { return m.effort > m.most }

// copied is what a copy of so many numbers counts for.
func copied(numbers int) int { return numbers / 8 }

// sorted is what sorting so many units counts for.
func sorted(units int) int { return 8 * units }
