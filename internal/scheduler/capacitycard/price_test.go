package capacitycard

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/actions/reclaim"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
	"cardquota.dev/operator/internal/testing/session"
	"cardquota.dev/operator/internal/workload"
)

// ofBatchJob makes the pods of a PodGroup those of the Kubernetes Job of its name.
func ofBatchJob(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if strings.HasPrefix(p.Name, name+"-") {
			session.OwnedBy("batch/v1", "Job", name, "uid-of-"+name)(p)
			p.Finalizers = []string{batchv1.JobTrackingFinalizer}
		}
	}
}

// useBackoffLimits sets the backoffLimits of the Kubernetes Jobs of a scene. Others are unknown.
func (s *scene) useBackoffLimits(limits map[string]int32) *scene {
	s.m.UseFailureLimits(func(_, name string, _ types.UID) (workload.FailureLimit, bool) {
		limit, known := limits[name]
		return workload.FailureLimitFor(&batchv1.Job{Spec: batchv1.JobSpec{BackoffLimit: &limit}}), known
	})
	return s
}

// TestPreemptSparesAJobAtItsBackoffLimit: t is a Kubernetes Job, g a gang. An eviction beyond the limit costs
// all the work of the Job, and takes all of its pods.
func TestPreemptSparesAJobAtItsBackoffLimit(t *testing.T) {
	const (
		base    = "node a model=A; job t queue=q min=1 running=a*4 priorityClass=low age=10h; job g queue=q min=4 running=a*4 priorityClass=low age=4h;"
		dearer  = "node a model=A; job t queue=q min=1 running=a*4 priorityClass=low age=10h; job g queue=q min=4 running=a*4 priorityClass=low age=50h;"
		apart   = "node a model=A cards=4; node b model=A cards=4; job t queue=q min=1 running=a*4 priorityClass=low age=10h; job g queue=q min=4 running=b*4 priorityClass=low age=4h;"
		swapped = "node a model=A cards=4; node b model=A cards=4; job t queue=q min=1 running=b*4 priorityClass=low age=10h; job g queue=q min=4 running=a*4 priorityClass=low age=4h;"
		one     = "job high queue=q min=1 pending=1 priorityClass=high"
	)

	savedNow := changePod("t-0", annotate("volcano.sh/checkpoint-time", time.Now().UTC().Format(time.RFC3339)))
	for t, tc := range check.Cases(t, map[string]struct {
		text, goes string
		limits     map[string]int32
		change     func(*corev1.Pod)
	}{
		"an elastic pod while the limit allows it":  {base + one, "t:1", map[string]int32{"t": 1}, nil},
		"no elastic pod when it does not":           {base + one, "g:4", map[string]int32{"t": 0}, nil},
		"as many as the limit allows":               {base + "job high queue=q min=1 pending=2 priorityClass=high", "t:2", map[string]int32{"t": 2}, nil},
		"not one more":                              {base + "job high queue=q min=1 pending=3 priorityClass=high", "g:4 t:2", map[string]int32{"t": 2}, nil},
		"the whole Job when that loses less":        {dearer + one, "t:4", map[string]int32{"t": 0}, nil},
		"the whole Job once one goes too many":      {"node a model=A; job t queue=q min=1 running=a*8 priorityClass=low age=10h; job high queue=q min=1 pending=3 priorityClass=high", "t:8", map[string]int32{"t": 2}, nil},
		"a checkpoint does not help":                {base + one, "g:4", map[string]int32{"t": 0}, savedNow},
		"no pod of an unknown Job":                  {base + one, "g:4", nil, nil},
		"the gang on another node":                  {apart + one, "g:4", map[string]int32{"t": 0}, nil},
		"the gang on another node, which is first":  {swapped + one, "g:4", map[string]int32{"t": 0}, nil},
		"the Job when its priority is lower":        {strings.Replace(base, "*4 priorityClass=low age=10h", "*4 age=10h", 1) + one, "t:4", map[string]int32{"t": 0}, nil},
		"an elastic pod of others on another node":  {"node a model=A cards=4; node b model=A cards=4; job t queue=q min=1 running=a*4 priorityClass=low age=1h; job w queue=q min=1 running=b*4 priorityClass=low age=90h;" + one, "w:1", map[string]int32{"t": 0}, nil},
		"a gang that lost less among other gangs":   {"node a model=A; job g queue=q min=4 running=a*4 priorityClass=low age=9h; job h queue=q min=4 running=a*4 priorityClass=low age=8h;" + one, "h:4", nil, nil},
		"a gang that saved its work among others":   {"node a model=A; job t queue=q min=4 running=a*4 priorityClass=low age=9h; job h queue=q min=4 running=a*4 priorityClass=low age=8h;" + one, "t:4", map[string]int32{"t": 9}, savedNow},
		"the lower gang beside higher elastic pods": {"node a model=A; job g queue=q min=4 running=a*4 age=9h; job w queue=q min=1 running=a*4 priorityClass=low age=1h;" + one, "g:4", nil, nil},
	}) {
		for _, topologyAware := range []bool{false, true} {
			if topologyAware && !strings.Contains(tc.text, "job high queue=q min=1 pending=1 ") {
				continue // Volcano decides on a copy of the node, and evicts for the first pod only
			}

			s := newScene(t, `queue q quota={"A":8} cpu=1000;`+tc.text, ofBatchJob("t"), tc.change).useBackoffLimits(tc.limits)

			s.evict(preempt.New(), topologyAwarePreempt(topologyAware))
			check.Equal(t, "go", tc.goes, countByState(slices.Concat(s.preempted...)))
			check.Equal(t, "evicted in the session", tc.goes, countByState(s.In(api.Releasing)))
		}
	}
}

