package cardseconds

import (
	"fmt"
	"testing"
	"time"

	"cardquota.dev/operator/internal/card"
)

// BenchmarkMonthlyUse measures what LocalCardQuotas need once a minute: the use of 1,000 and 10,000 queues of four
// cards each in two months.
func BenchmarkMonthlyUse(b *testing.B) {
	for _, queues := range []int{1000, 10_000} {
		b.Run(fmt.Sprintf("queues=%d", queues), func(b *testing.B) {
			meter := &Meter{}
			counts := map[Series]card.Count{}
			lastMonth := map[Series]Milli{}
			for i := range queues {
				for _, name := range []string{"NVIDIA-H200", "NVIDIA-H800", "NVIDIA-A100", "NVIDIA-GeForce-RTX-4090"} {
					series := seriesOf(fmt.Sprint("queue-", i))
					series.Card = name
					counts[series] = 8
					lastMonth[series] = 1e9
				}
			}

			at := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
			meter.SetCounts(at, counts)
			meter.SetCounts(at.Add(time.Minute), counts)

			closed := func(month Period) []map[Series]Milli {
				if month == "2026-10" {
					return []map[Series]Milli{lastMonth}
				}
				return nil
			}

			for b.Loop() {
				use := meter.MonthlyUse(closed).Queues("queue-0")
				if len(use.This.Cards) != 4 || len(use.Last.Cards) != 4 {
					b.Fatal(use)
				}
			}
		})
	}
}
