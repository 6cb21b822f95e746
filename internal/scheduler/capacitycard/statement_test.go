package capacitycard

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"pgregory.net/rapid"
	"volcano.sh/volcano/pkg/scheduler/actions/allocate"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/util"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// draft returns an undecided statement or begins one.
func (l *lifecycle) draft(t *rapid.T) *draft {
	if i := rapid.IntRange(0, 3).Draw(t, "statement") / 2; i < len(l.undecided) {
		return l.undecided[i]
	}
	l.undecided = append(l.undecided, &draft{Statement: framework.NewStatement(l.ssn)})
	return l.undecided[len(l.undecided)-1]
}

// take takes one draft out of a list.
func take(t *rapid.T, drafts *[]*draft) *draft {
	if len(*drafts) == 0 {
		t.Skip("none")
	}
	i := rapid.IntRange(0, len(*drafts)-1).Draw(t, "statement")
	taken := (*drafts)[i]
	*drafts = slices.Delete(*drafts, i, i+1)
	return taken
}

// choose picks a pending task and a node, mostly where it may run.
func (l *lifecycle) choose(t *rapid.T, used map[use]int) (*api.TaskInfo, string) {
	type place struct {
		task *api.TaskInfo
		node string
	}

	var all, good []place
	for _, task := range l.tasks(api.Pending) {
		for _, node := range []string{"n1", "n2", "n3"} {
			all = append(all, place{task, node})
			if l.mayUse(task, node, used) {
				good = append(good, place{task, node})
			}
		}
	}

	if len(all) == 0 {
		return nil, ""
	}

	if len(good) > 0 && rapid.IntRange(0, 2).Draw(t, "anywhere") > 0 {
		all = good
	}

	chosen := all[rapid.IntRange(0, len(all)-1).Draw(t, "place")]
	return chosen.task, chosen.node
}

// place allocates or pipelines a pending task after any check, and undoes it as Volcano's
// actions do if that fails.
func (l *lifecycle) place(t *rapid.T, do func(*draft, *api.TaskInfo, *api.NodeInfo) error, undo func(*draft, *api.TaskInfo) error) {
	stmt := l.draft(t)
	before := l.used()
	task, node := l.choose(t, before)
	if task == nil {
		return
	}

	err := do(stmt, task, l.ssn.Nodes[node])
	may := l.mayUse(task, node, before)
	check.Must(t, (err == nil) == may, "%s on %s: error %v, want placed %v", task.UID, node, err, may)

	if err == nil {
		stmt.steps = append(stmt.steps, step{task.UID, task.Job, node})
		l.grewWithinQuota(t, before)
		return
	}

	check.NoError(t, undo(stmt, task))
	check.Must(t, l.plugin.Ledger.Charged(string(task.UID)) == nil, "%s was not placed on %s and is charged", task.UID, node)
}

func pipelines(d *draft, task *api.TaskInfo, node *api.NodeInfo) error {
	return d.Pipeline(task, node.Name, false)
}

// commit commits a statement and notes what was asked of the API server.
func (l *lifecycle) commit(t *rapid.T, d *draft) {
	d.Commit()
	for _, s := range d.steps {
		if s.node == "" && l.ssn.Jobs[s.job].Tasks[s.task].Status == api.Releasing {
			if name := <-l.evicted; l.pods[name] != nil && l.pods[name].DeletionTimestamp == nil {
				l.evicting[name] = true
			}
		}
	}
	l.noteBindings(t)
}

// noteBindings notes what the API server was asked to bind: with the queue that
// pays written into it.
func (l *lifecycle) noteBindings(t *rapid.T) {
	for len(l.cache.BindFlowChannel) > 0 {
		task := (<-l.cache.BindFlowChannel).TaskInfo
		l.binding[task.Name] = task.NodeName
		check.Equal(t, "queue with which "+task.Name+" is bound", l.chargedQueue(task), task.Pod.Annotations["cardquota.dev/charged-queue"])
	}
}

// repeatEvent sends the last event of a task again, of a copy as Volcano does.
func (l *lifecycle) repeatEvent(t *rapid.T) {
	tasks := l.tasks(api.Bound, api.Running, api.Pending)
	if len(tasks) == 0 {
		t.Skip("none")
	}
	task := rapid.SampledFrom(tasks).Draw(t, "task").Clone()
	switch event := (&framework.Event{Task: task}); task.Status {
	case api.Bound, api.Running:
		l.plugin.allocation.onAllocate(event)
	case api.Pending:
		l.plugin.allocation.onDeallocate(event)
	}
}

