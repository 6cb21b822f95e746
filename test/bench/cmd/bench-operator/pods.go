package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// podRef names a pod.
type podRef struct {
	gang, member, try int
	node              string
}

// changingPods is how many pods of a gang are replaced. The last one stays: a PodGroup without pods
// would count as waiting.
const changingPods = gangSize - 1

// podSet creates, binds and deletes pods as users and the scheduler do.
type podSet struct {
	plan
	core kubernetes.Interface

	mu sync.Mutex
	// free are the nodes with free cards, by model, one entry for each card. bound and waiting are
	// the changing pods of gangs that use cards, and of those that wait, by model.
	free           [][]string
	bound, waiting [][][]podRef
	tries          int
}

func newPodSet(p plan, core kubernetes.Interface) *podSet {
	s := &podSet{plan: p, core: core, free: make([][]string, p.cards), bound: make([][][]podRef, p.cards), waiting: make([][][]podRef, p.cards)}
	for range gangSize {
		for i := range p.nodes {
			s.free[i%p.cards] = append(s.free[i%p.cards], p.nodeName(i))
		}
	}
	return s
}

// pop removes and returns the first entry of a list, so that all take their turn.
func pop[T any](s *podSet, lists [][]T, model int) (entry T, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := lists[model]
	if len(list) == 0 {
		return entry, false
	}
	lists[model] = list[1:]
	return list[0], true
}

func push[T any](s *podSet, lists [][]T, model int, entry T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lists[model] = append(lists[model], entry)
}

// createGang creates the pods of a gang. Those that do not wait, and for which cards are free, are
// bound.
func (s *podSet) createGang(ctx context.Context, gang int) error {
	var bound, waiting []podRef
	for member := range gangSize {
		ref := podRef{gang: gang, member: member}
		if err := s.create(ctx, ref); err != nil {
			return err
		}

		isFree := false
		if !s.waits(gang) {
			ref.node, isFree = pop(s, s.free, s.modelOfGang(gang))
		}

		write := s.refuse
		list := &waiting
		if isFree {
			write = s.bind
			list = &bound
		}

		if err := write(ctx, ref); err != nil {
			return err
		}

		if member < changingPods {
			*list = append(*list, ref)
		}
	}

	switch changingPods { // a gang that is bound in part stays as it is
	case len(bound):
		push(s, s.bound, s.modelOfGang(gang), bound)
	case len(waiting):
		push(s, s.waiting, s.modelOfGang(gang), waiting)
	}

	return nil
}

func (s *podSet) podOf(ref podRef) *corev1.Pod { return s.pod(ref.gang, ref.member, ref.try) }

func (s *podSet) create(ctx context.Context, ref podRef) error {
	pod := s.podOf(ref)
	if _, err := s.core.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create pod %s: %w", pod.Name, err)
	}
	return nil
}

func (s *podSet) bind(ctx context.Context, ref podRef) error {
	pod := s.podOf(ref)
	err := s.core.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: ref.node},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("bind pod %s: %w", pod.Name, err)
	}
	return nil
}

// refuse writes why a pod waits, as the scheduler does.
func (s *podSet) refuse(ctx context.Context, ref podRef) error {
	pod := s.podOf(ref)
	patch, err := json.Marshal(map[string]any{"status": corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: s.refusal(ref.gang), LastTransitionTime: metav1.Now()},
	}}})
	if err == nil {
		_, err = s.core.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil {
		return fmt.Errorf("write why pod %s waits: %w", pod.Name, err)
	}
	return nil
}

func (s *podSet) remove(ctx context.Context, ref podRef) error {
	pod := s.podOf(ref)
	if err := s.core.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}); err != nil {
		return fmt.Errorf("delete pod %s: %w", pod.Name, err)
	}
	return nil
}

// changesPerRound is how many changes of pods a round has.
const changesPerRound = 4 * changingPods

// changeGangs plays a round: a gang of a model ends, one that waits gets its cards, and a new gang waits
// in the place of the first. Controllers and the scheduler create, bind and delete the pods of a gang
// together. turn is called before each change. It returns false if there is no such gang.
func (s *podSet) changeGangs(ctx context.Context, model int, turn func() error) (bool, error) {
	gone, ok := pop(s, s.bound, model)
	if !ok {
		return false, nil
	}

	next, ok := pop(s, s.waiting, model)
	if !ok {
		push(s, s.bound, model, gone)
		return false, nil
	}

	s.mu.Lock()
	s.tries++
	try := s.tries
	s.mu.Unlock()

	fresh := make([]podRef, len(gone))
	for i := range gone {
		next[i].node = gone[i].node
		fresh[i] = podRef{gang: gone[i].gang, member: gone[i].member, try: try}
	}

	for _, step := range []struct {
		change func(ctx context.Context, ref podRef) error
		pods   []podRef
	}{{s.remove, gone}, {s.bind, next}, {s.create, fresh}, {s.refuse, fresh}} {
		group, stepCtx := errgroup.WithContext(ctx)
		for _, ref := range step.pods {
			if err := turn(); err != nil {
				return false, errors.Join(err, group.Wait())
			}
			group.Go(func() error { return step.change(stepCtx, ref) })
		}

		if err := group.Wait(); err != nil {
			return false, err
		}
	}

	push(s, s.bound, model, next)
	push(s, s.waiting, model, fresh)
	return true, nil
}
