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

// useBackoffLimits sets the backoffLimits of the Kubernetes Jobs of a scene. Other Jobs are unknown.
func (s *scene) useBackoffLimits(limits map[string]int32) *scene {
	s.m.UseFailureLimits(func(_, name string, _ types.UID) (workload.FailureLimit, bool) {
		limit, known := limits[name]
		return workload.FailureLimitFor(&batchv1.Job{Spec: batchv1.JobSpec{BackoffLimit: &limit}}), known
	})
	return s
}

// TestPreemptDoesNotFailAJobAtItsBackoffLimit: each evicted pod of a Kubernetes Job counts as a failure, and more
// failures than backoffLimit end the Job with all its pods. So preempt evicts only as many of its pods as the
// limit allows, or the whole Job. An unknown limit counts as 0. Jobs of lower priority are evicted first. Of equal
// priority, elastic pods (above min=) come before gangs. Among each of these the smallest loss comes first: the time
// that the evicted pods ran, or the time since their checkpoint. If a Job fails as a whole, its checkpoints are
// lost too. "t" is a Kubernetes Job, and its pods are elastic unless the row says more. All cards are in use.
func TestPreemptDoesNotFailAJobAtItsBackoffLimit(t *testing.T) {
	const (
		oneCard = `
			job high queue=q min=1 pending=1 priorityClass=high`
		jobBesideGang = `node a model=A
			job t queue=q min=1 running=a*4 priorityClass=low age=10h
			job g queue=q min=4 running=a*4 priorityClass=low age=4h`
	)

	savedNow := changePod("t-0", annotate("volcano.sh/checkpoint-time", time.Now().UTC().Format(time.RFC3339)))
	for t, tc := range check.Cases(t, map[string]struct {
		scene         string
		backoffLimits map[string]int32 // of Kubernetes Jobs
		change        func(*corev1.Pod)
		wantEvicted   string // "t:2" is two pods of job t
	}{
		"limit 1, one card is needed: one pod of the Job": {
			scene: jobBesideGang + oneCard, backoffLimits: map[string]int32{"t": 1}, wantEvicted: "t:1",
		},
		"limit 0, one card is needed: the gang": {
			scene: jobBesideGang + oneCard, backoffLimits: map[string]int32{"t": 0}, wantEvicted: "g:4",
		},
		"limit 2, two pods wait: two pods of the Job": {
			scene: jobBesideGang + `
				job high queue=q min=1 pending=2 priorityClass=high`,
			backoffLimits: map[string]int32{"t": 2}, wantEvicted: "t:2",
		},
		"limit 2, three pods wait: two pods of the Job, and the gang for the third": {
			scene: jobBesideGang + `
				job high queue=q min=1 pending=3 priorityClass=high`,
			backoffLimits: map[string]int32{"t": 2}, wantEvicted: "g:4 t:2",
		},
		"limit 0, the gang would lose 50 hours with each pod and the Job 10: the whole Job": {
			scene: `node a model=A
				job t queue=q min=1 running=a*4 priorityClass=low age=10h
				job g queue=q min=4 running=a*4 priorityClass=low age=50h` + oneCard,
			backoffLimits: map[string]int32{"t": 0}, wantEvicted: "t:4",
		},
		"limit 2, three pods wait and there is only the Job: the whole Job": {
			scene: `node a model=A
				job t queue=q min=1 running=a*8 priorityClass=low age=10h
				job high queue=q min=1 pending=3 priorityClass=high`,
			backoffLimits: map[string]int32{"t": 2}, wantEvicted: "t:8",
		},
		"limit 0, t-0 has saved its work: the gang loses 4 × 4 hours, and the failed Job would lose 4 × 5, not 3 × 5": {
			scene: `node a model=A
				job t queue=q min=1 running=a*4 priorityClass=low age=5h
				job g queue=q min=4 running=a*4 priorityClass=low age=4h` + oneCard,
			backoffLimits: map[string]int32{"t": 0}, change: savedNow, wantEvicted: "g:4",
		},
		"the limit of the Job is unknown: the gang": {
			scene: jobBesideGang + oneCard, wantEvicted: "g:4",
		},
		"limit 0, the Job is on node a and the gang on b: the gang": {
			scene: `node a,b model=A cards=4
				job t queue=q min=1 running=a*4 priorityClass=low age=10h
				job g queue=q min=4 running=b*4 priorityClass=low age=4h` + oneCard,
			backoffLimits: map[string]int32{"t": 0}, wantEvicted: "g:4",
		},
		"limit 0, the gang is on node a and the Job on b: the gang": {
			scene: `node a,b model=A cards=4
				job t queue=q min=1 running=b*4 priorityClass=low age=10h
				job g queue=q min=4 running=a*4 priorityClass=low age=4h` + oneCard,
			backoffLimits: map[string]int32{"t": 0}, wantEvicted: "g:4",
		},
		"limit 0, the Job has a lower priority than the gang: the whole Job": {
			scene: `node a model=A
				job t queue=q min=1 running=a*4 age=10h
				job g queue=q min=4 running=a*4 priorityClass=low age=4h` + oneCard,
			backoffLimits: map[string]int32{"t": 0}, wantEvicted: "t:4",
		},
		"limit 0, job w of equal priority has elastic pods on another node, which ran 90 hours: one of those": {
			scene: `node a,b model=A cards=4
				job t queue=q min=1 running=a*4 priorityClass=low age=1h
				job w queue=q min=1 running=b*4 priorityClass=low age=90h` + oneCard,
			backoffLimits: map[string]int32{"t": 0}, wantEvicted: "w:1",
		},
		"no Kubernetes Job, gang g ran 9 hours and gang h 8: gang h": {
			scene: `node a model=A
				job g queue=q min=4 running=a*4 priorityClass=low age=9h
				job h queue=q min=4 running=a*4 priorityClass=low age=8h` + oneCard,
			wantEvicted: "h:4",
		},
		"limit 9, the Job is a gang that loses 3 pods × 9 hours, because t-0 has saved, and gang h 4 × 8: the Job": {
			scene: `node a model=A
				job t queue=q min=4 running=a*4 priorityClass=low age=9h
				job h queue=q min=4 running=a*4 priorityClass=low age=8h` + oneCard,
			backoffLimits: map[string]int32{"t": 9}, change: savedNow, wantEvicted: "t:4",
		},
		"no Kubernetes Job, elastic pods have a higher priority than gang g: the gang": {
			scene: `node a model=A
				job g queue=q min=4 running=a*4 age=9h
				job w queue=q min=1 running=a*4 priorityClass=low age=1h` + oneCard,
			wantEvicted: "g:4",
		},
	}) {
		for _, topologyAware := range []bool{false, true} {
			if topologyAware && !strings.Contains(tc.scene, "job high queue=q min=1 pending=1 ") {
				continue // Volcano decides on a copy of the node, and evicts for the first pod only
			}

			s := newScene(t, `queue q quota={"A":8} cpu=1000
				`+tc.scene, ofBatchJob("t"), tc.change).useBackoffLimits(tc.backoffLimits)
			s.evict(preempt.New(), topologyAwarePreempt(topologyAware))

			check.Equal(t, "pods that preempt reports as evicted", tc.wantEvicted, countByState(slices.Concat(s.preempted...)))
			check.Equal(t, "pods that are evicted in the session", tc.wantEvicted, countByState(s.In(api.Releasing)))
		}
	}
}