// recover replays what a discarded statement had done. It must go through as far
// as the quota does, whatever else happened in between.
func (l *lifecycle) recover(t *rapid.T, saved *draft) {
	used := l.used()
	may := true
	for _, s := range saved.steps {
		task := l.ssn.Jobs[s.job].Tasks[s.task]
		if !slices.Contains([]api.TaskStatus{api.Pending, api.Bound, api.Running}, task.Status) {
			return // Volcano repeats only what no other pod has taken
		}

		cards, _ := asked(task.Pod)
		if s.node == "" {
			used[use{l.chargedQueue(task), l.modelOf(task), false}] -= cards
			used[use{l.chargedQueue(task), l.modelOf(task), true}] += cards
		} else {
			may = may && l.mayUse(task, s.node, used)
			used[use{l.queueOf(task), l.models[s.node], false}] += cards
		}
	}

	l.replayed = true
	replayed := &draft{Statement: framework.NewStatement(l.ssn), steps: saved.steps}
	err := replayed.RecoverOperations(saved.Statement)
	check.Must(t, (err == nil) == may, "%+v is replayed with error %v, want replayed %v", saved.steps, err, may)

	if may {
		l.undecided = append(l.undecided, replayed)
	} // else Volcano forgets the statement, and what it did stays for the session
}

// TestLedgerFollowsVolcanosStatements: the ledger has the charge of each pod, and quota is only as right as
// the ledger. Volcano places and evicts pods in statements, which it may discard, replay or commit. The
// plugin follows their events; one that comes twice changes nothing. The test draws sequences of such steps
// with Volcano's own sessions and cache. Jobs one, two and three of queues q and r are on three nodes of five
// cards. Commits, bindings and evictions may fail. Between sessions pods are created and deleted, nodes get
// other labels, quotas change, PodGroups move to other queues, and the process restarts. A recount (l.used)
// sums the cards of the pods by the states that Volcano has for them.
//
// (1) After every step the ledger equals the recount: which pods are charged, and what each queue uses and
// has terminating. It limits as many cards as the quota of the queue names (l.check).
// (2) A placement or a replay succeeds exactly if the pod may use the node's card, and the quota covers each
// of two sums: what is used with this pod, and what is terminating. A pod without cards needs only a readable
// quota (l.mayUse).
// (3) Usage grows only within quotas, also when Volcano's own action allocate runs (l.grewWithinQuota).
// (4) A binding names the charged queue. When a session opens, its metrics equal the recount.
func TestLedgerFollowsVolcanosStatements(t *testing.T) {
	allocation := allocate.New()
	conf.EnabledActionMap = map[string]bool{allocation.Name(): true}
	volcano := cache.NewCustomMockSchedulerCache("volcano", util.NewFakeBinder(0), nil, &util.FakeStatusUpdater{}, nil, &record.FakeRecorder{})

	seed.Check(t, func(t *rapid.T) {
		l := newLifecycle(t, volcano)
		actions := map[string]func(*rapid.T){
			"allocate": func(t *rapid.T) {
				for range rapid.IntRange(1, 3).Draw(t, "times") {
					l.place(t, (*draft).Allocate, (*draft).UnAllocate)
				}
			},
			"pipeline": func(t *rapid.T) {
				for range rapid.IntRange(1, 3).Draw(t, "times") {
					l.place(t, pipelines, (*draft).UnPipeline)
				}
			},
			"evict": func(t *rapid.T) {
				d := l.draft(t)
				for range rapid.IntRange(1, 2).Draw(t, "times") {
					if running := l.tasks(api.Bound, api.Running); len(running) > 0 {
						task := rapid.SampledFrom(running).Draw(t, "pod")
						check.NoError(t, d.Evict(task, "test"))
						d.steps = append(d.steps, step{task: task.UID, job: task.Job})
					}
				}
			},
			"discard": func(t *rapid.T) { take(t, &l.undecided).Discard() },
			"commit":  func(t *rapid.T) { l.commit(t, take(t, &l.undecided)) },
			"commit what makes a job ready": func(t *rapid.T) {
				if d := take(t, &l.undecided); len(d.steps) > 0 && l.ssn.JobReady(l.ssn.Jobs[d.steps[0].job]) {
					l.commit(t, d)
				}
			},
			"save and discard": func(t *rapid.T) {
				d := take(t, &l.undecided)
				if len(d.steps) == 0 {
					t.Skip("Volcano saves no empty solution")
				}
				l.saved = append(l.saved, &draft{Statement: framework.SaveOperations(d.Statement), steps: d.steps})
				d.Discard()
			},
			"recover": func(t *rapid.T) {
				saved := take(t, &l.saved)
				for range rapid.IntRange(0, 2).Draw(t, "pods that are placed first") {
					l.place(t, (*draft).Allocate, (*draft).UnAllocate)
				}
				l.recover(t, saved)
			},
			"Volcano allocates": func(t *rapid.T) {
				if len(l.undecided) > 0 || l.replayed {
					t.Skip("allocate runs once a session, before other statements are open or replayed")
				}
				before := l.used()
				allocation.Initialize()
				allocation.Execute(l.ssn)
				allocation.UnInitialize()
				l.noteBindings(t)
				l.grewWithinQuota(t, before)
			},
			"an event comes twice":         l.repeatEvent,
			"pods are created and deleted": l.podsChange, // the open session does not see it
			"the next session":             l.nextSession,
			"":                             l.check, // rapid calls it after each other action
		}

		for range 15 { // many steps, because some faults need a long sequence
			t.Repeat(actions)
		}

		framework.CloseSession(l.ssn)
	})
}

