package e2e

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	api "cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/test/cluster"
)

// whatIfScene compares what whatif says with what the scheduler then does.
type whatIfScene struct {
	name string
	play func(*whatIfTest)
}

var whatIfScenes = []whatIfScene{
	{"wgangs", whatIfReclaimsAGang}, {"wdrain", whatIfANodeIsDrained}, {"wquota", whatIfTheQuotaChanges},
	{"wagain", whatIfVictimsRunAgain}, {"wkinds", whatIfOfEachKind}, {"wnodes", whatIfOneChoice}, {"wabove", whatIfAnAncestorIsFull}, {"wfull", whatIfNoCardIsFree},
	{"wparts", whatIfCardsAreScattered}, {"walts", whatIfAlternatives}, {"wyoung", whatIfTooYoungForReclaim}, {"wmore", whatIfNodesAreAdded},
}

// runWhatIfScenes plays them on one cluster with a tree of quotas and the rendered configuration. A
// further type of training has a minimum runtime.
func runWhatIfScenes(t *testing.T) {
	var nodes []cluster.NodeProfile
	cardOf := func(name string) string { return "NVIDIA-" + strings.ToUpper(name) }
	for _, scene := range whatIfScenes {
		nodes = append(nodes, nodeProfile(scene.name, cardOf(scene.name), 2, "4"), nodeProfile(scene.name+"-other", cardOf(scene.name)+"-OTHER", 1, "4"))
	}

	st := startTreeCluster(t, nodes, api.ServiceType{Name: "inference", Priority: 80000, ReclaimPolicy: api.ReclaimNever, ReclaimFrom: []string{"training", "batch"}},
		api.ServiceType{Name: "batch", Priority: 10000, ReclaimPolicy: api.ReclaimWhenNeeded, MinimumRuntimeSeconds: 3600})

	kubeconfig := grantWhatIf(t, st)
	playTogether(whatIfScenes, func(scene whatIfScene) {
		t.Run(scene.name, func(t *testing.T) {
			s := newSceneOn(t, scene.name, st)
			s.observer.SetTree(true)
			scene.play(&whatIfTest{treeTest: &treeTest{scene: s, card: cardOf(scene.name)}, other: cardOf(scene.name) + "-OTHER", kubeconfig: kubeconfig})
		})
	})
}

// createTraining creates a queue of training with a quota for the card, and for all of the other one.
func (t *whatIfTest) createTraining(cards int64) {
	t.createTree(treeQuota{name: "q", serviceType: "training", cards: []api.Card{treeCard(t.card, cards, cards, 0), treeCard(t.other, 4, 4, 0)}})
}

// of returns a workload of the scene's queue.
func (t *whatIfTest) of(name string, pods, cards int) podSet {
	return podSet{name: name, queue: t.queueName("q"), card: t.card, count: cards, pods: pods}
}

// gang returns a Volcano job that needs all of its pods.
func (t *whatIfTest) gang(w podSet) client.Object {
	w.gang = w.pods
	job := t.newVCJob(w)
	job.Spec.Policies = t.newGang(w.name, "q", w.pods, nil).Spec.Policies
	return job
}

// startOn starts pods with one card each on a node.
func (t *whatIfTest) startOn(name, node string, pods int) {
	d := t.deploymentOf(t.of(name, pods, 1))
	d.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	t.createObjects(d)
	t.wantRunningAndWaiting(name, pods, 0)
}

