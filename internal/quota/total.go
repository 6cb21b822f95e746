package quota

import (
	"math"
	"math/bits"
)

// total is a sum of amounts of CPU or memory that is exact however large they are: a pod
// may ask for nearly as much as an int64 holds, and what is charged is given back.
type total struct{ high, low uint64 }

// add adds an amount, which is not negative.
func (t *total) add(amount int64) {
	var carry uint64
	t.low, carry = bits.Add64(t.low, uint64(max(0, amount)), 0)
	t.high += carry
}

// subtract takes back an amount that was added.
func (t *total) subtract(amount int64) {
	var borrow uint64
	t.low, borrow = bits.Sub64(t.low, uint64(max(0, amount)), 0)
	t.high -= borrow
}

// amount is the sum, at most what an int64 holds.
func (t *total) amount() int64 {
	if t.high > 0 || t.low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(t.low)
}
