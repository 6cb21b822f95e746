package forecast

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/servicetype"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// BenchmarkForecast forecasts for 50,000 pods in gangs of 8, of 1,000 queues on 5,000 nodes with 20 models. A fifth of the
// pods waits, and every queue uses more than its quota. Every tenth queue is of type inference, and reclaims.
func BenchmarkForecast(b *testing.B) {
	const (
		models = 20
		nodes  = 5000
		queues = 1000
		pods   = 50_000
		gang   = 8
	)

	cards := map[string]card.Node{}
	for i := range nodes {
		name := card.Name(fmt.Sprint("NVIDIA-BENCH-", i%models))
		cards[fmt.Sprint("node-", i)] = card.Node{Model: string(name), Cards: []card.NodeCard{{Name: name, Resource: builder.GPU, Count: 8}}}
	}

	var owned []*v1alpha1.CardQuota
	for i := range queues {
		serviceType := "training"
		if i%10 == 0 {
			serviceType = "inference"
		}
		owned = append(owned, builder.CardQuota(fmt.Sprint("queue-", i)).ServiceType(serviceType).Card(fmt.Sprint("NVIDIA-BENCH-", i%models), 30).Obj())
	}

	inventory := card.NewInventory(cards)
	count := queueusage.Input{Inventory: inventory, Schedulers: []string{"volcano"}, Facts: &queueusage.PodFacts{}}
	for i := range pods {
		group := i / gang
		pod := builder.Pod("lab", fmt.Sprint("pod-", i)).UID(types.UID(fmt.Sprintf("8d1f2c3e-0000-4000-8000-%012d", i))).
			PodGroup(fmt.Sprint("gang-", group)).GPUs(1).CPU("8").Memory("64Gi").
			Card(fmt.Sprint("NVIDIA-BENCH-", group%models)).Owner("batch.volcano.sh/v1alpha1", "Job", fmt.Sprint("job-", group))
		if group%5 != 0 {
			pod.Running(fmt.Sprint("node-", i%nodes))
		}
		count.Pods = append(count.Pods, pod.Obj())
		if i%gang == 0 {
			count.PodGroups = append(count.PodGroups, builder.PodGroup("lab", fmt.Sprint("gang-", group)).
				Queue(fmt.Sprint("queue-", group%queues)).MinMember(gang).Phase(v1beta1.PodGroupRunning).Obj())
		}
	}

	input := &Input{
		Pods: count.Pods, PodGroups: count.PodGroups, Facts: count.Facts, Inventory: inventory, Healthy: inventory.Physical(), Owners: cardquota.OwnersByQueue(owned),
		Schedulers: count.Schedulers, TypeFor: servicetype.BuiltIn, Matrix: servicetype.DefaultMatrix(), AllowsNamespace: func(string, string) bool { return true },
	}
	input.Tree = quota.Flat.WithFlat(cardquota.FlatLimits(input.Owners))
	input.Namespaces = NewNamespaces(input.Owners, input.Tree, nil)
	for range 2 { // charges are kept from the second count on
		_, count.LastCharges = queueusage.CountWithCharges(count)
	}
	input.Charges = count.LastCharges

	check.Must(b, len(New(input).Quotas) == queues, "each queue has a forecast")
	b.ReportAllocs()
	for b.Loop() {
		New(input)
	}
}

// BenchmarkReclaimInVain forecasts for 5,000 alike pods of inference that wait within their quota for more cards than one
// node offers, beside 20,000 gangs of training that they may reclaim from.
func BenchmarkReclaimInVain(b *testing.B) {
	const h100 = "NVIDIA-H100"
	s := scene{quotas: quotas(builder.CardQuota("train").Card(h200, 100_000), builder.CardQuota("serve").Card(h100, 100_000).ServiceType("inference"))}
	for i := range 20_000 {
		s.pods = append(s.pods, running(fmt.Sprint("train-", i), 1))
	}
	for i := range 5000 {
		s.pods = append(s.pods, pending(fmt.Sprint("serve-", i), 16).Queue("serve").Card(h100))
	}

	input := s.newInput()
	check.Must(b, New(input).Quotas["train"] == nil, "nothing is reclaimed")
	b.ReportAllocs()
	for b.Loop() {
		New(input)
	}
}
