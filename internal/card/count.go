// Package card knows what a card is: its name, how many there are, what a
// queue may use of it, what a pod asks for, and which cards a node offers.
//
// The package is pure: values in, values out, no client, clock or logger. The
// scheduler, the operator and the tests share it, so that a card can never be
// recognised or counted in two ways.
package card

import (
	"math"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Count is a number of whole cards (or of whole slices or shares, which are
// handed out one by one as well). It is never negative.
//
// Volcano keeps scalar resources in thousandths; a Count is always the plain
// number, in messages too.
type Count int64

// MaxCount is the largest count a quota may state. It is far above any real
// fleet and keeps every sum of counts away from an overflow.
const MaxCount Count = 1_000_000

// CountOf reads a quantity of a card resource: part of a card is rounded up,
// less than none is 0. Anything above MaxCount is MaxCount+1, which no quota
// has room for: the API server accepts quantities beyond 64 bits, and
// Quantity.Value turns those into 0 or a negative number.
func CountOf(quantity resource.Quantity) Count {
	switch {
	case quantity.Sign() <= 0:
		return 0
	case quantity.AsApproximateFloat64() > float64(MaxCount):
		return MaxCount + 1
	}
	return Count(quantity.Value())
}

// Add returns c + o, at most the largest representable count.
func (c Count) Add(o Count) Count {
	if c > math.MaxInt64-o {
		return math.MaxInt64
	}
	return c + o
}

// Sub returns c - o, at least zero.
func (c Count) Sub(o Count) Count {
	if o >= c {
		return 0
	}
	return c - o
}

// Amount is a count of one card name.
type Amount struct {
	Name  Name
	Count Count
}
