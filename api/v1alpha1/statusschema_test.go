package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardhours"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/localquota"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// validate returns a function that says why the API server would refuse a status.
func validate(t *testing.T, plural string) func(any) error {
	var internal apiextensions.JSONSchemaProps
	schema := schemaOf(t, plural).Properties["status"]
	check.NoError(t, apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&schema, &internal, nil))

	validator, _, err := validation.NewSchemaValidator(&internal)
	check.NoError(t, err)

	return func(status any) error {
		text, err := json.Marshal(status)
		if err != nil {
			return err
		}

		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			return err
		}
		if result := validator.Validate(value); len(result.Errors) > 0 {
			return fmt.Errorf("%v: %s", result.Errors, text)
		}

		return nil
	}
}

// TestEveryStatusIsValid: the status of a CardQuota and of its views has texts that tenants and schedulers
// write: card names, service types, owners, reasons and messages. Whatever these are, the schema accepts the
// status that the operator makes of them. Otherwise one tenant could keep a status from being written. Pods
// and their texts are random. 300 repetitions make a text longer than its bound, and 300 used cards a list.
// First a wrong status, with a holder of 0 cards, shows that both schemas refuse one.
func TestEveryStatusIsValid(t *testing.T) {
	isValid := validate(t, "cardquotas")
	isValidView := validate(t, "localcardquotas")
	wrong := []v1alpha1.BlockedStatus{{
		Workload: v1alpha1.WorkloadReference{Kind: "Pod", Namespace: "lab", Name: "a"},
		Holders:  []v1alpha1.CardHolder{{Card: "NVIDIA-H200"}},
	}}
	check.That(t, isValid(v1alpha1.CardQuotaStatus{Blocked: wrong}) != nil, "a CardQuota with a holder of 0 cards is valid")
	check.That(t, isValidView(v1alpha1.LocalCardQuotaStatus{Blocked: wrong}) != nil, "a view with a holder of 0 cards is valid")

	node := card.Node{Model: "NVIDIA-H200", Cards: []card.NodeCard{{Name: "NVIDIA-H200", Resource: builder.GPU, Count: 8}}}
	quota := builder.CardQuota("q").ServiceType("training").Card("NVIDIA-H200", 8).Obj()
	seed.Check(t, func(t *rapid.T) {
		many := rapid.SampledFrom([]int{1, 1, 300}).Draw(t, "repeated")
		words := rapid.SampledFrom([]string{
			"",
			"NVIDIA-H200",
			"Queue <q> has insufficient <NVIDIA-H200> quota: requested <2>, total would be <9>, but capability is <8>",
			"Queue <top>, an ancestor of <q>, has insufficient <NVIDIA-H200> quota: requested <2>, total would be <9>, but capability is <8>",
			"0/1 nodes are unavailable: 1 Insufficient nvidia.com/gpu.",
			"Pod lab/a can possibly be assigned to a, once minAvailable is satisfied",
		})

		input := queueusage.Input{
			Inventory:   card.NewInventory(map[string]card.Node{"a": node}),
			Nodes:       []card.NodeState{{Name: "a", Node: node, IsReady: true}},
			LocalQueues: map[string]bool{"q": true},
		}

		for i := range rapid.IntRange(0, 12).Draw(t, "pods") {
			b := builder.Pod(rapid.SampledFrom([]string{"lab", "other"}).Draw(t, "namespace"), fmt.Sprint("p", i)).
				Queue(rapid.SampledFrom([]string{"q", "r"}).Draw(t, "queue")).
				GPUs(rapid.IntRange(0, 4).Draw(t, "count")).
				Card(rapid.OneOf(words, rapid.String()).Draw(t, "card")).
				ServiceType(strings.Repeat(rapid.OneOf(words, rapid.String()).Draw(t, "type"), many)).
				Created(time.Unix(0, 0))

			if owner := strings.Repeat(rapid.String().Draw(t, "owner"), many); owner != "" {
				b.Owner(owner+"/v1", owner, owner)
			}

			b.Condition(corev1.PodScheduled, corev1.ConditionFalse, rapid.String().Draw(t, "reason"),
				strings.Repeat(rapid.OneOf(words, rapid.String()).Draw(t, "message"), many))
			if rapid.Bool().Draw(t, "runs") {
				b.Running("a")
			}
			input.Pods = append(input.Pods, b.Obj())
		}

		// The status of the CardQuota.
		usage := queueusage.Count(input)["q"]
		quota := quota.DeepCopy()
		quota.Status = cardquota.NewStatus(cardquota.StatusInput{
			Quota: quota,
			Usage: &usage,
			Own:   &usage,
			Tree:  cardquota.Flat,
			Sync:  metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSynced},
			Now:   time.Unix(0, 0),
		})
		check.NoError(t, isValid(quota.Status))

		// Its views in namespaces with pods, and in one without.
		month := cardseconds.QueueMonth{Month: "2026-11", Cards: map[string]cardseconds.Milli{}}
		for range rapid.SampledFrom([]int{0, 1, 300}).Draw(t, "used cards") {
			month.Cards[strings.Repeat(rapid.OneOf(words, rapid.String()).Draw(t, "used card"), many)] =
				cardseconds.Milli(rapid.Int64Range(0, 1e18).Draw(t, "used"))
		}

		for _, namespace := range []string{"lab", "other", "third"} {
			view := localquota.NewStatus(quota, namespace, usage.Local[namespace], usage.BlockedTotal)
			view.CardHours = cardhours.NewStatus(cardseconds.QueueMonths{CountedUntil: time.Unix(0, 0), This: month, Last: month})
			check.NoError(t, isValidView(view))
		}
	})
}
