package workload

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
)

// managedLimits returns the limits of a Queue by the text of its card.quota. milliCPU and memory are those of its
// capability, 0 if it is not set. An annotation that cannot be parsed withholds everything: no limits, and a refusal
// that says why.
func managedLimits(queue *v1beta1.Queue, text string, milliCPU, memory int64) (limits quota.Limits, refusal *Refusal) {
	cards, err := card.ParseQuota(text)
	if err != nil {
		return limits, &Refusal{Code: CodeInvalidQuota, Queue: queue.Name, Object: v1alpha1.AnnotationCardQuota, Detail: err.Error()}
	}

	limits = quota.Limits{Cards: cards, MilliCPU: milliCPU, Memory: memory}
	list, isWritten := queue.Annotations[v1alpha1.AnnotationUnlimitedResources]
	if !isWritten {
		return limits, nil
	}

	unlimited, err := ParseUnlimitedResources(list)
	if err != nil {
		return quota.Limits{}, &Refusal{Code: CodeInvalidQuota, Queue: queue.Name, Object: v1alpha1.AnnotationUnlimitedResources, Detail: err.Error()}
	}

	// A capability beside the annotation is the smaller limit, so it counts.
	if _, isLimited := queue.Spec.Capability[corev1.ResourceCPU]; !isLimited && slices.Contains(unlimited, quota.CPU) {
		limits.MilliCPU = quota.Unlimited
	}
	if _, isLimited := queue.Spec.Capability[corev1.ResourceMemory]; !isLimited && slices.Contains(unlimited, quota.Memory) {
		limits.Memory = quota.Unlimited
	}

	return limits, nil
}

// FormatUnlimitedResources returns the text for ParseUnlimitedResources.
func FormatUnlimitedResources(unlimited []quota.Resource) string {
	names := make([]string, len(unlimited))
	for i, of := range unlimited {
		names[i] = of.String()
	}
	return strings.Join(names, ",")
}

// ParseUnlimitedResources parses the annotation volcano.sh/unlimited.resources: cpu, memory, or both with a comma
// between them. Any other entry is an error: a user may have misspelt a limit that is to stay.
func ParseUnlimitedResources(text string) ([]quota.Resource, error) {
	var unlimited []quota.Resource
	for entry := range strings.SplitSeq(text, ",") {
		name := strings.TrimSpace(entry)
		at := slices.IndexFunc(quota.Compute[:], func(of quota.Resource) bool { return of.String() == name })
		if at < 0 {
			return nil, fmt.Errorf("%.100q is neither cpu nor memory: write it like cpu,memory", name)
		}
		unlimited = append(unlimited, quota.Compute[at])
	}
	return unlimited, nil
}
