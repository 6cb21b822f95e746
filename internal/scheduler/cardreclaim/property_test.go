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

// podState is the state of a pod in a session.
type podState struct {
	*corev1.Pod
	job, queue, node string
	status           api.TaskStatus
	cards            int
	cpu              float64
}

// podStates reads every pod from the session.
func podStates(ssn *framework.Session) map[string]podState {
	pods := map[string]podState{}
	for _, j := range ssn.Jobs {
		for _, task := range j.Tasks {
			requests := task.Pod.Spec.Containers[0].Resources.Requests
			pods[task.Name] = podState{
				task.Pod, j.Name, string(j.Queue), task.NodeName, task.Status,
				int(requests.Name(gpu, "").Value()), requests.Cpu().AsApproximateFloat64(),
			}
		}
	}
	return pods
}

func (p podState) isRunning() bool { return p.status == api.Running || p.status == api.Bound }

// hasNode reports whether a pod is placed or pipelined.
func (p podState) hasNode() bool { return api.AllocatedStatus(p.status) || p.status == api.Pipelined }

// drawScene returns a small random cluster in which training uses most cards and inference is
// pending.
func drawScene(t *rapid.T) *scene {
	s := newInferenceAndTrainingScene("")
	free := map[string]int{}
	cpus := map[string]int{}
	names := []string{"n1", "n2", "n3", "n4"}[:rapid.IntRange(2, 4).Draw(t, "nodes")]
	for i, name := range names {
		free[name] = rapid.IntRange(2, 5).Draw(t, "cards")
		cpus[name] = rapid.SampledFrom([]int{8, 16, 64}).Draw(t, "cores")
		s.add(fmt.Sprintf("node %s model=%s cards=%d", name, rapid.SampledFrom([]string{"A", "A", "B"}).Draw(t, "model"), free[name]))
		s.Nodes[i].Status.Allocatable["cpu"] = amount(fmt.Sprint(cpus[name]))
	}

	for _, queue := range []string{"inference priority=80000", "inference2 priority=70000"} {
		quotaOfA := rapid.IntRange(0, 8).Draw(t, "quota of A")
		quotaOfB := rapid.IntRange(0, 8).Draw(t, "quota of B")
		s.add(fmt.Sprintf(`queue %s quota={"A":%d,"B":%d} serviceType=inference cpu=1000`, queue, quotaOfA, quotaOfB))
	}

	// Queue old of training has a higher priority than inference2. No job may evict pods of the last two queues.
	s.add(`
		queue old quota=1000 priority=75000 serviceType=training
		queue keeps quota=1000 priority=10000 serviceType=inference
		queue odd quota=1000 priority=10000 serviceType=batch`)
	for i := range rapid.IntRange(1, 6).Draw(t, "jobs that run") {
		s.drawRunningJob(t, fmt.Sprintf("t%d", i), names, free, cpus)
	}

	for i := range rapid.IntRange(1, 4).Draw(t, "jobs that wait") {
		s.drawWaitingJob(t, fmt.Sprintf("i%d", i))
	}

	s.withoutAllocate = rapid.Bool().Draw(t, "without allocate")
	return s
}

// drawRunningJob adds a job with pods on nodes that have as many cards and cores free. It adds none if no pod fits.
func (s *scene) drawRunningJob(t *rapid.T, name string, nodes []string, free, cpus map[string]int) {
	cards := rapid.SampledFrom([]int{1, 1, 2, 0}).Draw(t, "cards")
	on := []string{}
	for range rapid.IntRange(1, 4).Draw(t, "pods") {
		if at := rapid.SampledFrom(nodes).Draw(t, "node"); free[at] >= cards && cpus[at] > 0 {
			free[at] -= cards
			cpus[at]--
			on = append(on, at)
		}
	}

	if len(on) == 0 {
		return
	}

	queue := rapid.SampledFrom([]string{"training", "training", "training", "training", "old", "keeps", "odd"}).Draw(t, "queue")
	minimum := rapid.IntRange(1, len(on)+1).Draw(t, "minimum")
	age := rapid.SampledFrom([]string{"0s", "1h", "5h", "30h"}).Draw(t, "age")
	owner := rapid.SampledFrom([]string{
		"", "", "owner=vcjob", "owner=vcjob evictionPolicy=RestartJob", "owner=vcjob evictionPolicy=TerminateJob",
	}).Draw(t, "owner")
	text := fmt.Sprintf("job %s queue=%s min=%d running=%s cards=%d card=A|B age=%s %s", name, queue, minimum, strings.Join(on, ","), cards, age, owner)

	s.add(text, func(p *corev1.Pod) {
		if strings.HasSuffix(p.Name, "-0") && rapid.IntRange(0, 5).Draw(t, "protects") == 0 {
			protect(p)
		}
	})
}