// TestReclaimDoesNotFailAJobAtItsBackoffLimit: Volcano's action reclaim takes pods of training one by one for
// inference, in the order that the plugin says. Elastic pods of a Kubernetes Job "t" come first as far as its
// backoffLimit allows, because more failures end the Job; an unknown limit counts as 0. Then comes a pod of gang "g",
// or of the Job if its end destroys less work than that of the gang. "g:1" is one pod of g. The two values of
// VictimOrder that an administrator may configure give the same victims here.
func TestReclaimDoesNotFailAJobAtItsBackoffLimit(t *testing.T) {
	const jobBesideGang = `job t queue=tra min=1 running=a*4 age=10h
		job g queue=tra min=4 running=a*4 age=4h`
	for t, tc := range check.Cases(t, map[string]struct {
		jobs          string
		cards         int              // that inference needs
		backoffLimits map[string]int32 // of Kubernetes Jobs
		wantEvicted   string
	}{
		"limit 1, one card: a pod of the Job":                   {jobBesideGang, 1, map[string]int32{"t": 1}, "t:1"},
		"limit 0, one card: a pod of the gang":                  {jobBesideGang, 1, map[string]int32{"t": 0}, "g:1"},
		"limit 2, two cards: two pods of the Job":               {jobBesideGang, 2, map[string]int32{"t": 2}, "t:2"},
		"limit 2, three cards: two of the Job, one of the gang": {jobBesideGang, 3, map[string]int32{"t": 2}, "g:1 t:2"},
		"the limit is unknown, one card: a pod of the gang":     {jobBesideGang, 1, nil, "g:1"},
		"limit 0, and the gang ran 50 hours: a pod of the Job, which ends with less loss": {
			`job t queue=tra min=1 running=a*4 age=10h
				job g queue=tra min=4 running=a*4 age=50h`, 1, map[string]int32{"t": 0}, "t:1",
		},
		"limit 0, and the gang lacks a pod, so it does no work anyway: a pod of the gang": {
			`job t queue=tra min=1 running=a*5 age=1h
				job g queue=tra min=4 running=a*3 pending=1 age=50h`, 1, map[string]int32{"t": 0}, "g:1",
		},
	}) {
		for _, victimOrder := range []string{"Priority", "Loss"} {
			scene := fmt.Sprintf(`node a model=A
				queue inf quota={"A":8} priority=80000 serviceType=inference
				queue tra quota={"A":8} priority=20000 serviceType=training
				%s
				job i queue=inf min=1 pending=1 cards=%d`, tc.jobs, tc.cards)
			s := newScene(t, scene, ofBatchJob("t")).useBackoffLimits(tc.backoffLimits)
			s.withArguments(map[string]any{"victimOrder": victimOrder}).evict(reclaim.New())

			check.Equal(t, "evicted pods with victimOrder "+victimOrder, tc.wantEvicted, countByState(s.In(api.Releasing)))
		}
	}
}

