package differential

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
	"cardquota.dev/operator/internal/workload"
	"cardquota.dev/operator/test/observer/rule"
)

// perDraw is the number of comparisons in each of rapid's draws. With 100 draws of each
// property that is more than 20,000 comparisons.
const perDraw = 40

// equal fails when the product and the observer's rules differ.
func equal[T comparable](t check.T, what string, product, observed T) {
	check.That(t, product == observed, "%s: the product says %v, the observer %v", what, product, observed)
}

// cardSums formats the summed cards of a charge like the rule.
func cardSums(charge quota.Charge) string {
	sum := rule.Quota{}
	for _, amount := range charge.Cards {
		sum[string(amount.Name)] += int64(amount.Count)
	}
	return rule.Charge{Queue: charge.Queue, Cards: sum, MilliCPU: charge.MilliCPU, Memory: charge.Memory}.String()
}

// TestProductAndObserverReadNodesAlike: the observer, a tool of the tests, has the rules of the documents a second
// time. It must come to the same result as the product. Here both read random nodes, valid and invalid. They must
// agree on the model of each node, which cards of which resource it has, and which have no name or are withheld. They
// must also agree whether that is an anomaly, and whether the node is ready.
func TestProductAndObserverReadNodesAlike(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		for range perDraw {
			node := drawNode(t, "n")
			product := card.Recognise(node, nil)
			observed := rule.ReadNode(node)
			equal(t, "model", product.Model, observed.Model)

			offers := map[corev1.ResourceName]rule.Offer{}
			for _, offered := range product.Cards {
				offers[offered.Resource] = rule.Offer{Card: string(offered.Name), Count: int64(offered.Count)}
			}

			unnamed := map[corev1.ResourceName]bool{}
			withheld := map[card.NodeCard]bool{}
			hasMore := false // whether a resource has more cards than the labels of the node say
			for _, name := range product.Unnamed {
				unnamed[name] = true
			}

			for name, offer := range observed.Cards {
				equal(t, "unnamed "+string(name), unnamed[name], offer.Card == "")
				if offer.Card != "" {
					equal(t, string(name), offers[name], rule.Offer{Card: offer.Card, Count: offer.Count})
				}
				if offer.Oversold != "" {
					withheld[card.NodeCard{Name: card.Name(offer.Oversold), Resource: name, Count: card.Count(offer.Count)}] = true
				}
				hasMore = hasMore || offer.IsMore
			}

			for _, offered := range product.Withheld {
				equal(t, "withheld "+string(offered.Resource), true, withheld[offered])
			}

			equal(t, "withheld cards", len(product.Withheld), len(withheld))
			equal(t, "card resources", len(offers)+len(unnamed), len(observed.Cards))
			// Anomalies of a node without a model are compared in TestProductAndObserverFindTheSameAnomalies only.
			equal(t, "anomaly", len(product.Anomalies) > 0, len(unnamed) > 0 || hasMore || (len(product.Anomalies) > 0 && product.Model == ""))

			node.Status.Conditions = []corev1.NodeCondition{
				{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
				{
					Type:   oneOf(t, "condition", corev1.NodeReady, corev1.NodeDiskPressure),
					Status: oneOf(t, "status", corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown),
				},
			}
			equal(t, "ready", workload.NodeReady(node), rule.IsReady(node))
		}
	})
}

// TestProductAndObserverSumUpNodesAlike: the observer, a tool of the tests, has the rules of the documents a second
// time. Nodes are random. Product and observer must agree which resources are cards. They must find the same cards
// for each resource, and the same resources for each card. They must also find the same card on each node, also on
// one that is gone, and the same sums.
func TestProductAndObserverSumUpNodesAlike(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		inv := drawInventory(t)
		for _, name := range resources {
			equal(t, "is a card: "+string(name), inv.product.IsCard(name), inv.observed.IsCard(name))
			equal(t, "cards of "+string(name), quoted(inv.product.NamesFor(name)), quoted(inv.observed.Cards(name)))
			for _, node := range append(slices.Clone(nodeNames), "gone") {
				on, _ := inv.product.CardOnNode(node, name)
				equal(t, "card on "+node, string(on), inv.observed.CardOn(node, name))
			}
		}

		for _, name := range cards {
			equal(t, "resources of "+name, quoted(inv.product.ResourcesFor(card.Name(name))), quoted(inv.observed.ResourcesOf(name)))
		}

		physical := rule.Quota{}
		for name, count := range inv.product.Physical() {
			physical[string(name)] = int64(count)
		}
		equal(t, "physical", physical.String(), inv.observed.Totals().String())
	})
}

