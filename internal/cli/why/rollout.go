package why

import (
	"context"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/cli/why/explanation"
	"cardquota.dev/operator/internal/workload"
)

// revisionAnnotation is the revision of a ReplicaSet of a Deployment.
const revisionAnnotation = "deployment.kubernetes.io/revision"

// setRollout sets how a Deployment exchanges its pods while new ones wait beside old ones.
func (r *inputReader) setRollout(ctx context.Context, controller client.Object) {
	if r.input.Workload.Kind != "Deployment" || r.input.Workload.APIGroup != appsv1.GroupName || r.requester == nil {
		return // requester is the waiting pod that is explained
	}
	deployment, isKnown := controller.(*appsv1.Deployment) // not known if the user may not read it
	if isKnown && deployment.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return // its old pods end first
	}

	old := r.podsOfEarlierRevisions(ctx)
	if len(old) == 0 {
		return
	}

	rollout := explanation.Rollout{IsKnown: isKnown}
	if isKnown {
		rollout.MaxSurge, rollout.MaxUnavailable = rolloutBounds(deployment)
	}

	for _, pod := range old {
		r.addOldPod(&rollout, pod)
	}
	r.input.Rollout = &rollout
}

// addOldPod adds what the request may have once an old pod ends: what it uses of the same queue, and of
// the cards on which the new pod may run.
func (r *inputReader) addOldPod(rollout *explanation.Rollout, pod *corev1.Pod) {
	charge := r.resolver.Usage(pod, r.found.groups[workload.PodGroupName(pod)], nil)
	if charge.Queue != r.input.Queue {
		return
	}
	rollout.OldPods++

	cards := int64(0) // a pod uses cards of one name
	for _, amount := range charge.Cards {
		if slices.Contains(r.input.Request.Names, amount.Name) {
			cards = max(cards, int64(amount.Count))
		}
	}

	if cards > 0 {
		rollout.CardPods++
		rollout.OldCards += cards
	}
}

// podsOfEarlierRevisions returns the pods on nodes that are of an earlier revision than the one that waits.
// Another revision is not always an earlier one: after an eviction, the pod that waits may be the older one.
func (r *inputReader) podsOfEarlierRevisions(ctx context.Context) (old []*corev1.Pod) {
	own := r.requester.Labels[workload.PodTemplateHash]
	revisions := map[string]revision{own: r.readRevision(ctx, r.requester)}
	for _, pod := range r.podsOfWorkload() {
		hash := pod.Labels[workload.PodTemplateHash]
		if hash == own || !workload.IsAssigned(pod) || pod.DeletionTimestamp != nil {
			continue
		}

		if _, isRead := revisions[hash]; !isRead {
			revisions[hash] = r.readRevision(ctx, pod)
		}
		if revisions[hash].isBefore(revisions[own]) {
			old = append(old, pod)
		}
	}

	return old
}

// revision is the place of a ReplicaSet among those of its Deployment.
type revision struct {
	number  int64
	created time.Time
}

// readRevision returns the revision of a pod. Who may not read its ReplicaSet knows none.
func (r *inputReader) readRevision(ctx context.Context, pod *corev1.Pod) revision {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return revision{}
	}

	replicaSet := &appsv1.ReplicaSet{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: owner.Name}, replicaSet); err != nil {
		return revision{}
	}

	number, err := strconv.ParseInt(replicaSet.Annotations[revisionAnnotation], 10, 64)
	if err != nil {
		number = 0
	}

	return revision{number, replicaSet.CreationTimestamp.Time}
}

// isBefore reports whether a revision is earlier than another one. If one of the two is unknown, it says yes, because most
// pods that wait are of the newest.
func (r revision) isBefore(other revision) bool {
	if r.number != other.number && r.number > 0 && other.number > 0 {
		return r.number < other.number
	}
	return r.created.IsZero() || other.created.IsZero() || r.created.Before(other.created)
}

// rolloutBounds returns maxSurge and maxUnavailable as numbers of pods, as the Deployment controller does.
func rolloutBounds(deployment *appsv1.Deployment) (surge, unavailable int) {
	quarter := intstr.FromString("25%")
	replicas := int(ptr.Deref(deployment.Spec.Replicas, 1))

	update := ptr.Deref(deployment.Spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
	// Of a value that cannot be read, which the API server refuses, both are 0.
	surge, _ = intstr.GetScaledValueFromIntOrPercent(ptr.To(ptr.Deref(update.MaxSurge, quarter)), replicas, true)
	unavailable, _ = intstr.GetScaledValueFromIntOrPercent(ptr.To(ptr.Deref(update.MaxUnavailable, quarter)), replicas, false)

	// Both can round to 0. The Deployment controller then ends one pod, or nothing would ever
	// move.
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}

	return surge, unavailable
}
