package cardseconds

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/testing/check"
)

// countingStore counts what is written.
type countingStore struct {
	*fakeStore
	bytes, entryBytes int
}

func (s *countingStore) write(ctx context.Context, i int, version string, c change) (string, error) {
	if c.text != nil {
		s.bytes += len(*c.text)
	}
	for _, packed := range c.entries {
		s.entryBytes += len(packed)
	}
	return s.fakeStore.write(ctx, i, version, c)
}

// sizes returns how many running parts have sums, and how large they are together.
func (s *countingStore) sizes() (parts, size int) {
	for i := range cardseconds.Parts {
		read, _ := cardseconds.ParseRunning(s.objects[i].text)
		if len(read.Rows) > 0 {
			parts++
			size += len(s.objects[i].text)
		}
	}
	return parts, size
}

// BenchmarkStore measures one write of the sums of 1,000 and 10,000 CardQuotas that use four cards each. It counts
// the running parts and their bytes, how much is written in an hour, and the bytes of a closed day.
func BenchmarkStore(b *testing.B) {
	for _, queues := range []int{1000, 10_000} {
		for _, isUsed := range []bool{true, false} {
			b.Run(fmt.Sprintf("queues=%d/used=%t", queues, isUsed), func(b *testing.B) {
				store := &countingStore{fakeStore: &fakeStore{}}
				at := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
				k := &Keeper{store: store, log: logr.Discard(), now: func() time.Time { return at }, identity: "replica"}

				counts := map[cardseconds.Series]card.Count{}
				for i := range queues {
					for _, name := range []string{"NVIDIA-H200", "NVIDIA-H800", "NVIDIA-A100", "NVIDIA-GeForce-RTX-4090"} {
						series := cardseconds.Series{
							Tenant: fmt.Sprintf("tenant-%04d", i/10), Project: "project", Queue: fmt.Sprintf("tenant-%04d-project-%d", i/10, i%10),
							Card: name, ServiceType: "inference",
						}
						counts[series] = card.Count(1 + rand.IntN(64))
					}
				}

				run := func(counts map[cardseconds.Series]card.Count) {
					at = at.Add(30 * time.Second)
					k.setCounts(counts, noPodUsages, nil)
					check.NoError(b, k.storeSums(b.Context()))
				}

				run(counts)
				if !isUsed {
					counts = map[cardseconds.Series]card.Count{}
					run(counts)
				}

				writes := store.writes
				bytes := store.bytes
				for range 20 { // ten minutes
					run(counts)
				}

				writes = 6 * (store.writes - writes)
				bytes = 6 * (store.bytes - bytes)
				parts, size := store.sizes()
				at = at.Add(24 * time.Hour)

				run(counts)
				for b.Loop() {
					run(counts)
				}

				b.ReportMetric(float64(parts), "parts")
				b.ReportMetric(float64(size)/1e3, "kB")
				b.ReportMetric(float64(writes), "writes/h")
				b.ReportMetric(float64(bytes)/1e6, "MB/h")
				b.ReportMetric(float64(store.entryBytes)/1e3, "kB/day")
			})
		}
	}
}
