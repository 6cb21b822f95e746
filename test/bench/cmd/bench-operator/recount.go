package main

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
)

// kind is a kind of objects that say what pods use.
type kind int

const (
	cardQuotas kind = iota
	queues
	views
	inventory
	kinds
)

var kindNames = [kinds]string{"CardQuota", "Queue (card.allocated)", "LocalCardQuota", "CardInventory"}

// use is what pods use of a card, and what they wait for.
type use struct{ used, pending int64 }

// podFact is what a pod contributes.
type podFact struct {
	quota, model int
	use
}

// recount compares objects with a recount of all pods, both from watches of its own. It knows
// nothing of the operator's rules: a bound pod uses the card that it names, another one waits for it.
type recount struct {
	plan
	quotaIndex, modelIndex map[string]int

	mu     sync.Mutex
	pods   map[types.UID]podFact
	counts [][]use // by CardQuota and model
	totals []use   // by model
	// histories are those of each kind, by the key of the object.
	histories [kinds]map[string]*history
	// isCounted reports whether all pods of the start are counted.
	isCounted bool
}

func newRecount(p plan) *recount {
	c := &recount{plan: p, quotaIndex: map[string]int{}, modelIndex: map[string]int{}, pods: map[types.UID]podFact{}, totals: make([]use, p.cards)}
	for i := range max(p.quotas, p.restQuotas) {
		c.quotaIndex[p.quotaName(i)] = i
		c.counts = append(c.counts, make([]use, p.cards))
	}

	for i := range p.cards {
		c.modelIndex[p.model(i)] = i
	}

	for k := range c.histories {
		c.histories[k] = map[string]*history{}
	}

	return c
}

// startRecount counts all pods and follows everything until ctx ends. Caches watch again when an API
// server that has no time ends a watch.
func startRecount(ctx context.Context, e *env) (*recount, error) {
	c := newRecount(e.plan)
	watched, err := cache.New(e.cluster.Config(), cache.Options{
		Scheme:   e.client.Scheme(),
		ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {Transform: keepFacts}},
	})
	if err != nil {
		return nil, err
	}

	for _, object := range []client.Object{&corev1.Pod{}, &v1alpha1.CardQuota{}, &v1beta1.Queue{}, &v1alpha1.LocalCardQuota{}, &v1alpha1.CardInventory{}} {
		informer, err := watched.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, err
		}
		if _, err := informer.AddEventHandler(c.handler()); err != nil {
			return nil, err
		}
	}

	go func() { _ = watched.Start(ctx) }() // it ends with ctx
	if !watched.WaitForCacheSync(ctx) {
		return nil, context.Cause(ctx)
	}

	return c, c.begin(ctx, e)
}

// begin expects the present numbers as soon as all pods are counted.
func (c *recount) begin(ctx context.Context, e *env) error {
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, syncTimeout, true, func(context.Context) (bool, error) {
		c.mu.Lock()
		defer c.mu.Unlock()

		if len(c.pods) < e.gangs()*gangSize {
			return false, nil
		}

		c.isCounted = true
		for i := range c.quotas {
			c.expectQuota(time.Now(), i)
		}

		c.expectInventory(time.Now())
		return true, nil
	})
}

// keepFacts keeps what the recount reads of a pod.
func keepFacts(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.ManagedFields = nil
		pod.OwnerReferences = nil
		pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName}
		pod.Status = corev1.PodStatus{Phase: pod.Status.Phase}
	}
	return object, nil
}

func (c *recount) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { c.handle(watch.Added, object) },
		UpdateFunc: func(_, object any) { c.handle(watch.Modified, object) },
		DeleteFunc: func(object any) {
			if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = gone.Obj
			}
			c.handle(watch.Deleted, object)
		},
	}
}

func (c *recount) handle(kind watch.EventType, object any) {
	if object, ok := object.(client.Object); ok {
		c.apply(time.Now(), kind, object)
	}
}

// apply applies an event of a watch.
func (c *recount) apply(now time.Time, event watch.EventType, object client.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if pod, ok := object.(*corev1.Pod); ok {
		if quota, changed := c.countPod(pod, event == watch.Deleted); changed && c.isCounted {
			c.expectQuota(now, quota)
			c.expectInventory(now)
		}
		return
	}

	kind, says := c.read(object)
	if event == watch.Deleted {
		says = ""
	}
	c.historyOf(kind, keyOf(object)).observe(now, says)
}

