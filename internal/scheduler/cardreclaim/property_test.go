package cardreclaim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// pod is the state of a pod in a session.
type pod struct {
	*corev1.Pod
	job, queue, node string
	status           api.TaskStatus
	cards            int
	cpu              float64
}

// recount reads every pod from the session.
func recount(ssn *framework.Session) map[string]pod {
	pods := map[string]pod{}
	for _, j := range ssn.Jobs {
		for _, task := range j.Tasks {
			requests := task.Pod.Spec.Containers[0].Resources.Requests
			pods[task.Name] = pod{task.Pod, j.Name, string(j.Queue), task.NodeName, task.Status, int(requests.Name(gpu, "").Value()), requests.Cpu().AsApproximateFloat64()}
		}
	}
	return pods
}

func (p pod) runs() bool { return p.status == api.Running || p.status == api.Bound }

// holds reports whether a pod is placed or pipelined.
func (p pod) holds() bool { return api.AllocatedStatus(p.status) || p.status == api.Pipelined }

// drawScene returns a small random cluster in which training uses most cards and inference is
// pending.
func drawScene(t *rapid.T) *scene {
	w := newScene("")
	free := map[string]int{}
	cpus := map[string]int{}
	names := []string{"n1", "n2", "n3", "n4"}[:rapid.IntRange(2, 4).Draw(t, "nodes")]
	for i, name := range names {
		free[name] = rapid.IntRange(2, 5).Draw(t, "cards")
		cpus[name] = rapid.SampledFrom([]int{8, 16, 64}).Draw(t, "cores")
		w.add(fmt.Sprintf("node %s model=%s cards=%d", name, rapid.SampledFrom([]string{"A", "A", "B"}).Draw(t, "model"), free[name]))
		w.Nodes[i].Status.Allocatable["cpu"] = amount(fmt.Sprint(cpus[name]))
	}

	for _, queue := range []string{"inf", "inf2"} {
		rest := map[string]string{"inf": "priority=80000 serviceType=inference", "inf2": "priority=70000 serviceType=inference"}[queue]
		w.add(fmt.Sprintf(`queue %s quota={"A":%d,"B":%d} %s cpu=1000`, queue, rapid.IntRange(0, 8).Draw(t, "quota of A"), rapid.IntRange(0, 8).Draw(t, "quota of B"), rest))
	}

	w.add("queue old quota=PLENTY priority=75000 serviceType=training; queue keeps quota=PLENTY priority=10000 serviceType=inference; queue odd quota=PLENTY priority=10000 serviceType=batch") // old is above inf2
	for i := range rapid.IntRange(1, 6).Draw(t, "jobs that run") {
		cards := rapid.SampledFrom([]int{1, 1, 2, 0}).Draw(t, "cards")
		on := []string{}
		for range rapid.IntRange(1, 4).Draw(t, "pods") {
			if at := rapid.SampledFrom(names).Draw(t, "node"); free[at] >= cards && cpus[at] > 0 {
				free[at] -= cards
				cpus[at]--
				on = append(on, at)
			}
		}

		if len(on) == 0 {
			continue
		}

		text := fmt.Sprintf("job t%d queue=%s min=%d running=%s cards=%d card=A|B age=%s %s", i, rapid.SampledFrom([]string{"tra", "tra", "tra", "tra", "old", "keeps", "odd"}).Draw(t, "queue"),
			rapid.IntRange(1, len(on)+1).Draw(t, "minimum"), strings.Join(on, ","), cards, rapid.SampledFrom([]string{"0s", "1h", "5h", "30h"}).Draw(t, "age"),
			rapid.SampledFrom([]string{"", "", "owner=vcjob", "owner=vcjob evictionPolicy=RestartJob", "owner=vcjob evictionPolicy=TerminateJob"}).Draw(t, "owner"))

		w.add(text, func(p *corev1.Pod) {
			if strings.HasSuffix(p.Name, "-0") && rapid.IntRange(0, 5).Draw(t, "protects") == 0 {
				protect(p)
			}
		})
	}

	for i := range rapid.IntRange(1, 4).Draw(t, "jobs that wait") {
		waits := rapid.IntRange(1, 3).Draw(t, "pods")
		name := fmt.Sprintf("i%d", i)
		change := requests("cpu", rapid.SampledFrom([]string{"1", "1", "4", "12"}).Draw(t, "cores"))
		if rapid.IntRange(0, 4).Draw(t, "one pod per node") == 0 {
			change = applyAll(change, withLabelAndAntiAffinity(name, name))
		}

		w.add(fmt.Sprintf("job %s queue=%s min=%d pending=%d cards=%d card=%s", name, rapid.SampledFrom([]string{"inf", "inf", "inf2", "tra"}).Draw(t, "queue"), rapid.IntRange(1, waits).Draw(t, "minimum"),
			waits, rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "cards"), rapid.SampledFrom([]string{"A", "B", "A|B", "B|A"}).Draw(t, "card")), change)
	}

	w.alone = rapid.Bool().Draw(t, "without allocate")
	return w
}