// TestReclaimSparesAJobAtItsBackoffLimit: Volcano's own action takes pod by pod, in the order of their price.
func TestReclaimSparesAJobAtItsBackoffLimit(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		jobs, cards, goes string
		limits            map[string]int32
	}{
		"an elastic pod while the limit allows it": {"job t queue=tra min=1 running=a*4 age=10h; job g queue=tra min=4 running=a*4 age=4h", "1", "t:1", map[string]int32{"t": 1}},
		"no elastic pod when it does not":          {"job t queue=tra min=1 running=a*4 age=10h; job g queue=tra min=4 running=a*4 age=4h", "1", "g:1", map[string]int32{"t": 0}},
		"as many as the limit allows":              {"job t queue=tra min=1 running=a*4 age=10h; job g queue=tra min=4 running=a*4 age=4h", "2", "t:2", map[string]int32{"t": 2}},
		"not one more":                             {"job t queue=tra min=1 running=a*4 age=10h; job g queue=tra min=4 running=a*4 age=4h", "3", "g:1 t:2", map[string]int32{"t": 2}},
		"the Job when that loses less":             {"job t queue=tra min=1 running=a*4 age=10h; job g queue=tra min=4 running=a*4 age=50h", "1", "t:1", map[string]int32{"t": 0}},
		"no pod of an unknown Job":                 {"job t queue=tra min=1 running=a*4 age=10h; job g queue=tra min=4 running=a*4 age=4h", "1", "g:1", nil},
		"a gang that is broken already":            {"job t queue=tra min=1 running=a*5 age=1h; job g queue=tra min=4 running=a*3 pending=1 age=50h", "1", "g:1", map[string]int32{"t": 0}},
	}) {
		for _, order := range []string{"Priority", "Loss"} {
			s := newReclaimScene(t, tc.jobs+"; job i queue=inf min=1 pending=1 cards="+tc.cards, ofBatchJob("t")).useBackoffLimits(tc.limits)

			s.withArguments(map[string]any{"victimOrder": order}).evict(reclaim.New())
			check.Equal(t, "go with victimOrder "+order, tc.goes, countByState(s.In(api.Releasing)))
		}
	}
}

// pricedJob is a drawn job, with the plainest way to price it.
type pricedJob struct {
	name                     string
	isLow, isBatch           bool
	pods                     []string // their nodes
	minimum, ran, saved, max int      // in hours; -1 if nothing was saved. max is the backoffLimit
}

