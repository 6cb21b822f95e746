package strip

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// maxKnownRequests bounds how many different requests are known, maxKnownResources of how many resources.
// Tenants can write any number of them.
const (
	maxKnownRequests  = 1_000
	maxKnownResources = 8
)

// Pods strips pods. Those that request the same share one container, which takes more memory than the rest
// of a pod: pods of a job request the same. Nothing changes objects of a cache. The zero value is ready.
type Pods struct {
	mu    sync.Mutex
	known map[string][]corev1.Container
}

// Strip returns what Pod returns, with the container of an earlier pod that requested the same.
func (p *Pods) Strip(pod *corev1.Pod) *corev1.Pod {
	kept := Pod(pod)
	requests := kept.Spec.Containers[0].Resources.Requests
	if len(requests) > maxKnownResources { // hardly a second pod requests the same, and its key is long
		return kept
	}

	var key []byte
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		quantity := requests[name]
		key = fmt.Appendf(key, "%s=%s,", name, quantity.String())
	}

	p.mu.Lock()
	defer p.mu.Unlock()

	known, ok := p.known[string(key)]
	if !ok {
		if p.known == nil || len(p.known) >= maxKnownRequests {
			p.known = map[string][]corev1.Container{} // pods keep what they have
		}
		known = kept.Spec.Containers
		p.known[string(key)] = known
	}

	kept.Spec.Containers = known
	return kept
}