// suffices reports whether free cards suffice for all pending pods, wherever each is placed.
// Every model has as many places for the largest of them as there are pods.
func (w *scene) suffices(before map[string]pod) bool {
	waiting := 0
	cards := 1
	cpu := 1.0
	used := map[string]int{}
	cores := map[string]float64{}
	for _, p := range before {
		if p.status == api.Pending {
			waiting++
			if p.Spec.Affinity != nil {
				return false
			}
			cards = max(cards, p.cards)
			cpu = max(cpu, p.cpu)
		} else {
			used[p.node] += p.cards
			cores[p.node] += p.cpu
		}
	}

	places := map[string]int{"A": 0, "B": 0}
	for _, n := range w.Nodes {
		all := n.Status.Allocatable
		places[n.Labels["nvidia.com/gpu.product"]] += min((int(all.Name(gpu, "").Value())-used[n.Name])/cards, int((all.Cpu().AsApproximateFloat64()-cores[n.Name])/cpu))
	}

	return places["A"] >= waiting && places["B"] >= waiting
}

// tally is the sums of a session.
type tally struct {
	// ran, runs and placed are counts of pods by job, evicted their names.
	ran, runs, placed map[string]int
	evicted           map[string][]string
	// used is what each queue uses of each model.
	used map[string]map[string]int
	// came is the highest priority of the queues with a pipelined pod, by node.
	came map[string]int32
}

func (w *scene) tally(t *rapid.T, before, after map[string]pod) *tally {
	models := map[string]string{}
	priorities := map[string]int32{}
	for _, n := range w.Nodes {
		models[n.Name] = n.Labels["nvidia.com/gpu.product"]
	}

	for _, q := range w.Queues {
		priorities[q.Name] = q.Spec.Priority
	}

	y := &tally{map[string]int{}, map[string]int{}, map[string]int{}, map[string][]string{}, map[string]map[string]int{}, map[string]int32{}}
	for name, now := range after {
		was := before[name]
		if was.runs() {
			y.ran[was.job]++
		}
		if now.runs() {
			y.runs[now.job]++
		}

		if now.holds() {
			y.placed[now.job]++
			if y.used[now.queue] == nil {
				y.used[now.queue] = map[string]int{}
			}
			y.used[now.queue][models[now.node]] += now.cards
		}

		switch {
		case was.status == api.Running && now.status == api.Releasing:
			y.evicted[was.job] = append(y.evicted[was.job], name)
		case now.status == api.Pipelined:
			y.came[now.node] = max(y.came[now.node], priorities[now.queue])
			check.Must(t, slices.Contains(strings.Split(now.Annotations["volcano.sh/card.name"], "|"), models[now.node]),
				"%s is on a card that it does not name", name)
		}
	}

	return y
}