// quoted lists names of either side.
func quoted[S ~string](names []S) string { return fmt.Sprintf("%q", names) }

// TestProductAndObserverReadPodsAlike: the observer, a tool of the tests, has the rules of the documents a second
// time. Of random pods, product and observer must find the same request (resource, count, CPU, memory, cards), and
// whether it is refused. They must also agree on the pod's PodGroup, and whether the pod waits, is placed, terminates
// or may be evicted.
func TestProductAndObserverReadPodsAlike(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		inv := drawInventory(t)
		for range perDraw {
			pod := drawPod(t)
			product := (&workload.Resolver{Inventory: inv.product}).Request(pod)
			observed := rule.RequestOf(pod, inv.observed)
			equal(t, "resource", product.Resource, observed.Resource)
			equal(t, "count", int64(product.Count), observed.Count)
			equal(t, "cpu", product.MilliCPU, observed.MilliCPU)
			equal(t, "memory", product.Memory, observed.Memory)
			equal(t, "cards", quoted(product.Names), quoted(observed.Cards))
			equal(t, "refused", product.Denied != nil, observed.Denial != "")

			for _, name := range cards {
				equal(t, "allows "+name, product.Named.Allows(card.Name(name)), observed.Allows(name))
			}

			equal(t, "waits", workload.IsPending(pod), rule.IsWaiting(pod))
			equal(t, "is placed", workload.IsAssigned(pod), rule.IsCharged(pod))
			equal(t, "terminates", workload.IsTerminating(pod), rule.IsTerminating(pod))
			equal(t, "PodGroup", workload.PodGroupName(pod), rule.PodGroupName(pod))

			group := map[string]string{}
			if value := drawBool(t); rapid.Bool().Draw(t, "the group says") {
				group["volcano.sh/preemptable"] = value
			}
			equal(t, "evictable", workload.IsEvictable(pod, group), rule.IsEvictable(pod, group))
		}
	})
}

// lastCharge draws the last charge of a pod for both sides.
func lastCharge(t *rapid.T) (*quota.Charge, *rule.Charge) {
	if drawInt(t, 1, 2, "charged before") == 1 {
		return nil, nil
	}
	product := &quota.Charge{Queue: oneOf(t, "last queue", "q", "r", "")}
	observed := &rule.Charge{Queue: product.Queue, Cards: rule.Quota{}}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(cards), 0, 2, rapid.ID[string]).Draw(t, "last cards") {
		product.Cards = append(product.Cards, card.Amount{Name: card.Name(name), Count: 2})
		observed.Cards[name] = 2
	}
	return product, observed
}

