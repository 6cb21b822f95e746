package capacitycard

import (
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/card"
)

// world is what really is, kept as plainly as possible: the oracle.
type world struct {
	models map[string]string // node → model
	queues map[string]string // queue → quota
	pods   map[string]*state
}

type state struct {
	pod    *corev1.Pod
	queue  string
	count  int
	node   string
	status api.TaskStatus
	// paid is the queue that the pod is charged to, on the node paidOn; it is known
	// as long as the process lives.
	paid, paidOn string
	// evicted tells that this session gave the cards away although the API
	// server does not know yet; the next session holds them again.
	evicted bool
	// deleted tells that the API server knows that the pod ends.
	deleted bool
}

// session builds what Volcano would hand to a plugin.
func (w *world) session() *framework.Session {
	ssn := &framework.Session{Jobs: map[api.JobID]*api.JobInfo{}, Nodes: map[string]*api.NodeInfo{}, Queues: map[api.QueueID]*api.QueueInfo{}}
	for name, model := range w.models {
		ssn.Nodes[name] = &api.NodeInfo{Name: name, Node: cardNode(name, model)}
	}
	for name, quota := range w.queues {
		queue := &scheduling.Queue{Status: scheduling.QueueStatus{State: scheduling.QueueStateOpen}}
		queue.Spec.Capability = corev1.ResourceList{"cpu": resource.MustParse("100"), "memory": resource.MustParse("1Ti")}
		queue.Name, queue.Annotations = name, map[string]string{"volcano.sh/card.quota": quota}
		ssn.Queues[api.QueueID(name)] = api.NewQueueInfo(queue)
	}
	for uid, s := range w.pods {
		id := api.JobID("ns/" + uid)
		task := &api.TaskInfo{UID: api.TaskID(uid), Job: id, Pod: s.pod, TransactionContext: api.TransactionContext{NodeName: s.node, Status: s.status}}
		job := api.NewJobInfo(id)
		job.Queue = api.QueueID(s.queue)
		job.PodGroup = &api.PodGroup{PodGroup: scheduling.PodGroup{Status: scheduling.PodGroupStatus{Phase: scheduling.PodGroupRunning}}}
		job.Tasks[task.UID] = task
		job.TaskStatusIndex[s.status] = api.TasksMap{task.UID: task}
		ssn.Jobs[id] = job
	}
	return ssn
}

// recount adds up by hand what a queue uses of a model.
func (w *world) recount(queue, model string) card.Count {
	var sum card.Count
	for _, s := range w.pods {
		if s.paid == queue && s.held() && w.models[s.node] == model {
			sum += card.Count(s.count)
		}
	}
	return sum
}

// held tells that the pod holds its cards in this session: it has a node or was
// promised one, or an eviction has not reached the API server.
func (s *state) held() bool {
	return api.AllocatedStatus(s.status) || s.status == api.Pipelined || s.status == api.Releasing && !s.evicted && !s.deleted
}

// ends tells that the pod holds its cards until it is gone: it is being deleted on
// its node, or was evicted by this session.
func (s *state) ends() bool {
	return s.status == api.Releasing && (s.deleted && s.pod.Spec.NodeName != "" || !s.deleted && s.evicted)
}

// ending adds up by hand what of a model pods hold that end.
func (w *world) ending(queue, model string) card.Count {
	var sum card.Count
	for _, s := range w.pods {
		if s.paid == queue && s.ends() && w.models[s.node] == model {
			sum += card.Count(s.count)
		}
	}
	return sum
}

// pays settles which queue a placed pod is charged to: the one that paid for it
// there, else the one of its binding, else that of its PodGroup.
func (w *world) pays(s *state) {
	bound := ""
	if s.pod.Spec.NodeName != "" {
		bound = s.pod.Annotations["cardquota.dev/charged-queue"]
	}
	switch {
	case s.paidOn == s.node && w.queues[s.paid] != "":
	case w.queues[bound] != "":
		s.paid = bound
	default:
		s.paid = s.queue
	}
	s.paidOn = s.node
}

