package quota

import (
	"maps"
	"math/rand/v2"
	"testing"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
)

// drawUsage returns a job that uses some cards, and what of it is elastic.
func drawUsage(r *rand.Rand) (elastic, all ElasticUsage) {
	all = ElasticUsage{Used: map[card.Name]card.Count{}, MilliCPU: int64(r.IntN(9)), Memory: int64(r.IntN(9))}
	for _, name := range []card.Name{"A", "B", "C"} {
		if r.IntN(2) == 0 {
			all.Used[name] = card.Count(1 + r.IntN(3))
			all.Elastic += all.Used[name]
		}
	}
	elastic = ElasticUsage{Used: maps.Clone(all.Used), Elastic: card.Count(r.IntN(int(all.Elastic) + 1)), MilliCPU: all.MilliCPU / 2, Memory: all.Memory / 2}
	return elastic, all
}

// TestReplacedElasticUsageIsExact: usually a running job gives only its elastic pods, those above its
// minimum. ReplaceElastic returns a copy of the reservations in which some jobs give all they use. The copy
// must equal reservations to which these jobs were added with all they use. The original must not change.
// Jobs are random. A pool is the sum of some jobs that use the same cards (poolKey).
func TestReplacedElasticUsageIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(27, 1))
	for range 500 {
		original := &Reservations{}
		want := &Reservations{}
		var removed, added []ElasticUsage
		for range r.IntN(6) {
			elastic, all := drawUsage(r)
			original.AddElastic(elastic)
			if r.IntN(2) == 0 {
				want.AddElastic(elastic)
				continue
			}

			removed = append(removed, elastic)
			added = append(added, all)
			want.AddElastic(all)
		}

		before := givenByPool(original)
		got := original.ReplaceElastic(removed, added, nil) // nil: other queues could reclaim all of it
		check.Equal(t, "pools", givenByPool(want), givenByPool(got))
		check.Equal(t, "CPU and memory", [2]int64{want.elasticCPU, want.elasticMemory}, [2]int64{got.elasticCPU, got.elasticMemory})
		check.Equal(t, "pools of the original", before, givenByPool(original))
	}
}

// givenByPool returns the pools that give anything.
func givenByPool(r *Reservations) map[string]ElasticUsage {
	pools := map[string]ElasticUsage{}
	for key, i := range r.pools {
		pool := r.Elastic[i]
		if pool.Elastic == 0 {
			continue
		}
		used := maps.Clone(pool.Used)
		maps.DeleteFunc(used, func(_ card.Name, count card.Count) bool { return count == 0 })
		pools[key] = ElasticUsage{Used: used, Elastic: pool.Elastic}
	}
	return pools
}
