package forecast

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

const (
	// cardName is the only card of the nodes.
	cardName = "NVIDIA-H200"
	// maxPodCards is how many cards a pod has at most.
	maxPodCards = 8
	// nodeCount nodes with cardsPerNode cards have room for all workloads of the week when they arrive. Sessions are
	// faster with few large nodes.
	nodeCount, cardsPerNode = 24, 32
	// scheduler is the scheduler that enforces quotas.
	scheduler = "volcano"
)

// recordedWorkload is a workload of the week.
type recordedWorkload struct {
	name string
	// tenant is its virtual cluster, and the name of its queue and of its namespace.
	tenant string
	// arrival counts from the beginning of the week.
	arrival, duration time.Duration
	cards             int
}

// readWeek reads the workloads of the week in the order in which they arrive.
func readWeek(t check.T) []*recordedWorkload {
	file := check.Value(os.Open("testdata/week.csv"))(t)
	rows := check.Value(csv.NewReader(file).ReadAll())(t)
	check.NoError(t, file.Close())

	var week []*recordedWorkload
	for i, row := range rows[1:] {
		number := func(column int) int { return check.Value(strconv.Atoi(row[column]))(t) }
		week = append(week, &recordedWorkload{
			name: fmt.Sprintf("job-%04d", i), tenant: row[3], cards: number(2),
			arrival: time.Duration(number(0)) * time.Second, duration: time.Duration(number(1)) * time.Second,
		})
	}

	slices.SortStableFunc(week, func(a, b *recordedWorkload) int { return cmp.Compare(a.arrival, b.arrival) })
	return week
}

// mostCards returns the most cards that the workloads of each tenant use at once if none waits, and the most that one
// of them has.
func mostCards(week []*recordedWorkload) (atOnce, ofOne map[string]int) {
	atOnce = map[string]int{}
	ofOne = map[string]int{}

	for _, arriving := range week {
		used := 0
		for _, other := range week {
			if other.tenant == arriving.tenant && other.arrival <= arriving.arrival && arriving.arrival < other.arrival+other.duration {
				used += other.cards
			}
		}

		atOnce[arriving.tenant] = max(atOnce[arriving.tenant], used)
		ofOne[arriving.tenant] = max(ofOne[arriving.tenant], arriving.cards)
	}
	return atOnce, ofOne
}

// quotasFor returns a quota for each tenant: so many percent of the most cards that it uses at once, and enough for
// each of its workloads alone.
func quotasFor(week []*recordedWorkload, percent int) map[string]int {
	atOnce, ofOne := mostCards(week)
	quotas := make(map[string]int, len(atOnce))
	for tenant, cards := range atOnce {
		quotas[tenant] = max(cards*percent/100, ofOne[tenant])
	}
	return quotas
}

// isGang reports whether the workload has several pods.
func (w *recordedWorkload) isGang() bool { return w.cards > maxPodCards }

// podGroup returns the PodGroup of the workload, which needs all of its pods.
func (w *recordedWorkload) podGroup(begin time.Time) *v1beta1.PodGroup {
	pods := (w.cards + maxPodCards - 1) / maxPodCards
	return builder.PodGroup(w.tenant, w.name).Queue(w.tenant).MinMember(int32(pods)).MinResource(builder.GPU, strconv.Itoa(w.cards)).
		Created(begin.Add(w.arrival)).Obj()
}

// pods returns the pods of the workload in a PodGroup. They have a Job, and wait.
func (w *recordedWorkload) pods(begin time.Time) (pods []*corev1.Pod) {
	for left := w.cards; left > 0; left -= maxPodCards {
		pods = append(pods, builder.Pod(w.tenant, fmt.Sprintf("%s-pod-%d", w.name, len(pods))).Scheduler(scheduler).PodGroup(w.name).
			GPUs(min(left, maxPodCards)).Owner("batch/v1", "Job", w.name).Created(begin.Add(w.arrival)).Obj())
	}
	return pods
}

// newNodes returns the nodes.
func newNodes() []*corev1.Node {
	nodes := make([]*corev1.Node, nodeCount)
	for i := range nodes {
		name := fmt.Sprintf("node-%03d", i)
		nodes[i] = builder.Node(name).GPUs(cardName, cardsPerNode).Label(corev1.LabelHostname, name).Obj()
	}
	return nodes
}

// TestTheWeekIsTheRecordedOne: the file of the week has 959 workloads of 7 tenants, which have up to 16 cards each. They
// arrive in 7 days, in the order of the file.
func TestTheWeekIsTheRecordedOne(t *testing.T) {
	week := readWeek(t)
	atOnce, ofOne := mostCards(week)
	check.Equal(t, "workloads", 959, len(week))
	check.Equal(t, "tenants", 7, len(atOnce))
	check.Equal(t, "most cards at once of vc11", 164, atOnce["vc11"])
	check.Equal(t, "most cards of one workload of vc11", 16, ofOne["vc11"])

	last := week[len(week)-1]
	check.That(t, last.arrival < 7*24*time.Hour, "%s arrives %s after the beginning of the week", last.name, last.arrival)
}