// next is what happens between two sessions: promises end, and evictions that the
// API server does not know of gave nothing away.
func (w *world) next() {
	for _, s := range w.pods {
		s.evicted = false
		if s.status == api.Pipelined {
			s.status = api.Pending
		}
		if s.held() || s.ends() {
			w.pays(s)
		}
	}
}

// change has the API server tell something else of a pod.
func (s *state) change(t *rapid.T) {
	s.status = rapid.SampledFrom([]api.TaskStatus{api.Pending, api.Bound, api.Running, api.Succeeded, api.Failed, api.Releasing}).Draw(t, "status")
	s.node = rapid.SampledFrom([]string{"n1", "n2", "n3"}).Draw(t, "node")
	s.pod = s.pod.DeepCopy()
	if s.pod.Spec.NodeName = ""; rapid.Bool().Draw(t, "its node is seen") {
		s.pod.Spec.NodeName = s.node
	}
	s.pod.DeletionTimestamp = nil
	if s.deleted = s.status == api.Releasing && rapid.Bool().Draw(t, "deleted"); s.deleted {
		s.pod.DeletionTimestamp = &metav1.Time{}
	}
	s.pod.Annotations["cardquota.dev/charged-queue"] = rapid.SampledFrom([]string{"", "q", "r", "gone"}).Draw(t, "written")
}

// requota gives a queue another quota, or takes the queue away.
func (w *world) requota(t *rapid.T, name string) {
	if quota := rapid.SampledFrom([]string{"", `{"A":1}`, `{"A":9,"B":9}`, "nonsense"}).Draw(t, "quota"); quota != "" {
		w.queues[name] = quota
	} else {
		delete(w.queues, name)
	}
}

// fits tells whether a pod may be placed where it is, beside all others.
func (w *world) fits(s *state) bool {
	var quota map[string]card.Count
	if json.Unmarshal([]byte(w.queues[s.queue]), &quota) != nil {
		return false // no queue, or one that cannot be read: not even CPU
	}
	model := w.models[s.node]
	used := w.recount(s.queue, model)
	if s.held() && s.paid == s.queue {
		used -= card.Count(s.count)
	}
	return s.count == 0 || used+card.Count(s.count) <= quota[model] && w.ending(s.queue, model) <= quota[model]
}