// pricedJob is a drawn job of which one pod may be evicted.
type pricedJob struct {
	name       string
	isLow      bool     // it has priority class low, and else none, which is lower
	isBatchJob bool     // a Kubernetes Job
	nodes      []string // of its pods
	minimum    int
	// ranHours is how long ago its pods started, and savedHours how long ago they saved their work.
	ranHours, savedHours int
	backoffLimit         int
}

// neverSaved is a value of savedHours that is longer ago than any pod started.
const neverSaved = 99

func (j *pricedJob) text() string {
	class := map[bool]string{true: "priorityClass=low"}[j.isLow]
	return fmt.Sprintf("job %s queue=q min=%d running=%s %s age=%dh\n", j.name, j.minimum, strings.Join(j.nodes, ","), class, j.ranHours)
}

// cost is what the eviction of a pod costs: the priority of the job, 1 if the whole job must be evicted, and the hours
// of work that are lost. Of two costs the one with the smaller first different number is less.
func (j *pricedJob) cost() [3]int {
	lostHours := min(j.ranHours, j.savedHours)
	elastic := len(j.nodes) - j.minimum
	priority := map[bool]int{true: 1}[j.isLow]

	canFail := j.isBatchJob && len(j.nodes) > j.backoffLimit
	if canFail {
		elastic = min(elastic, j.backoffLimit)
	}

	switch {
	case elastic > 0:
		return [3]int{priority, 0, lostHours}
	case canFail: // a failed Job loses what it saved, too
		return [3]int{priority, 1, j.ranHours * len(j.nodes)}
	default:
		return [3]int{priority, 1, lostHours * len(j.nodes)}
	}
}