// check compares a session after the action with the one before.
func (w *scene) check(t *rapid.T, before, after map[string]pod) {
	y := w.tally(t, before, after)
	for _, j := range w.Groups {
		w.checkJob(t, y, j.Name, int(j.Spec.MinMember), before)
	}

	w.checkQuotas(t, y)
	for _, n := range w.Ssn.Nodes {
		idle := n.FutureIdle()
		check.Must(t, idle.MilliCPU >= 0 && idle.Memory >= 0 && idle.ScalarResources[gpu] >= 0,
			"node %s has more pipelined than it has free: %s", n.Name, idle)
	}

	check.Must(t, len(y.evicted) == 0 || !w.suffices(before), "%v are evicted although all fit", y.evicted)
}

// checkJob checks that a job has its minimum of pods or none: placed by the action, or left by its
// evictions. Those must be allowed, and help a queue of higher priority.
func (w *scene) checkJob(t *rapid.T, y *tally, job string, least int, before map[string]pod) {
	check.Must(t, !strings.HasPrefix(job, "i") || y.placed[job] == 0 || y.placed[job] >= least, "%s has %d pods placed, its minimum is %d", job, y.placed[job], least)

	gone := y.evicted[job]
	if len(gone) == 0 {
		return
	}

	w.checkVictimJob(t, job, gone, before, y.came)
	check.Must(t, y.runs[job] == 0 || (y.runs[job] >= least && !w.habits["ns/"+job].Inelastic), "%s of %d pods is left with %d, its minimum is %d: %q go", job, y.ran[job], y.runs[job], least, gone)
}

// checkQuotas compares the usage of every inference queue with its quota.
func (w *scene) checkQuotas(t *rapid.T, y *tally) {
	for _, q := range w.Queues {
		quota := map[string]int{}
		check.NoError(t, json.Unmarshal([]byte(q.Annotations["volcano.sh/card.quota"]), &quota))
		for model, cards := range y.used[q.Name] {
			check.Must(t, !strings.HasPrefix(q.Name, "inf") || cards <= quota[model], "queue %s uses %d of %s, its quota is %d", q.Name, cards, model, quota[model])
		}
	}
}

// checkVictimJob checks one victim job: whether it may be evicted, and whether that helped a queue
// of higher priority.
func (w *scene) checkVictimJob(t *rapid.T, name string, gone []string, before map[string]pod, came map[string]int32) {
	useful := false
	priorities := map[string]int32{"tra": 20000, "old": 75000}
	for _, of := range gone {
		p := before[of]
		useful = useful || (came[p.node] > priorities[p.queue] && p.cards > 0)
		check.Must(t, (p.queue == "tra" || p.queue == "old") && p.Annotations["volcano.sh/preemptable"] != "false",
			"%s of queue %s is evicted", of, p.queue)
		check.Must(t, len(gone) == len(w.podsOf(name)) || (p.cards > 0 && came[p.node] > priorities[p.queue]),
			"%s alone is evicted from node %s, where no pod above it is placed", of, p.node)
	}

	check.Must(t, useful, "%q are evicted, and no pod above them is placed there", gone)
}

func (w *scene) podsOf(name string) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, p := range w.Pods {
		if p.Annotations["scheduling.k8s.io/group-name"] == name {
			pods = append(pods, p)
		}
	}
	return pods
}

// TestReclaimInvariants runs the action on random small clusters.
func TestReclaimInvariants(t *testing.T) {
	scenes := 0
	victims := 0
	seed.Check(t, func(t *rapid.T) {
		w := drawScene(t)
		w.openSession()
		defer w.Close()
		before := recount(w.Ssn)
		w.executeActions()
		w.check(t, before, recount(w.Ssn))
		scenes++
		victims += len(w.In(api.Releasing))
	})

	check.That(t, victims != 0, "no pod was evicted in %d scenes: nothing was tested", scenes)
	t.Logf("%d pods were evicted in %d scenes", victims, scenes)
}
