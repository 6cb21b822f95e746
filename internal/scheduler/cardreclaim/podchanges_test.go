package cardreclaim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/internal/testing/session"
)

// podChange changes a pod of a scene before it is added.
type podChange = func(*corev1.Pod)

// onPod applies a change to the pod of a name, onJob to the pods of a job.
func onPod(name string, change podChange) podChange {
	return func(p *corev1.Pod) {
		if p.Name == name {
			change(p)
		}
	}
}

func onJob(job string, change podChange) podChange {
	return func(p *corev1.Pod) {
		if change != nil && p.Annotations["scheduling.k8s.io/group-name"] == job {
			change(p)
		}
	}
}

// applyAll applies several changes, without those that are nil.
func applyAll(changes ...podChange) podChange {
	return func(p *corev1.Pod) {
		for _, change := range changes {
			if change != nil {
				change(p)
			}
		}
	}
}

func annotated(key, value string) podChange {
	return func(p *corev1.Pod) { p.Annotations[key] = value }
}

// protect forbids the eviction of a pod.
func protect(p *corev1.Pod) { annotated("volcano.sh/preemptable", "false")(p) }

// requestingCard names another card for a pod.
func requestingCard(name string) podChange { return annotated("volcano.sh/card.name", name) }

func ofServiceType(name string) podChange { return annotated("volcano.sh/service.type", name) }

// withCheckpoint annotates when a pod has saved its work.
func withCheckpoint(at time.Time) podChange {
	return annotated("volcano.sh/checkpoint-time", at.UTC().Format(time.RFC3339))
}

func requesting(name corev1.ResourceName, quantity string) podChange {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests[name] = amount(quantity) }
}

// withoutCards removes the cards of a pod.
func withoutCards(p *corev1.Pod) {
	delete(p.Spec.Containers[0].Resources.Requests, gpu)
	delete(p.Annotations, "volcano.sh/card.name")
}

// neverPreempting is the preemption policy that forbids evictions for a pod.
func neverPreempting(p *corev1.Pod) { p.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever) }

// gated keeps a pod from being scheduled.
func gated(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }

// withPriorityClass names a PriorityClass. The shipped order is pc-high, pc-medium, pc-normal, pc-low.
func withPriorityClass(name string) podChange {
	return func(p *corev1.Pod) { p.Spec.PriorityClassName = name }
}

// withUnboundVolume gives a pod a volume that is never bound, so that it fits nowhere.
func withUnboundVolume(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "unbound"},
	}}}
}

func withHostPort(port int32) podChange {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: port, ContainerPort: port, Protocol: corev1.ProtocolTCP}}
	}
}

func withLabel(app string) podChange {
	return func(p *corev1.Pod) { p.Labels["app"] = app }
}

// affinityTerm selects the pods with a label on nodes of the same value of a topology key.
func affinityTerm(app, topologyKey string) []corev1.PodAffinityTerm {
	return []corev1.PodAffinityTerm{{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, TopologyKey: topologyKey}}
}

// avoiding keeps a pod off nodes with pods of a label.
func avoiding(app string) podChange { return avoidingWithin(corev1.LabelHostname, app) }

// avoidingWithin keeps a pod out of the zone, or off the node, of pods of a label.
func avoidingWithin(topologyKey, app string) podChange {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: affinityTerm(app, topologyKey),
		}}
	}
}

// beside keeps a pod on nodes with a pod of a label.
func beside(app string) podChange {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: affinityTerm(app, corev1.LabelHostname),
		}}
	}
}

// withOwnHostPorts gives each pod another host port, so that no two are of one kind.
func withOwnHostPorts() podChange {
	next := int32(10000)
	return func(p *corev1.Pod) {
		withHostPort(next)(p)
		next++
	}
}

// withOwnToleration gives each pod another toleration, so that no two are of one kind.
func withOwnToleration(p *corev1.Pod) {
	p.Spec.Tolerations = []corev1.Toleration{{Key: p.Name, Operator: corev1.TolerationOpExists}}
}

func ownedBy(apiVersion, kind string) podChange { return session.OwnedBy(apiVersion, kind, "o", "o") }

// withDisruptionTarget gives a pod the condition that is written before its eviction.
func withDisruptionTarget(reason string, since time.Duration) podChange {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: ago(since),
		})
	}
}

// terminatingSince deletes a pod, which still uses its cards.
func terminatingSince(d time.Duration) podChange {
	return func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(ago(d)) }
}
