package forecast

import (
	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/testing/builder"
)

func quotas(all ...*builder.CardQuotaBuilder) []*builder.CardQuotaBuilder { return all }

func pods(all ...*builder.PodBuilder) []*builder.PodBuilder { return all }

func groups(all ...*builder.PodGroupBuilder) []*builder.PodGroupBuilder { return all }

func namespaces(all ...*corev1.Namespace) []*corev1.Namespace { return all }

// gang is a pending PodGroup of queue train, of namespace lab.
func gang(name string, members int32) *builder.PodGroupBuilder {
	return builder.PodGroup("lab", name).Queue("train").MinMember(members)
}
