package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// placements watches which pod is bound where and when.
type placements struct {
	want int
	all  chan struct{} // closed when so many pods are bound

	mu    sync.Mutex
	nodes map[string]string          // pod → node
	gangs map[string]map[string]bool // gang → nodes
	times []time.Time                // of the bindings, in their order
}

// watch follows the pods until ctx ends. It returns when it has seen them all.
func watch(ctx context.Context, config *rest.Config, want int) (*placements, error) {
	// The benchmark shares its processors with what it measures, so it reads
	// pods in the cheap encoding and keeps little of them.
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	p := &placements{want: want, all: make(chan struct{}), nodes: map[string]string{}, gangs: map[string]map[string]bool{}}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace), informers.WithTransform(slim))
	informer := factory.Core().V1().Pods().Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { p.see(object.(*corev1.Pod), time.Now()) },
		UpdateFunc: func(_, object any) { p.see(object.(*corev1.Pod), time.Now()) },
	})
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, context.Cause(ctx)
	}
	if seen := len(informer.GetStore().ListKeys()); seen != want || len(p.nodes) > 0 {
		return nil, fmt.Errorf("%d pods wait and %d are bound before the start, expected %d and 0", seen, len(p.nodes), want)
	}
	return p, nil
}

func slim(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	small := &corev1.Pod{Spec: corev1.PodSpec{NodeName: pod.Spec.NodeName}}
	small.Namespace, small.Name, small.Labels = pod.Namespace, pod.Name, pod.Labels
	return small, nil
}

func (p *placements) see(pod *corev1.Pod, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pod.Spec.NodeName == "" || p.nodes[pod.Name] != "" {
		return
	}
	p.nodes[pod.Name] = pod.Spec.NodeName
	gang := pod.Labels[gangLabel]
	if p.gangs[gang] == nil {
		p.gangs[gang] = map[string]bool{}
	}
	p.gangs[gang][pod.Spec.NodeName] = true
	if p.times = append(p.times, now); len(p.times) == p.want {
		close(p.all)
	}
}

// wait waits until all pods are bound, or the scheduler has ended.
func (p *placements) wait(ctx context.Context, ended <-chan struct{}) error {
	var err error
	select {
	case <-p.all:
		return nil
	case <-ended:
		err = errors.New("the scheduler ended by itself")
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Errorf("%d of %d pods are bound: %w", len(p.times), p.want, err)
}

// since returns how long after the start the n-th pod was bound.
func (p *placements) since(start time.Time, n int) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.times[n-1].Sub(start)
}

// spread returns how many nodes have pods, and on how many a gang is on
// average: 1 is a gang on one node.
func (p *placements) spread() (nodes int, perGang float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	used := map[string]bool{}
	for _, node := range p.nodes {
		used[node] = true
	}
	var sum int
	for _, on := range p.gangs {
		sum += len(on)
	}
	return len(used), float64(sum) / float64(len(p.gangs))
}