// countPod replaces what a pod contributes. It returns its CardQuota, and whether that changed.
func (c *recount) countPod(pod *corev1.Pod, isGone bool) (quota int, changed bool) {
	quota, ok := c.quotaIndex[pod.Labels[quotaLabel]]
	model, known := c.modelIndex[pod.Annotations[v1alpha1.AnnotationCardName]]
	if !ok || !known {
		return 0, false
	}

	before, existed := c.pods[pod.UID]
	now := podFact{quota: quota, model: model}
	switch {
	case isGone || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil:
		delete(c.pods, pod.UID)
	case pod.Spec.NodeName != "":
		now.used = 1
	default:
		now.pending = 1
	}

	if now.use != (use{}) {
		c.pods[pod.UID] = now
	}
	if existed {
		c.add(before, -1)
	}

	c.add(now, 1)
	return quota, before.use != now.use
}

func (c *recount) add(f podFact, sign int64) {
	for _, sum := range []*use{&c.counts[f.quota][f.model], &c.totals[f.model]} {
		sum.used += sign * f.used
		sum.pending += sign * f.pending
	}
}

// expectQuota expects the counts of a CardQuota in its status, its Queue and its views.
func (c *recount) expectQuota(now time.Time, i int) {
	name := c.quotaName(i)
	should := writeNumbers(c.counts[i])
	c.historyOf(cardQuotas, name).expect(now, should)
	c.historyOf(queues, name).expect(now, writeUsed(c.counts[i]))
	for view := 0; i < c.quotas && view < c.views; view++ {
		c.historyOf(views, c.namespace(i, view)+"/"+name).expect(now, should)
	}
}

func (c *recount) expectInventory(now time.Time) {
	c.historyOf(inventory, v1alpha1.InventoryName).expect(now, writeNumbers(c.totals)+"; "+writeUsed(c.totals))
}

func (c *recount) historyOf(k kind, key string) *history {
	h := c.histories[k][key]
	if h == nil {
		h = &history{}
		c.histories[k][key] = h
	}
	return h
}

func keyOf(object client.Object) string {
	if object.GetNamespace() != "" {
		return object.GetNamespace() + "/" + object.GetName()
	}
	return object.GetName()
}

// read returns what an object says of the cards.
func (c *recount) read(object client.Object) (kind, numbers) {
	switch object := object.(type) {
	case *v1alpha1.CardQuota:
		return cardQuotas, c.readCards(object.Status.Cards)
	case *v1alpha1.LocalCardQuota:
		return views, c.readCards(object.Status.Cards)
	case *v1beta1.Queue:
		return queues, c.readAllocated(object.Annotations[v1alpha1.AnnotationCardAllocated])
	case *v1alpha1.CardInventory:
		return inventory, c.readInventory(object.Status.Cards)
	}
	return kinds, ""
}

// unknownCard is what objects say that name a card of no node.
const unknownCard numbers = "unknown card"

func (c *recount) readCards(cards []v1alpha1.CardStatus) numbers {
	if len(cards) == 0 {
		return ""
	}

	says := make([]use, c.cards)
	for _, card := range cards {
		i, known := c.modelIndex[card.Name]
		if !known {
			return unknownCard
		}
		says[i] = use{card.Used, card.Pending}
	}

	return writeNumbers(says)
}

func (c *recount) readAllocated(text string) numbers {
	if text == "" {
		return ""
	}

	var allocated map[string]int64
	if err := json.Unmarshal([]byte(text), &allocated); err != nil {
		return numbers(err.Error())
	}

	says := make([]use, c.cards)
	for name, count := range allocated {
		i, known := c.modelIndex[name]
		if !known {
			return unknownCard
		}
		says[i].used = count
	}

	return writeUsed(says)
}

func (c *recount) readInventory(cards []v1alpha1.InventoryCard) numbers {
	says := make([]use, c.cards)
	allocated := make([]use, c.cards)
	for _, card := range cards {
		i, known := c.modelIndex[card.Name]
		if !known {
			return unknownCard
		}

		allocated[i].used = card.Allocated
		for _, t := range card.ServiceTypes {
			says[i].used += t.Used
			says[i].pending += t.Pending
		}
	}

	return writeNumbers(says) + "; " + writeUsed(allocated)
}

func writeNumbers(all []use) numbers {
	var text []byte
	for _, u := range all {
		text = append(strconv.AppendInt(text, u.used, 10), '+')
		text = append(strconv.AppendInt(text, u.pending, 10), ' ')
	}
	return numbers(text)
}

func writeUsed(all []use) numbers {
	var text []byte
	for _, u := range all {
		text = append(strconv.AppendInt(text, u.used, 10), ' ')
	}
	return numbers(text)
}