// TestProductAndObserverChargePodsAlike: a placed pod is charged to a queue with its cards, CPU and memory, and a
// terminating pod still uses them. The product and the observer, a tool of the tests, must charge the same for
// random pods with a PodGroup and a former charge. The creator of a pod can write any queue into the pod. So for a
// pod of another scheduler the queue counts only if it takes the namespace of the pod; queue q takes lab only.
// Scheduler "volcano" has checked that for its own pods.
func TestProductAndObserverChargePodsAlike(t *testing.T) {
	allowsNamespace := func(queue, namespace string) bool { return queue != "q" || namespace == "lab" }

	seed.Check(t, func(t *rapid.T) {
		inv := drawInventory(t)
		for range perDraw {
			pod := drawPod(t)
			group := drawGroup(t)
			product, observed := lastCharge(t)
			isOurs := pod.Spec.SchedulerName == "volcano"
			resolver := workload.Resolver{Inventory: inv.product, Schedulers: []string{"volcano"}, AllowsNamespace: allowsNamespace}
			// As if our scheduler had bound every pod. Terminating pods are compared with this one only.
			trusting := workload.Resolver{Inventory: inv.product}
			isPlaced := workload.IsAssigned(pod)
			isTerminating := workload.IsTerminating(pod)

			var charge, terminatingCharge quota.Charge
			if isPlaced {
				charge = resolver.Usage(pod, group, product)
			}
			if isTerminating {
				terminatingCharge = trusting.Usage(pod, group, product)
			}

			observedCharge, isCharged := rule.ChargeOf(pod, group, inv.observed, observed, rule.Origin{Ours: isOurs, AllowsNamespace: allowsNamespace})
			equal(t, "is placed", isPlaced, isCharged)
			equal(t, "charge", cardSums(charge), observedCharge.String())

			observedCharge, isCharged = rule.TerminatingChargeOf(pod, group, inv.observed, observed, rule.Origin{Ours: true})
			equal(t, "terminates", isTerminating, isCharged)
			equal(t, "charge of a terminating pod", cardSums(terminatingCharge), observedCharge.String())

			lastQueue := oneOf(t, "last queue", "", "q")
			equal(t, "queue", trusting.Queue(pod, group, lastQueue), rule.QueueOf(pod, group, lastQueue))
			if isPlaced {
				observedCharge, _ = rule.ChargeOf(pod, group, inv.observed, observed, rule.Origin{Ours: true})
				equal(t, "charge of a pod that our scheduler has bound", cardSums(trusting.Usage(pod, group, product)), observedCharge.String())
			}
		}
	})
}

// TestProductAndObserverReadQueuesAlike: the observer, a tool of the tests, has the rules of the documents a second
// time. Of random queues, product and observer must find the same limits of cards, CPU and memory. They must also
// agree whether the queue refuses all, and whether its selector takes namespace lab. Where a queue has no quota, one of
// three policies for unmanaged queues decides: it may use no card, any card, or nothing at all.
func TestProductAndObserverReadQueuesAlike(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		for range perDraw {
			queue := drawQueue(t)
			unmanaged := oneOf(t, "unmanaged", rule.UnmanagedEnforce, rule.UnmanagedIgnore, rule.UnmanagedDeny)
			product := workload.QueueRulesFor(queue, v1alpha1.UnmanagedQueues(unmanaged), nil)
			observed := rule.LimitsOf(queue, unmanaged)
			equal(t, "refuses all", product.Refusal != nil, observed.Closed != "")
			equal(t, "any card", product.Limits.AnyCard, observed.AnyCard)
			equal(t, "cpu", product.Limits.MilliCPU, observed.MilliCPU)
			equal(t, "memory", product.Limits.Memory, observed.Memory)

			quota := rule.Quota{}
			for name, count := range product.Limits.Cards {
				quota[string(name)] = int64(count)
			}

			equal(t, "quota", quota.String(), observed.Cards.String())
			labels := map[string]string{"kubernetes.io/metadata.name": "lab"}
			if team := oneOf(t, "team", "", "chat", "search"); team != "" {
				labels["team"] = team
			}

			namespace := &corev1.Namespace{}
			namespace.Labels = labels
			selector, unreadable := workload.NamespaceSelectorFor(queue)
			may := unreadable == nil && workload.CheckNamespace("q", selector, "lab", namespace) == nil
			equal(t, "selects", may, rule.SelectorOf(queue).Selects(labels))
		}
	})
}

