package usage

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/account"
	"cardquota.dev/operator/internal/card"
)

type cards = map[card.Name]card.Count

func TestCount(t *testing.T) {
	const either = "NVIDIA-GeForce-RTX-4090|NVIDIA-GeForce-RTX-4090-D"
	cases := map[string]struct {
		pods   []*corev1.Pod
		groups []*v1beta1.PodGroup
		quotas map[string]card.Quota
		last   map[types.UID]account.Charge
		want   map[string]Queue
	}{
		"a running pod is charged the card of its node, not the one it prefers": {
			pods: []*corev1.Pod{makePod("a").queue("q").asks(either, 2).on("4090d").obj()},
			want: map[string]Queue{"q": {Used: cards{"NVIDIA-GeForce-RTX-4090-D": 2}, Members: 1}},
		},
		"CPU and memory of assigned pods are counted, of waiting ones not": {
			pods: []*corev1.Pod{
				makePod("a").queue("q").requests("cpu", resource.MustParse("1500m")).requests("memory", resource.MustParse("2Gi")).on("h200").obj(),
				makePod("b").queue("q").requests("cpu", resource.MustParse("4")).obj(),
			},
			want: map[string]Queue{"q": {MilliCPU: 1500, Memory: 2 << 30, Members: 2}},
		},
		"the queue of the PodGroup wins over the pod's annotation": {
			pods:   []*corev1.Pod{makePod("a").queue("other").group("g").asks("", 1).on("h200").obj()},
			groups: []*v1beta1.PodGroup{makeGroup("g", "q").phase(v1beta1.PodGroupRunning).obj()},
			want:   map[string]Queue{"q": {Used: cards{"NVIDIA-H200": 1}, Members: 2}},
		},
		"a pod whose PodGroup is gone stays in the queue it was charged to": {
			pods: []*corev1.Pod{makePod("a").group("gone").asks("", 1).on("h200").obj()},
			last: map[types.UID]account.Charge{"uid-a": {Queue: "q"}},
			want: map[string]Queue{"q": {Used: cards{"NVIDIA-H200": 1}, Members: 1}},
		},
		"a pod on a node that is gone keeps the card it was charged": {
			pods: []*corev1.Pod{makePod("a").queue("q").asks("", 3).on("removed").obj()},
			last: map[types.UID]account.Charge{"uid-a": {Queue: "q", Cards: []card.Amount{{Name: "NVIDIA-H800", Count: 3}}}},
			want: map[string]Queue{"q": {Used: cards{"NVIDIA-H800": 3}, Members: 1}},
		},
		"a pod being deleted holds nothing but still uses the queue": {
			pods: []*corev1.Pod{makePod("a").queue("q").asks("", 1).on("h200").deleted().obj()},
			want: map[string]Queue{"q": {Members: 1}},
		},
		"a finished pod is nothing to anybody": {
			pods: []*corev1.Pod{
				makePod("a").queue("q").asks("", 1).on("h200").phase(corev1.PodSucceeded).obj(),
				makePod("b").queue("q").asks("", 1).on("h200").phase(corev1.PodFailed).obj(),
			},
			want: map[string]Queue{},
		},
		"a pod without a queue is in none": {
			pods: []*corev1.Pod{makePod("a").asks("", 1).on("h200").obj(), makePod("b").asks("", 1).obj()},
			want: map[string]Queue{},
		},
		"a waiting request is shown under the first alternative with quota": {
			pods:   []*corev1.Pod{makePod("a").queue("q").asks(either, 2).obj()},
			quotas: map[string]card.Quota{"q": {"NVIDIA-GeForce-RTX-4090-D": 1}},
			want:   map[string]Queue{"q": {Pending: cards{"NVIDIA-GeForce-RTX-4090-D": 2}, Members: 1}},
		},
		"a waiting request without quota is shown under its first alternative": {
			pods: []*corev1.Pod{makePod("a").queue("q").asks(either, 2).obj()},
			want: map[string]Queue{"q": {Pending: cards{"NVIDIA-GeForce-RTX-4090": 2}, Members: 1}},
		},
		"a gated pod waits for its gate, not for cards": {
			pods: []*corev1.Pod{makePod("a").queue("q").asks("", 1).gated().unschedulable("gated").obj()},
			want: map[string]Queue{"q": {Members: 1}},
		},
		"a job without pods waits for what card.request says": {
			groups: []*v1beta1.PodGroup{makeGroup("g", "q").request(`{"NVIDIA-H200":8,"NVIDIA-H800":2}`).minResources(gpu, 99).obj()},
			want:   map[string]Queue{"q": {Pending: cards{"NVIDIA-H200": 8, "NVIDIA-H800": 2}, Members: 1}},
		},
		"a job without pods and card.request waits for its minResources": {
			groups: []*v1beta1.PodGroup{makeGroup("g", "q").request("nonsense").minResources(gpu, 4).phase(v1beta1.PodGroupInqueue).obj()},
			quotas: map[string]card.Quota{"q": {"NVIDIA-H800": 8}},
			want:   map[string]Queue{"q": {Pending: cards{"NVIDIA-H800": 4}, Members: 1}},
		},
		"a job counts by its pods once it has some": {
			pods:   []*corev1.Pod{makePod("a").group("g").asks("NVIDIA-H200", 1).obj()},
			groups: []*v1beta1.PodGroup{makeGroup("g", "q").request(`{"NVIDIA-H200":8}`).phase(v1beta1.PodGroupInqueue).obj()},
			want:   map[string]Queue{"q": {Pending: cards{"NVIDIA-H200": 1}, Members: 2}},
		},
		"a completed job uses its queue no more": {
			groups: []*v1beta1.PodGroup{makeGroup("g", "q").request(`{"NVIDIA-H200":8}`).phase(v1beta1.PodGroupCompleted).obj()},
			want:   map[string]Queue{},
		},
		"a PodGroup that names no queue is in default": {
			groups: []*v1beta1.PodGroup{makeGroup("g", "").obj()},
			want:   map[string]Queue{"default": {Members: 1}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Count(World{Pods: tc.pods, PodGroups: tc.groups, Inventory: fleet(), Quotas: tc.quotas, Last: tc.last})
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("use differs (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnnotationsAloneMakeNoMember: the name of a queue can be written on any pod
// and PodGroup. A queue is held up by what holds its cards or may get some, and
// by nothing else.
func TestAnnotationsAloneMakeNoMember(t *testing.T) {
	by := func(scheduler, namespace string, b *podBuilder) *corev1.Pod {
		b.Spec.SchedulerName, b.Namespace = scheduler, namespace
		return b.queue("q").obj()
	}
	groupIn := func(namespace string) *v1beta1.PodGroup {
		b := makeGroup("g", "q").request(`{"NVIDIA-H200":8}`)
		b.Namespace = namespace
		return b.obj()
	}
	runningIn := func(namespace string) *v1beta1.PodGroup {
		g := groupIn(namespace)
		g.Status.Phase, g.Status.Running = v1beta1.PodGroupRunning, 1
		return g
	}
	cases := map[string]struct {
		pods   []*corev1.Pod
		groups []*v1beta1.PodGroup
		want   Queue
	}{
		"ours waits":                             {pods: []*corev1.Pod{by("volcano", "lab", makePod("a"))}, want: Queue{Members: 1}},
		"our second name waits":                  {pods: []*corev1.Pod{by("volcano-batch", "lab", makePod("a"))}, want: Queue{Members: 1}},
		"ours runs without cards":                {pods: []*corev1.Pod{by("volcano", "lab", makePod("a").on("h200"))}, want: Queue{Members: 1}},
		"another scheduler's waits":              {pods: []*corev1.Pod{by("default-scheduler", "lab", makePod("a"))}},
		"another scheduler's waits for cards":    {pods: []*corev1.Pod{by("default-scheduler", "lab", makePod("a").asks("", 1).unschedulable("full"))}},
		"another scheduler's runs without cards": {pods: []*corev1.Pod{by("default-scheduler", "lab", makePod("a").on("h200"))}},
		"another scheduler's ends":               {pods: []*corev1.Pod{by("default-scheduler", "lab", makePod("a").asks("", 1).on("h200").deleted())}},
		"another scheduler's holds cards":        {pods: []*corev1.Pod{by("default-scheduler", "lab", makePod("a").asks("", 1).on("h200"))}, want: Queue{Members: 1, Used: cards{"NVIDIA-H200": 1}}},
		"of another namespace, and says why it waits": {pods: []*corev1.Pod{by("volcano", "stranger", makePod("a").asks("", 1).unschedulable("left out"))}, want: Queue{
			Pending: cards{"NVIDIA-GeForce-RTX-4090": 1},
			Blocked: []Blocked{{Workload: "pod/stranger/a", Card: "nvidia.com/gpu", Count: 1, Reason: "Unschedulable", Message: "left out"}}}},
		"of another namespace, was bound, and holds cards":           {pods: []*corev1.Pod{by("volcano", "stranger", makePod("a").bound("q").asks("", 1).on("h200"))}, want: Queue{Members: 1, Used: cards{"NVIDIA-H200": 1}}},
		"of another namespace, was bound, and runs without cards":    {pods: []*corev1.Pod{by("volcano", "stranger", makePod("a").bound("q").on("h200"))}, want: Queue{Members: 1}},
		"of another namespace, was charged, and holds cards":         {pods: []*corev1.Pod{by("default-scheduler", "stranger", makePod("charged").asks("", 1).on("h200"))}, want: Queue{Members: 1, Used: cards{"NVIDIA-H200": 1}}},
		"of another namespace, and holds cards":                      {pods: []*corev1.Pod{by("volcano", "stranger", makePod("a").asks("", 1).on("h200"))}},
		"of another namespace, and runs without cards":               {pods: []*corev1.Pod{by("volcano", "stranger", makePod("a").requests("cpu", resource.MustParse("30")).on("h200"))}},
		"another scheduler's of another namespace, with a record":    {pods: []*corev1.Pod{by("default-scheduler", "stranger", makePod("a").bound("q").asks("", 1).on("h200"))}},
		"another scheduler's of another namespace, CPU and a record": {pods: []*corev1.Pod{by("default-scheduler", "stranger", makePod("a").bound("q").requests("cpu", resource.MustParse("30")).on("h200"))}},
		"another scheduler's, a resource that is a card nowhere": {pods: []*corev1.Pod{by("default-scheduler", "lab", makePod("a").bound("q").
			asks("NVIDIA-H200", 0).requests("evil.example/x", resource.MustParse("1000")).on("h200"))}},
		"of another namespace, and waits":                 {pods: []*corev1.Pod{by("volcano", "stranger", makePod("a"))}},
		"a PodGroup of another namespace, whose pods run": {groups: []*v1beta1.PodGroup{runningIn("stranger")}, want: Queue{Members: 1}},
		"a PodGroup":                      {groups: []*v1beta1.PodGroup{groupIn("lab")}, want: Queue{Members: 1, Pending: cards{"NVIDIA-H200": 8}}},
		"a PodGroup of another namespace": {groups: []*v1beta1.PodGroup{groupIn("stranger")}, want: Queue{Pending: cards{"NVIDIA-H200": 8}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Count(World{Pods: tc.pods, PodGroups: tc.groups, Inventory: fleet(), Schedulers: []string{"volcano", "volcano-batch"},
				Last:   map[types.UID]account.Charge{"uid-charged": {Queue: "q"}},
				Admits: func(queue, namespace string) bool { return queue != "q" || namespace == "lab" }})
			if diff := cmp.Diff(tc.want, got["q"], cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("use differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBlocked(t *testing.T) {
	replica := func(name, message string) *corev1.Pod {
		b := makePod(name).queue("q").asks("NVIDIA-H200", 2).unschedulable(message).ownedBy("apps/v1", "ReplicaSet", "web-abc")
		b.Labels["pod-template-hash"] = "abc"
		return b.obj()
	}
	cases := map[string]struct {
		pods   []*corev1.Pod
		groups []*v1beta1.PodGroup
		want   []Blocked
	}{
		"pods of a Deployment are one entry under the Deployment's name": {
			pods: []*corev1.Pod{replica("a", "second"), replica("b", "first")},
			want: []Blocked{{Workload: "deployment/lab/web", Card: "NVIDIA-H200", Count: 4, Reason: "Unschedulable", Message: "first"}},
		},
		"a pod that can never run says why before any scheduler did": {
			pods: []*corev1.Pod{makePod("a").queue("q").asks("NVIDIA-H200 oops", 1).obj()},
			want: []Blocked{{Workload: "pod/lab/a", Card: "nvidia.com/gpu", Count: 1, Reason: "GetTaskRequestResourceFailed",
				Message: `Pod annotation volcano.sh/card.name: card name "NVIDIA-H200 oops": the model "NVIDIA-H200 oops" must be a label value (letters, digits, '-', '_', '.', at most 63)`}},
		},
		"a pod without a condition waits for its PodGroup's reason": {
			pods:   []*corev1.Pod{makePod("a").group("g").asks("", 1).ownedBy("batch.volcano.sh/v1alpha1", "Job", "train").obj()},
			groups: []*v1beta1.PodGroup{makeGroup("g", "q").unschedulable("older").unschedulable("newest").obj()},
			want:   []Blocked{{Workload: "vcjob/lab/train", Card: "nvidia.com/gpu", Count: 1, Reason: "NotEnoughResources", Message: "newest"}},
		},
		"a job without pods is blocked by its PodGroup's condition": {
			groups: []*v1beta1.PodGroup{makeGroup("g", "q").request(`{"NVIDIA-H200":8}`).unschedulable("no quota").
				ownedBy("batch.volcano.sh/v1alpha1", "Job", "train").obj()},
			want: []Blocked{{Workload: "vcjob/lab/train", Card: "NVIDIA-H200", Count: 8, Reason: "NotEnoughResources", Message: "no quota"}},
		},
		"a job without cards is blocked too": {
			groups: []*v1beta1.PodGroup{makeGroup("g", "q").unschedulable("no cpu").ownedBy("batch/v1", "Job", "etl").obj()},
			want:   []Blocked{{Workload: "job/lab/etl", Reason: "NotEnoughResources", Message: "no cpu"}},
		},
		"a pod nobody looked at yet is not blocked": {
			pods: []*corev1.Pod{makePod("a").queue("q").asks("", 1).obj()},
		},
		"at most ten workloads are listed, in the order of their names": {
			pods: func() (pods []*corev1.Pod) {
				for i := range 12 {
					pods = append(pods, makePod(string(rune('l'-i))).queue("q").unschedulable("full").obj())
				}
				return pods
			}(),
			want: func() (want []Blocked) {
				for i := range 10 {
					want = append(want, Blocked{Workload: "pod/lab/" + string(rune('a'+i)), Reason: "Unschedulable", Message: "full"})
				}
				return want
			}(),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Count(World{Pods: tc.pods, PodGroups: tc.groups, Inventory: fleet()})["q"].Blocked
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("blocked differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEqual(t *testing.T) {
	base := func() Queue {
		return Queue{Used: cards{"A": 1}, Pending: cards{"A": 2}, MilliCPU: 3, Memory: 4, Members: 5, Blocked: []Blocked{{Workload: "w"}}}
	}
	if !base().Equal(base()) {
		t.Error("a queue must equal itself")
	}
	for name, change := range map[string]func(*Queue){
		"used":    func(q *Queue) { q.Used["A"] = 9 },
		"pending": func(q *Queue) { q.Pending["B"] = 1 },
		"cpu":     func(q *Queue) { q.MilliCPU++ },
		"memory":  func(q *Queue) { q.Memory++ },
		"members": func(q *Queue) { q.Members++ },
		"blocked": func(q *Queue) { q.Blocked[0].Message = "new" },
	} {
		t.Run("a change of "+name+" is seen", func(t *testing.T) {
			changed := base()
			change(&changed)
			if changed.Equal(base()) {
				t.Errorf("%+v must differ from %+v", changed, base())
			}
		})
	}
}
