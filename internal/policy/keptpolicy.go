package policy

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
)

// The ConfigMap that keeps what is in force of the ServiceTypePolicy while the policy is deleted and the
// operator restarts. Without it a restart would end the tree, and forget cards that only the policy names.
const (
	KeptConfigMapName = "cardquota-policy-in-force"
	KeptConfigMapKey  = "policy.json"
)

// IsWorthKeeping reports whether something of a policy is in force: its spec, or mode Observe while the spec is invalid.
// Enforce is in force without any policy, too.
func IsWorthKeeping(p *v1alpha1.ServiceTypePolicy) bool {
	return HasTakenEffect(p) || p.Status.Mode == v1alpha1.ModeObserve
}

// EncodeKept returns the text that keeps a policy over a restart: its spec, and what its status says is in
// force of it. Two texts differ only if one of these does, so that an equal one need not be written.
func EncodeKept(p *v1alpha1.ServiceTypePolicy) (string, error) {
	kept := v1alpha1.ServiceTypePolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ServiceTypePolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: p.Name},
		Spec:       p.Spec,
		Status: v1alpha1.ServiceTypePolicyStatus{
			Mode: p.Status.Mode, ServiceTypes: make([]v1alpha1.ServiceTypeStatus, len(p.Status.ServiceTypes)), Reclaim: p.Status.Reclaim,
			ReclaimResources: p.Status.ReclaimResources, QueueHierarchy: p.Status.QueueHierarchy, Cards: p.Status.Cards,
		},
	}

	for i, row := range p.Status.ServiceTypes {
		row.CardQuotas = 0 // how many there are changes often, and is not in force
		kept.Status.ServiceTypes[i] = row
	}

	text, err := json.Marshal(kept)
	if err != nil {
		return "", fmt.Errorf("keep the policy in force: %w", err)
	}

	return string(text), nil
}

// DecodeKept returns the policy of a text of EncodeKept. The error says that the text is none.
func DecodeKept(text string) (*v1alpha1.ServiceTypePolicy, error) {
	kept := &v1alpha1.ServiceTypePolicy{}
	if err := json.Unmarshal([]byte(text), kept); err != nil {
		return nil, fmt.Errorf("read the policy in force: %w", err)
	}
	if kept.Name != v1alpha1.PolicyName || !IsWorthKeeping(kept) {
		return nil, fmt.Errorf("read the policy in force: it is no policy that has taken effect")
	}
	return kept, nil
}