func drawQueue(t *rapid.T) *v1beta1.Queue {
	queue := &v1beta1.Queue{}
	queue.Name = oneOf(t, "name", "q", "q", "default", "root")
	queue.Annotations = map[string]string{}
	if drawInt(t, 1, 4, "managed") > 1 {
		queue.Annotations["volcano.sh/card.quota"] = drawQuotaText(t)
	}

	if drawInt(t, 0, 2, "unlimited") == 0 {
		queue.Annotations["volcano.sh/unlimited.resources"] = oneOf(t, "unlimited resources", "cpu", "memory", "cpu,memory", " memory , cpu", "cpu,cpu",
			"", ",", "cpu,", "CPU", "cpu memory", "cpu;memory", "nvidia.com/gpu", `["cpu"]`)
	}

	if rapid.Bool().Draw(t, "choosy") {
		queue.Annotations["volcano.sh/namespace-selector"] = oneOf(t, "selector", `{}`, `{"matchLabels":{"team":"chat"}}`,
			`{"matchExpressions":[{"key":"team","operator":"NotIn","values":["chat"]}]}`, `{"matchExpressions":[{"key":"team","operator":"Exists"}]}`,
			`{"matchLabels":{"team":"chat"},"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"In","values":["lab"]}]}`,
			`null`, ``, `[]`, `{`, `{"matchLabel":{"team":"chat"}}`, `{"matchLabels":{"team":"chat"},"matchLabels":{}}`, `{"matchLabels":{"te am":"x"}}`,
			`{"matchExpressions":[{"key":"team","operator":"Is"}]}`, `{} {}`, `"chat"`, `{"matchLabels":{"team":"chat","team":"search"}}`)
	}

	queue.Spec.Capability = drawResources(t, 2, []corev1.ResourceName{"cpu", "memory"}, []string{"0", "4", "1500m", "4Gi", "1e30", "-1"})
	queue.Status.State = oneOf(t, "state", v1beta1.QueueStateOpen, v1beta1.QueueStateOpen, v1beta1.QueueStateOpen, v1beta1.QueueStateClosed, v1beta1.QueueStateClosing, v1beta1.QueueStateUnknown, "")
	queue.DeletionTimestamp = drawPod(t).DeletionTimestamp
	return queue
}

// TestProductAndObserverFindServiceTypesAlike: the service type of a pod is that of its queue, else of itself, of its
// PodGroup or of the kind of its owner. By the matrix of the policy a type reclaims from the types in its reclaimFrom
// that are reclaimable. The product and the observer, a tool of the tests, must find the same types for random
// annotations and owners. The product must follow that rule in random matrices.
func TestProductAndObserverFindServiceTypesAlike(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		for range perDraw {
			annotated := func(what string) map[string]string {
				return oneOf(t, what, nil, map[string]string{"volcano.sh/service.type": drawType(t)})
			}

			queue := annotated("queue")
			pod := annotated("pod")
			group := annotated("PodGroup")
			owner := drawType(t)
			equal(t, "service type", workload.ServiceTypeFor(queue, pod, group, owner), rule.ServiceType(queue, pod, group, owner))

			kinds := rapid.MapOfN(rapid.SampledFrom([]string{"Job", "Job.batch", "Job.batch.volcano.sh", "Deployment", "Deployment.apps", "ReplicaSet", "ReplicaSet.apps", "StatefulSet"}),
				rapid.SampledFrom([]string{"inference", "training", "other"}), 0, 4).Draw(t, "kinds")
			owned := drawPod(t)
			equal(t, "type of the owner", ownersOf(kinds).TypeFor(owned), rule.OwnerServiceType(owned, kinds))

			matrix, reclaimFrom, reclaimable := drawMatrix(t)
			by := oneOf(t, "by", types...)
			from := oneOf(t, "from", types...)
			equal(t, by+" reclaims from "+from, matrix.CanReclaim(by, from), slices.Contains(reclaimFrom[by], from) && slices.Contains(reclaimable, from))
			equal(t, by+" has types to reclaim from", matrix.Reclaims(by), len(reclaimFrom[by]) > 0)
		}
	})
}

// TestProductAndObserverHaveTheSameDefaultServiceTypes: the administrator has written no policy. Then the product and
// the observer, a tool of the tests, must have the same service types, with the same priority and reclaimability of
// their queues. They must also agree which type reclaims from which.
func TestProductAndObserverHaveTheSameDefaultServiceTypes(t *testing.T) {
	for _, name := range types {
		for _, from := range types {
			equal(t, name+" reclaims from "+from, defaultMatrix.CanReclaim(name, from), slices.Contains(rule.DefaultReclaimFrom()[name], from))
		}

		product, isBuiltIn := builtIn(name)
		observed, isKnown := rule.BuiltIn[name]
		equal(t, name+" is built in", isBuiltIn, isKnown)
		equal(t, "priority of queues of "+name, product.Priority, observed.Priority)
		equal(t, "reclaimability of queues of "+name, product.Reclaimable, observed.Reclaimable)
	}

	check.Equal(t, "service types (-product +observer)", slices.Sorted(maps.Keys(defaultMatrix)), slices.Sorted(maps.Keys(rule.BuiltIn)))
}