// drawWaitingJob adds a job whose pods are pending.
func (s *scene) drawWaitingJob(t *rapid.T, name string) {
	pods := rapid.IntRange(1, 3).Draw(t, "pods")
	change := requesting("cpu", rapid.SampledFrom([]string{"1", "1", "4", "12"}).Draw(t, "cores"))
	if rapid.IntRange(0, 4).Draw(t, "one pod per node") == 0 {
		change = applyAll(change, withLabel(name), avoiding(name))
	}

	queue := rapid.SampledFrom([]string{"inference", "inference", "inference2", "training"}).Draw(t, "queue")
	minimum := rapid.IntRange(1, pods).Draw(t, "minimum")
	cards := rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "cards")
	card := rapid.SampledFrom([]string{"A", "B", "A|B", "B|A"}).Draw(t, "card")
	s.add(fmt.Sprintf("job %s queue=%s min=%d pending=%d cards=%d card=%s", name, queue, minimum, pods, cards, card), change)
}

// suffices reports whether free cards suffice for all pending pods, wherever each is placed.
// Every model has as many places for the largest of them as there are pods.
func (s *scene) suffices(before map[string]podState) bool {
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
	for _, n := range s.Nodes {
		all := n.Status.Allocatable
		byCards := (int(all.Name(gpu, "").Value()) - used[n.Name]) / cards
		byCPU := int((all.Cpu().AsApproximateFloat64() - cores[n.Name]) / cpu)
		places[n.Labels["nvidia.com/gpu.product"]] += min(byCards, byCPU)
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

func (s *scene) tally(t *rapid.T, before, after map[string]podState) *tally {
	models := map[string]string{}
	priorities := map[string]int32{}
	for _, n := range s.Nodes {
		models[n.Name] = n.Labels["nvidia.com/gpu.product"]
	}

	for _, q := range s.Queues {
		priorities[q.Name] = q.Spec.Priority
	}

	sums := &tally{
		ran: map[string]int{}, runs: map[string]int{}, placed: map[string]int{},
		evicted: map[string][]string{}, used: map[string]map[string]int{}, came: map[string]int32{},
	}
	for name, now := range after {
		was := before[name]
		if was.isRunning() {
			sums.ran[was.job]++
		}
		if now.isRunning() {
			sums.runs[now.job]++
		}

		if now.hasNode() {
			sums.placed[now.job]++
			if sums.used[now.queue] == nil {
				sums.used[now.queue] = map[string]int{}
			}
			sums.used[now.queue][models[now.node]] += now.cards
		}

		switch {
		case was.status == api.Running && now.status == api.Releasing:
			sums.evicted[was.job] = append(sums.evicted[was.job], name)
		case now.status == api.Pipelined:
			sums.came[now.node] = max(sums.came[now.node], priorities[now.queue])
			check.Must(t, slices.Contains(strings.Split(now.Annotations["volcano.sh/card.name"], "|"), models[now.node]),
				"%s is on a card that it does not name", name)
		}
	}

	return sums
}

// check compares a session after the action with the one before.
func (s *scene) check(t *rapid.T, before, after map[string]podState) {
	sums := s.tally(t, before, after)
	for _, j := range s.Groups {
		s.checkJob(t, sums, j.Name, int(j.Spec.MinMember), before)
	}

	s.checkQuotas(t, sums)
	for _, n := range s.Ssn.Nodes {
		idle := n.FutureIdle()
		check.Must(t, idle.MilliCPU >= 0 && idle.Memory >= 0 && idle.ScalarResources[gpu] >= 0,
			"node %s has more pipelined than it has free: %s", n.Name, idle)
	}

	check.Must(t, len(sums.evicted) == 0 || !s.suffices(before), "%v are evicted although all fit", sums.evicted)
}

// checkJob checks that a job has its minimum of pods or none: placed by the action, or left by its
// evictions. Those must be allowed, and help a queue of higher priority.
func (s *scene) checkJob(t *rapid.T, sums *tally, job string, least int, before map[string]podState) {
	check.Must(t, !strings.HasPrefix(job, "i") || sums.placed[job] == 0 || sums.placed[job] >= least,
		"%s has %d pods placed, its minimum is %d", job, sums.placed[job], least)

	gone := sums.evicted[job]
	if len(gone) == 0 {
		return
	}

	s.checkVictimJob(t, job, gone, before, sums.came)
	check.Must(t, sums.runs[job] == 0 || (sums.runs[job] >= least && !s.policies["ns/"+job].Inelastic),
		"%s of %d pods is left with %d, its minimum is %d: %q are evicted", job, sums.ran[job], sums.runs[job], least, gone)
}

// checkQuotas compares the usage of every inference queue with its quota.
func (s *scene) checkQuotas(t *rapid.T, sums *tally) {
	for _, q := range s.Queues {
		quota := map[string]int{}
		check.NoError(t, json.Unmarshal([]byte(q.Annotations["volcano.sh/card.quota"]), &quota))
		for model, cards := range sums.used[q.Name] {
			check.Must(t, !strings.HasPrefix(q.Name, "inference") || cards <= quota[model],
				"queue %s uses %d of %s, its quota is %d", q.Name, cards, model, quota[model])
		}
	}
}

// checkVictimJob checks one victim job: whether it may be evicted, and whether that helped a queue
// of higher priority.
func (s *scene) checkVictimJob(t *rapid.T, name string, gone []string, before map[string]podState, came map[string]int32) {
	useful := false
	priorities := map[string]int32{"training": 20000, "old": 75000}
	for _, of := range gone {
		p := before[of]
		useful = useful || (came[p.node] > priorities[p.queue] && p.cards > 0)
		check.Must(t, (p.queue == "training" || p.queue == "old") && p.Annotations["volcano.sh/preemptable"] != "false",
			"%s of queue %s is evicted", of, p.queue)
		check.Must(t, len(gone) == len(s.podsOf(name)) || (p.cards > 0 && came[p.node] > priorities[p.queue]),
			"%s alone is evicted from node %s, where no pod above it is placed", of, p.node)
	}

	check.Must(t, useful, "%q are evicted, and no pod above them is placed there", gone)
}

// TestReclaimKeepsItsRulesOnRandomScenes: one session of cardreclaim runs on each random small cluster.
// (1) It evicts only pods of training queues that are not protected. They are evicted for pods of a queue of higher
// priority, which get cards of the same node (checkVictimJob).
// (2) A victim job keeps its minimum or no pod, and a waiting job gets its minimum or no card (checkJob).
// (3) Pods are placed only on cards that they name (tally).
// (4) No queue of inference exceeds its quota, and no node its cards, CPU and memory.
// (5) Nothing is evicted if free cards and cores suffice for all waiting pods, wherever each is placed (suffices).
func TestReclaimKeepsItsRulesOnRandomScenes(t *testing.T) {
	scenes := 0
	victims := 0
	seed.Check(t, func(t *rapid.T) {
		s := drawScene(t).openSession()
		defer s.Close()

		before := podStates(s.Ssn)
		s.runActions()
		s.check(t, before, podStates(s.Ssn))
		scenes++
		victims += len(s.In(api.Releasing))
	})

	check.That(t, victims != 0, "no pod was evicted in %d scenes: nothing was tested", scenes)
	t.Logf("%d pods were evicted in %d scenes", victims, scenes)
}