// whatIfOfEachKind: the file has each kind of workload: a gang, a Deployment, a StatefulSet, a Job, a pod, and pods
// of a PodGroup. All of them fit.
func whatIfOfEachKind(t *whatIfTest) {
	t.createTraining(8)
	ofSet := t.of("set", 2, 1)
	ofJob := t.of("run", 1, 1)
	own := t.of("own", 2, 2)
	own.card = t.other

	set := &appsv1.StatefulSet{ObjectMeta: t.objectMeta(ofSet.name), Spec: appsv1.StatefulSetSpec{
		Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{app: ofSet.name}}, Template: ofSet.podTemplate("", "").Template(),
	}}
	job := &batchv1.Job{ObjectMeta: t.objectMeta(ofJob.name), Spec: batchv1.JobSpec{Template: ofJob.podTemplate("", "").Template()}}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever

	group := &v1beta1.PodGroup{ObjectMeta: t.objectMeta(own.name), Spec: v1beta1.PodGroupSpec{MinMember: 2, Queue: own.queue}}
	objects := []client.Object{t.gang(t.of("gang", 2, 1)), t.deploymentOf(t.of("web", 2, 1)), set, job, t.barePods(t.of("alone", 1, 1))[0], group}
	for _, pod := range t.barePods(own) {
		pod.Annotations[v1beta1.KubeGroupNameAnnotationKey] = group.Name
		objects = append(objects, pod)
	}

	t.prove(proof{submitted: objects, want: []string{
		"1 alone on 1 " + t.card, "1 run on 1 " + t.card, "2 gang on 1 " + t.card, "2 own on 2 " + t.other, "2 set on 1 " + t.card, "2 web on 1 " + t.card,
	}})

	for _, object := range []client.Object{set, job} { // no other scene has such, so the end of a scene leaves them
		t.Expect(t.Delete(t.ctx, object, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	}
}

// whatIfOneChoice: each node has 4 cards of a model and each pod needs 4, so there is only one choice of nodes, and
// whatif names it.
func whatIfOneChoice(t *whatIfTest) {
	t.createTraining(8)
	other := t.of("side", 1, 4)
	other.card = t.other
	t.prove(proof{submitted: []client.Object{t.gang(t.of("gang", 2, 4)), t.deploymentOf(other)}, onNodes: true, want: []string{
		"1 gang on 4 " + t.card + " of wnodes-0", "1 gang on 4 " + t.card + " of wnodes-1", "1 side on 4 " + t.other + " of wnodes-other-0",
	}})
}

// whatIfTheQuotaChanges: job older needs 8 cards, and waits without pods while the quota is 4. Of 3 pods with 2 cards
// each, 2 run beside it. Then another queue borrows all 8 cards. With a quota of 8 the queue deserves 8 and takes them
// back, and older is served before a newer job.
func whatIfTheQuotaChanges(t *whatIfTest) {
	t.createTraining(4)
	t.createObjects(t.gang(t.of("older", 2, 4)))
	t.wantGroupReason("older", insufficientMessage(t.queueName("q"), t.card, 8, 4))
	web := t.deploymentOf(t.of("web", 3, 2))
	t.prove(proof{submitted: []client.Object{web}, want: []string{"1 web wait: QuotaExhausted", "2 web on 2 " + t.card}})

	t.Expect(t.Delete(t.ctx, web)).To(Succeed())
	t.Eventually(t.holders).Should(BeEmpty())
	t.createTree(treeQuota{name: "b", serviceType: "training", cards: []api.Card{treeCard(t.card, 8, 0, 0)}})
	t.start("borrows", "b", t.card, 8)
	t.wantRunningAndWaiting("borrows", 8, 0)

	// A queue deserves its quota if the CardQuota does not say what it deserves.
	withQuota := func(count int) []api.Card { return append(cardList(t.card, count), treeCard(t.other, 4, 4, 0)) }
	t.setQuota(t.queueName("q"), withQuota(4))

	t.prove(proof{
		submitted: []client.Object{t.gang(t.of("newer", 2, 4))},
		flags:     []string{"--quota", t.queueName("q") + ":" + t.card + "=8"},
		change:    func() { t.setQuota(t.queueName("q"), withQuota(8)) },
		want:      []string{"2 newer wait: QuotaExhausted", "8 borrows evicted, 0 run again"},
	})
	t.wantRunningAndWaiting("older", 2, 0)
}

// whatIfAnAncestorIsFull: the parent's quota is 4, and the sibling uses 2. Of two pods with 2 cards one fits, and
// the other lacks quota of the ancestor.
func whatIfAnAncestorIsFull(t *whatIfTest) {
	t.createTree(
		treeQuota{name: "q", parent: "top", serviceType: "training", cards: []api.Card{treeCard(t.card, 4, 2, 0)}},
		treeQuota{name: "b", parent: "top", serviceType: "training", cards: []api.Card{treeCard(t.card, 4, 2, 0)}},
		treeQuota{name: "top", cards: []api.Card{treeCard(t.card, 4, 4, 0)}},
	)
	t.start("beside", "b", t.card, 2)
	t.wantRunningAndWaiting("beside", 2, 0)
	t.prove(proof{submitted: []client.Object{t.deploymentOf(t.of("web", 2, 2))}, want: []string{"1 web on 2 " + t.card, "1 web wait: AncestorQuotaExhausted"}})
}

// whatIfNoCardIsFree: a queue of the same type uses all 8 cards, and takes nothing back. So the new pods find no
// free card.
func whatIfNoCardIsFree(t *whatIfTest) {
	t.createTraining(8)
	t.createTree(treeQuota{name: "late", serviceType: "training", cards: []api.Card{treeCard(t.card, 4, 4, 0)}})
	t.start("holds", "q", t.card, 8)
	t.wantRunningAndWaiting("holds", 8, 0)
	late := t.of("web", 2, 1)
	late.queue = t.queueName("late")
	t.prove(proof{submitted: []client.Object{t.deploymentOf(late)}, want: []string{"2 web wait: NoFreeCard"}})
}

// whatIfCardsAreScattered: each node has 2 free cards, and each pod needs 3: enough cards, but not on one node.
func whatIfCardsAreScattered(t *whatIfTest) {
	t.createTraining(16)
	t.startOn("left", "wparts-0", 2)
	t.startOn("right", "wparts-1", 2)
	t.prove(proof{submitted: []client.Object{t.deploymentOf(t.of("one", 1, 3)), t.gang(t.of("gang", 2, 3))}, want: []string{
		"1 one wait: Fragmented", "2 gang wait: Fragmented",
	}})
}

// whatIfAlternatives: a pod accepts two models. With 2 free cards of the first and 4 of the other, 3 pods run, and
// the fourth exceeds the quota.
func whatIfAlternatives(t *whatIfTest) {
	t.createTraining(8)
	t.startOn("left", "walts-0", 4)
	t.startOn("right", "walts-1", 2)
	either := t.of("either", 4, 2)
	either.card += "|" + t.other
	t.prove(proof{submitted: []client.Object{t.deploymentOf(either)}, onNodes: true, want: []string{
		"1 either on 2 " + t.card + " of walts-1", "1 either wait: QuotaExhausted", "2 either on 2 " + t.other + " of walts-other-0",
	}})
}

// createServing creates a queue of inference beside a full queue of another type.
func (t *whatIfTest) createServing(victims string) podSet {
	t.createTree(treeQuota{name: "q", serviceType: victims, cards: []api.Card{treeCard(t.card, 8, 8, 0)}},
		treeQuota{name: "serve", serviceType: "inference", cards: []api.Card{treeCard(t.card, 4, 4, 0)}})
	serve := t.of("serve", 1, 4)
	serve.queue = t.queueName("serve")
	return serve
}

// whatIfReclaimsAGang: inference needs 4 cards, and two gangs of 4 run. The younger one loses less and is evicted
// as a whole.
func whatIfReclaimsAGang(t *whatIfTest) {
	serve := t.createServing("training")
	for _, name := range []string{"older", "younger"} {
		t.createObjects(t.gang(t.of(name, 4, 1)))
		t.wantRunningAndWaiting(name, 4, 0)
	}
	t.Eventually(func() bool { return time.Since(t.podsOf("older")[0].Status.StartTime.Time) > 3*time.Second }).Should(BeTrue())
	t.prove(proof{submitted: []client.Object{t.deploymentOf(serve)}, onNodes: true, want: []string{
		"1 serve on 4 " + t.card + " of " + t.podsOf("younger")[0].Spec.NodeName, "4 younger evicted, 0 run again",
	}})
}

// whatIfVictimsRunAgain: 4 evicted pods of a Deployment also accept another card model, and run again on it.
func whatIfVictimsRunAgain(t *whatIfTest) {
	t.createTree(treeQuota{name: "q", serviceType: "training", cards: []api.Card{treeCard(t.card, 8, 8, 0), treeCard(t.other, 4, 4, 0)}},
		treeQuota{name: "serve", serviceType: "inference", cards: []api.Card{treeCard(t.card, 4, 4, 0)}})
	rolls := t.of("rolls", 8, 1)
	serve := t.of("serve", 2, 2)
	rolls.card += "|" + t.other
	serve.queue = t.queueName("serve")
	t.createObjects(t.deploymentOf(rolls))
	t.wantRunningAndWaiting("rolls", 8, 0)
	t.prove(proof{submitted: []client.Object{t.deploymentOf(serve)}, want: []string{"2 serve on 2 " + t.card, "4 rolls evicted, 4 run again"}})
}

// whatIfTooYoungForReclaim: type batch has a minimum runtime of an hour, so its pods are not evicted yet.
func whatIfTooYoungForReclaim(t *whatIfTest) {
	serve := t.createServing("batch")
	t.createObjects(t.gang(t.of("batch", 8, 1)))
	t.wantRunningAndWaiting("batch", 8, 0)
	t.prove(proof{submitted: []client.Object{t.deploymentOf(serve)}, want: []string{"1 serve wait: NoFreeCard"}})
}

// whatIfANodeIsDrained: a drain moves the pods of a Deployment, and all pods of a gang. One pod that names the
// drained node has no other, and of two new pods one fits.
func whatIfANodeIsDrained(t *whatIfTest) {
	t.createTraining(8)
	t.createObjects(t.gang(t.of("ring", 2, 1)))
	t.wantRunningAndWaiting("ring", 2, 0)
	node := t.podsOf("ring")[0].Spec.NodeName
	t.startOn("stays", node, 1)

	t.createObjects(t.deploymentOf(t.of("web", 1, 1)))
	t.wantRunningAndWaiting("web", 1, 0)
	t.Expect(t.podsOf("web")[0].Spec.NodeName).To(Equal(node), "nodes in use are filled")

	t.prove(proof{
		submitted: []client.Object{t.deploymentOf(t.of("new", 2, 1))},
		flags:     []string{"--drain", node},
		change: func() {
			t.mergePatch(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, `{"spec":{"unschedulable":true}}`)
			for _, pod := range t.holders() { // an eviction by the API would be one too many for the observer
				if pod.Spec.NodeName == node { // the job controller deletes the rest of a gang, too
					t.Expect(client.IgnoreNotFound(t.Delete(t.ctx, &pod))).To(Succeed())
				}
			}
			t.Eventually(func() int { return len(t.holders()) }).Should(Equal(3), "what was drained runs elsewhere")
		},
		want: []string{"1 new on 1 " + t.card, "1 new wait: NodesUnsuitable", "4 of the node evicted, 3 run again"},
	})
}

// whatIfNodesAreAdded: the node that --add-nodes describes does not exist yet. When a node like it joins, the gang
// runs there as predicted.
func whatIfNodesAreAdded(t *whatIfTest) {
	t.createTraining(12)
	t.start("holds", "q", t.card, 8)
	t.wantRunningAndWaiting("holds", 8, 0)
	t.prove(proof{
		submitted: []client.Object{t.gang(t.of("gang", 2, 2))},
		flags:     []string{"--add-nodes", "1:" + t.card},
		change: func() {
			t.Expect(t.cluster.CreateNodes(t.ctx, []cluster.NodeProfile{nodeProfile(t.namespace+"-more", t.card, 1, "4")})).To(Succeed())
		},
		want: []string{"2 gang on 2 " + t.card},
	})
}