// TestOnlyOtherBindingsAreReported: two schedulers that bind the same pods break quotas, so the plugin
// reports pods that another one bound. The test draws sequences of Volcano's own steps, while another
// scheduler binds waiting pods. The report has exactly the pods that this process saw waiting and later sees
// on a node where it has not placed them. Pods that are gone are no longer in it. It names at most five. A
// process ignores bindings of pods that it saw waiting only in its first two sessions: bindings of the
// process before it may arrive late. The sessions are an hour apart, so in the third one they have arrived.
func TestOnlyOtherBindingsAreReported(t *testing.T) {
	conf.EnabledActionMap = map[string]bool{allocate.New().Name(): true}
	volcano := cache.NewCustomMockSchedulerCache("volcano", util.NewFakeBinder(0), nil, &util.FakeStatusUpdater{}, nil, &record.FakeRecorder{})
	reported := 0

	seed.Check(t, func(t *rapid.T) {
		l := newLifecycle(t, volcano)
		clock := time.Now()
		l.m.Now = func() time.Time { return clock }

		sessions := 1                             // of this process
		ownPlacements := map[types.UID][]string{} // the nodes where this process has placed a pod
		want := map[types.UID]string{}
		openNextSession := func(t *rapid.T) {
			waited := map[types.UID]bool{}
			for _, task := range l.tasks() {
				if slices.Contains([]api.TaskStatus{api.Allocated, api.Binding}, task.Status) {
					ownPlacements[task.Pod.UID] = append(ownPlacements[task.Pod.UID], task.NodeName)
				}
				// A pod that is Bound or Running has a node. After two sessions, late bindings have arrived.
				waited[task.Pod.UID] = sessions >= 3 && !slices.Contains([]api.TaskStatus{api.Bound, api.Running}, task.Status)
			}

			framework.CloseSession(l.ssn)
			l.answerBindings(t)
			for name, node := range l.bindByOthers(t) {
				pod := l.pods[name].UID
				if waited[pod] && !slices.Contains(ownPlacements[pod], node) {
					want[pod] = "ns/" + name
					reported++
				}
			}

			if rapid.IntRange(0, 9).Draw(t, "the process restarts") == 0 {
				l.restart()
				l.m.Now = func() time.Time { return clock }
				sessions = 0
				clear(ownPlacements)
				clear(want)
			}

			clock = clock.Add(time.Hour)
			sessions++

			l.openSession(t)
			alive := map[types.UID]bool{}
			for _, pod := range l.pods {
				alive[pod.UID] = true
			}

			maps.DeleteFunc(want, func(pod types.UID, _ string) bool { return !alive[pod] })
			expected := slices.Sorted(maps.Values(want))
			firstFive := expected[:min(len(expected), 5)]
			check.Equal(t, "pods that other schedulers bound", firstFive, l.m.OtherBindings.BoundByOthersNames(), cmpopts.EquateEmpty())
		}

		actions := map[string]func(*rapid.T){
			"allocate":                     func(t *rapid.T) { l.place(t, (*draft).Allocate, (*draft).UnAllocate) },
			"pipeline":                     func(t *rapid.T) { l.place(t, pipelines, (*draft).UnPipeline) },
			"discard":                      func(t *rapid.T) { take(t, &l.undecided).Discard() },
			"commit":                       func(t *rapid.T) { l.commit(t, take(t, &l.undecided)) },
			"pods are created and deleted": l.podsChange,
			"the next session":             openNextSession,
		}
		for range 10 { // enough sessions to report and to restart
			t.Repeat(actions)
		}

		framework.CloseSession(l.ssn)
	})
	check.That(t, reported > 0, "no other scheduler bound a pod in any draw")
}

// bindByOthers lets another scheduler bind some of the pods without a node. It returns their nodes by
// name.
func (l *lifecycle) bindByOthers(t *rapid.T) map[string]string {
	bound := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(l.pods)) {
		if l.pods[name].Spec.NodeName != "" || rapid.IntRange(0, 3).Draw(t, "another scheduler binds "+name) > 0 {
			continue
		}

		node := rapid.SampledFrom([]string{"n1", "n2", "n3"}).Draw(t, "node")
		delete(l.binding, name)
		l.update(name, func(p *corev1.Pod) {
			p.Spec.NodeName = node
			delete(p.Annotations, "cardquota.dev/charged-queue")
		})
		bound[name] = node
	}

	return bound
}