func (j *pricedJob) text() string {
	class := ""
	if j.isLow {
		class = "priorityClass=low"
	}
	return fmt.Sprintf("job %s queue=q min=%d running=%s %s age=%dh;", j.name, j.minimum, strings.Join(j.pods, ","), class, j.ran)
}

// cost is priority, whether the job breaks, and the lost hours, if one pod of it goes.
func (j *pricedJob) cost() [3]int {
	lost := j.ran
	elastic := len(j.pods) - j.minimum
	priority := 0

	if j.saved >= 0 {
		lost = min(lost, j.saved)
	}
	if j.isLow {
		priority = 1
	}

	fails := j.isBatch && len(j.pods) > j.max
	if fails {
		elastic = min(elastic, j.max)
	}

	switch {
	case elastic > 0:
		return [3]int{priority, 0, lost}
	case fails:
		return [3]int{priority, 1, j.ran * len(j.pods)}
	default:
		return [3]int{priority, 1, lost * len(j.pods)}
	}
}

// TestPreemptEvictsWhatCostsLeast: of the node, and of all nodes if a job breaks or has not the lowest priority. The oracle prices each job
// as cardreclaim does: by the hours that are lost.
func TestPreemptEvictsWhatCostsLeast(t *testing.T) {
	seed.Check(t, func(rt *rapid.T) {
		text := `queue q quota={"A":99} cpu=1000;`
		jobs := []*pricedJob{}
		limits := map[string]int32{}
		saved := map[string]string{}

		free := rapid.Permutation([]string{"a", "a", "a", "b", "b", "b", "c", "c", "c"}).Draw(rt, "cards")
		for i := 0; len(free) > 0; i++ {
			j := &pricedJob{name: fmt.Sprintf("j%d", i), isLow: rapid.Bool().Draw(rt, "low"), isBatch: rapid.Bool().Draw(rt, "batch"), saved: -1}
			n := rapid.IntRange(1, min(4, len(free))).Draw(rt, "pods")
			j.pods = free[:n]
			free = free[n:]
			j.minimum = rapid.IntRange(1, n).Draw(rt, "minimum")
			j.ran = rapid.IntRange(1, 9).Draw(rt, "ran")
			j.max = rapid.IntRange(0, 4).Draw(rt, "limit")
			limits[j.name] = int32(j.max)

			if rapid.Bool().Draw(rt, "has saved") {
				j.saved = rapid.IntRange(0, 9).Draw(rt, "saved")
				saved[j.name] = time.Now().Add(-time.Duration(j.saved) * time.Hour).UTC().Format(time.RFC3339)
			}
			jobs = append(jobs, j)
			text += j.text()
		}

		s := newScene(t, "node a,b,c model=A cards=3;"+text+"job high queue=q min=1 pending=1 priorityClass=high", func(p *corev1.Pod) {
			name, _, _ := strings.Cut(p.Name, "-")
			if at := saved[name]; at != "" {
				p.Annotations["volcano.sh/checkpoint-time"] = at
			}
			if slices.ContainsFunc(jobs, func(j *pricedJob) bool { return j.name == name && j.isBatch }) {
				ofBatchJob(name)(p)
			}
		}).useBackoffLimits(limits)
		defer s.Close()
		s.evict(preempt.New())

		gone := slices.Concat(s.preempted...)
		check.Must(rt, len(gone) > 0, "nothing goes")
		name, _, _ := strings.Cut(gone[0].Name, "-")
		evicted := jobs[slices.IndexFunc(jobs, func(j *pricedJob) bool { return j.name == name })]
		node := s.In(api.Pipelined)[0].NodeName

		want := 1
		cost := evicted.cost()
		if cost[1] == 1 {
			want = len(evicted.pods)
		}

		check.Equal(rt, "pods that go", want, len(gone))
		for _, other := range jobs {
			better := other.cost()
			isCandidate := cost[1] == 1 || better[0] < cost[0] || slices.Contains(other.pods, node)
			check.Must(rt, !isCandidate || slices.Compare(cost[:], better[:]) <= 0, "%s goes, which costs %v, although %s costs %v", evicted.name, cost, other.name, better)
		}
	})
}
