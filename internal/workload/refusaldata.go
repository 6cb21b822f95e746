package workload

import (
	"encoding/json"
	"slices"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/quota"
)

// PodGroupCardsRefused is the type of the condition by which the scheduler says to programs why a PodGroup is
// not enqueued. Its message is that of Refusal.Data. The condition Unschedulable says the same to people, with the
// same transitionID, perhaps with an earlier total. With another one, it is newer and about something else.
const PodGroupCardsRefused v1beta1.PodGroupConditionType = "cardquota.dev/CardsRefused"

// Data returns the refusal as JSON, for programs. Fields that the code does not need are left out.
func (r *Refusal) Data() string {
	named := *r
	named.Resource = quota.Resource(r.Resource.String()) // "cpu" or "memory"
	data, _ := json.Marshal(named)                       // texts and numbers cannot fail
	return string(data)
}

// ReadRefusalData reads what Data returned. It returns false for any other text, and for a refusal that this version
// does not know. Tenants can write such texts into the conditions of their PodGroups.
func ReadRefusalData(data string) (refusal Refusal, isRefusal bool) {
	if err := json.Unmarshal([]byte(data), &refusal); err != nil {
		return Refusal{}, false
	}

	// The data has CPU and memory as "cpu" and "memory", which are not the values of quota.Resource.
	if refusal.Resource != "" {
		at := slices.IndexFunc(quota.Compute[:], func(of quota.Resource) bool { return of.String() == string(refusal.Resource) })
		if at < 0 {
			return Refusal{}, false
		}
		refusal.Resource = quota.Compute[at]
	}

	// A tenant can write numbers whose sums would overflow.
	for _, amount := range []int64{refusal.Requested, refusal.Total, refusal.Limit, refusal.AllCards, refusal.MinimumCards} {
		if amount < 0 || amount > maxQuantity {
			return Refusal{}, false
		}
	}

	return refusal, wordingFor(refusal.Code).blocked != "" // "" for an unknown code
}