// TestTheBooksEqualANaiveRecount drives one process through random lives:
// pods come, are placed, promised, evicted, restored and go; nodes are
// relabelled, queues move, quotas change and go, sessions open, and the process
// restarts. After every step the account equals what a recount says, and what
// does not fit is refused and undone.
func TestTheBooksEqualANaiveRecount(t *testing.T) {
	models, queues := []string{"A", "B"}, []string{"q", "r"}
	rapid.Check(t, func(t *rapid.T) {
		w := &world{
			models: map[string]string{"n1": "A", "n2": "B", "n3": "A"},
			queues: map[string]string{"q": `{"A":4,"B":4}`, "r": `{"A":4}`},
			pods:   map[string]*state{},
		}
		m := newMemory()
		p := &plugin{args: arguments{overCommitFactor: 1}, memory: m}
		open := func() {
			w.next()
			p.ssn = w.session()
			p.openBooks()
		}
		open()
		anyPod := func(t *rapid.T) *state {
			uid := fmt.Sprint("pod-", rapid.IntRange(0, 4).Draw(t, "pod"))
			if w.pods[uid] == nil {
				count := rapid.IntRange(0, 3).Draw(t, "count")
				pod := pods(1, "j", fmt.Sprint(count), "", "")[0]
				pod.UID, pod.Name = types.UID(uid), uid
				w.pods[uid] = &state{pod: pod, count: count, queue: "q", status: api.Pending}
				open() // a new pod is seen by the next session
			}
			return w.pods[uid]
		}
		event := func(s *state) *framework.Event { // of a copy, as Volcano replays them
			known := p.ssn.Jobs[api.JobID("ns/"+string(s.pod.UID))].Tasks[api.TaskID(s.pod.UID)]
			return &framework.Event{Task: &api.TaskInfo{UID: known.UID, Job: known.Job, Pod: known.Pod, TransactionContext: api.TransactionContext{NodeName: s.node, Status: s.status}}}
		}
		// place sends the event of a placement, and undoes it when it is refused.
		place := func(t *rapid.T, s *state, may bool) {
			if s.status == api.Allocated || s.status == api.Pipelined {
				s.paid, s.paidOn = s.queue, s.node
			} else {
				w.pays(s)
			}
			placed := event(s)
			if p.allocated(placed); (placed.Err == nil) != may {
				t.Fatalf("%s as %s on %s: error %v, want placed %v", s.pod.UID, s.status, s.node, placed.Err, may)
			}
			if placed.Err != nil {
				s.status = api.Pending
				p.deallocated(event(s))
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"allocate in the session": func(t *rapid.T) {
				if s := anyPod(t); !s.held() && s.status != api.Releasing {
					s.node = rapid.SampledFrom([]string{"n1", "n2", "n3"}).Draw(t, "node")
					may := w.fits(s)
					s.status = rapid.SampledFrom([]api.TaskStatus{api.Allocated, api.Pipelined}).Draw(t, "as")
					place(t, s, may)
				}
			},
			"evict or discard in the session": func(t *rapid.T) {
				if s := anyPod(t); api.AllocatedStatus(s.status) || s.status == api.Pipelined {
					s.status, s.evicted = rapid.SampledFrom([]api.TaskStatus{api.Releasing, api.Pending}).Draw(t, "after"), true
					p.deallocated(event(s))
				}
			},
			"an eviction fails": func(t *rapid.T) { // the pod was placed before, so quota does not matter
				if s := anyPod(t); s.status == api.Releasing && !s.deleted {
					s.status, s.evicted = api.Running, false
					place(t, s, true)
				}
			},
			"repeat an event": func(t *rapid.T) {
				switch s := anyPod(t); {
				case s.status == api.Allocated, s.status == api.Pipelined:
					place(t, s, w.fits(s))
				case api.AllocatedStatus(s.status):
					place(t, s, true)
				default:
					p.deallocated(event(s))
					s.evicted = true
				}
			},
			"a pod changes outside": func(t *rapid.T) {
				anyPod(t).change(t)
				open()
			},
			"a pod goes": func(t *rapid.T) { delete(w.pods, string(anyPod(t).pod.UID)); open() },
			"a PodGroup moves to another queue": func(t *rapid.T) {
				anyPod(t).queue = rapid.SampledFrom(queues).Draw(t, "queue")
				open()
			},
			"a node is relabelled": func(t *rapid.T) {
				w.models[rapid.SampledFrom([]string{"n1", "n2", "n3"}).Draw(t, "node")] = rapid.SampledFrom(models).Draw(t, "model")
				open()
			},
			"a quota changes or goes": func(t *rapid.T) {
				w.requota(t, rapid.SampledFrom(queues).Draw(t, "queue"))
				open()
			},
			"the process restarts": func(*rapid.T) {
				for _, s := range w.pods {
					s.paid, s.paidOn = "", ""
				}
				p.memory = newMemory()
				open()
			},
			"": func(t *rapid.T) { w.agrees(t, p, queues, models) },
		})
	})
}

// agrees compares every number and limit of the books with the world.
func (w *world) agrees(t *rapid.T, p *plugin, queues, models []string) {
	for _, q := range queues {
		for _, model := range models {
			if got, want := p.account.Used(q, card.Name(model)), w.recount(q, model); got != want {
				t.Fatalf("queue %s uses %d of %s, a recount says %d", q, got, model, want)
			}
			if got, _ := p.account.Ending(q, card.Name(model)); got != w.ending(q, model) {
				t.Fatalf("%d of %s of queue %s end, a recount says %d", got, model, q, w.ending(q, model))
			}
		}
		quota, err := card.ParseQuota(w.queues[q])
		if limits := p.account.Limits(q); err != nil && len(limits.Cards) > 0 || err == nil && quota.String() != limits.Cards.String() {
			t.Fatalf("queue %s is limited to %v, its quota is %q", q, limits.Cards, w.queues[q])
		}
	}
}