// TestPreemptEvictsWhatCostsLeast draws jobs that use all nine cards of the nodes a, b and c. Some are Kubernetes Jobs.
// A pod of higher priority waits for one card. The oracle, pricedJob.cost, compares costs by the priority of the job,
// then by whether the whole job is evicted, then by lost hours. A Kubernetes Job has no more elastic pods than its
// backoffLimit allows, and as a whole it loses its checkpoints too. The test shows:
//
// (1) One elastic pod is evicted, or all pods of one job.
// (2) A whole job is evicted only if no other job costs less.
// (3) An elastic pod is evicted only if there is no job of lower priority, and no job with a pod on its node costs
// less. On other nodes jobs of its priority may cost less, since preempt stops at the first node with such an elastic
// pod.
func TestPreemptEvictsWhatCostsLeast(t *testing.T) {
	seed.Check(t, func(rt *rapid.T) {
		text := `queue q quota={"A":99} cpu=1000
			node a,b,c model=A cards=3
			`
		jobs := map[string]*pricedJob{}
		backoffLimits := map[string]int32{}

		free := rapid.Permutation([]string{"a", "a", "a", "b", "b", "b", "c", "c", "c"}).Draw(rt, "cards")
		for len(free) > 0 {
			j := &pricedJob{
				name:       fmt.Sprintf("j%d", len(jobs)),
				isLow:      rapid.Bool().Draw(rt, "low"),
				isBatchJob: rapid.Bool().Draw(rt, "batch"),
				savedHours: neverSaved,
			}
			n := rapid.IntRange(1, min(4, len(free))).Draw(rt, "pods")
			j.nodes = free[:n]
			free = free[n:]
			j.minimum = rapid.IntRange(1, n).Draw(rt, "minimum")
			j.ranHours = rapid.IntRange(1, 9).Draw(rt, "ran")
			j.backoffLimit = rapid.IntRange(0, 4).Draw(rt, "limit")
			if rapid.Bool().Draw(rt, "has saved") {
				j.savedHours = rapid.IntRange(0, 9).Draw(rt, "saved")
			}

			backoffLimits[j.name] = int32(j.backoffLimit)
			jobs[j.name] = j
			text += j.text()
		}

		jobOf := func(pod string) *pricedJob {
			name, _, _ := strings.Cut(pod, "-")
			return jobs[name]
		}

		s := newScene(t, text+"job high queue=q min=1 pending=1 priorityClass=high", func(p *corev1.Pod) {
			j := jobOf(p.Name)
			if j != nil && j.savedHours != neverSaved {
				saved := time.Now().Add(-time.Duration(j.savedHours) * time.Hour)
				annotate("volcano.sh/checkpoint-time", saved.UTC().Format(time.RFC3339))(p)
			}
			if j != nil && j.isBatchJob {
				ofBatchJob(j.name)(p)
			}
		}).useBackoffLimits(backoffLimits)
		defer s.Close()
		s.evict(preempt.New())

		evicted := slices.Concat(s.preempted...)
		check.Must(rt, len(evicted) > 0, "no pod is evicted")
		victim := jobOf(evicted[0].Name)
		cost := victim.cost()
		isWholeJob := cost[1] == 1
		wantEvicted := 1
		if isWholeJob {
			wantEvicted = len(victim.nodes)
		}

		check.Equal(rt, "number of evicted pods", wantEvicted, len(evicted))
		node := s.In(api.Pipelined)[0].NodeName
		for _, other := range jobs {
			otherCost := other.cost()
			isCandidate := isWholeJob || otherCost[0] < cost[0] || slices.Contains(other.nodes, node)
			check.Must(rt, !isCandidate || slices.Compare(cost[:], otherCost[:]) <= 0,
				"%s is evicted, which costs %v, although %s costs %v", victim.name, cost, other.name, otherCost)
		}
	})
}
