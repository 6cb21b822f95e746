package docs

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/framework"
)

// schedulerRun is the time in which a container with the stock scheduler ran; until is zero
// while it runs. The kubelet states both in whole seconds.
type schedulerRun struct {
	pod         string
	from, until time.Time
}

// schedulerRuns record which scheduler ran when: the stock one by its container, ours by the
// heartbeats of its sessions.
type schedulerRuns struct {
	mu      sync.Mutex
	stock   map[types.UID]schedulerRun
	ours    []time.Time
	trouble []string
}

// watchSchedulers starts to record which scheduler runs.
func (e *engineer) watchSchedulers() *schedulerRuns {
	w := &schedulerRuns{stock: map[types.UID]schedulerRun{}}
	ctx, stop := context.WithCancel(context.WithoutCancel(e.ctx))
	e.Cleanup(stop)
	for _, kind := range []struct {
		list client.ObjectList
		in   string
	}{{&corev1.PodList{}, cluster.VolcanoNamespace}, {&coordinationv1.LeaseList{}, corev1.NamespaceAll}} { // ours may be elsewhere
		changes := check.Value(e.Watch(ctx, kind.list, client.InNamespace(kind.in)))(e)
		go func() {
			for change := range changes.ResultChan() {
				w.recordEvent(change)
			}

			if ctx.Err() == nil {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.trouble = append(w.trouble, "a watch ended")
			}
		}()
	}

	return w
}

func (w *schedulerRuns) recordEvent(change watch.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()

	switch object := change.Object.(type) {
	case *corev1.Pod:
		for _, status := range object.Status.ContainerStatuses {
			if !strings.Contains(status.Image, "vc-scheduler") {
				continue
			}
			switch state := status.State; {
			case state.Running != nil:
				w.stock[object.UID] = schedulerRun{pod: object.Name, from: state.Running.StartedAt.Time}
			case state.Terminated != nil:
				w.stock[object.UID] = schedulerRun{pod: object.Name, from: state.Terminated.StartedAt.Time, until: state.Terminated.FinishedAt.Time}
			}
		}
	case *coordinationv1.Lease:
		if object.Name != enforcement.LeaseName || change.Type == watch.Deleted {
			return
		}
		report, err := enforcement.ReadReport(object)
		if err != nil {
			w.trouble = append(w.trouble, err.Error())
			return
		}
		w.ours = append(w.ours, report.At)
	default:
		w.trouble = append(w.trouble, fmt.Sprintf("a watch brought %+v", object))
	}
}

// checkNeverTwo fails the test where both ran at the same time, and where one of them never ran.
func (w *schedulerRuns) checkNeverTwo(e *engineer, stockTurns int) {
	w.mu.Lock()
	defer w.mu.Unlock()

	e.Expect(w.trouble).To(BeEmpty())
	e.Expect(w.stock).To(HaveLen(stockTurns), "turns of the stock scheduler: %v", w.stock)
	e.Expect(w.ours).NotTo(BeEmpty(), "our scheduler never worked")
	for _, stock := range w.stock {
		for _, ours := range w.ours {
			// Times are in whole seconds, and ours may finish its current session.
			begun := ours.After(stock.from.Add(2 * time.Second))
			e.Expect(begun && (stock.until.IsZero() || ours.Before(stock.until))).To(BeFalse(),
				"ours worked at %s while the stock scheduler of pod %s did, from %s to %s", ours, stock.pod, stock.from, stock.until)
		}
	}
}

// countHeartbeats returns how often our scheduler reported a closed session.
func (w *schedulerRuns) countHeartbeats() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ours)
}

// countStockRuns returns how often a container with the stock scheduler has started.
func (w *schedulerRuns) countStockRuns() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.stock)
}

// stockRanAt reports whether the stock scheduler ran at a moment.
func (w *schedulerRuns) stockRanAt(at time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, stock := range w.stock {
		if at.After(stock.from) && (stock.until.IsZero() || at.Before(stock.until.Add(time.Second))) {
			return true
		}
	}
	return false
}

// stockName is the Deployment of Volcano's own scheduler.
var stockName = client.ObjectKey{Namespace: cluster.VolcanoNamespace, Name: "volcano-scheduler"}

// startStock creates the Deployment of Volcano's own scheduler from its installer, with an image
// of the binary that was built from Volcano's sources.
func (e *engineer) startStock() {
	deployment := e.stockDeployment()
	container := &deployment.Spec.Template.Spec.Containers[0]
	archive := check.Value(e.cluster.BuildImageFrom(e.ctx, container.Image, filepath.Join(e.cluster.BinDir(), "scheduler")))(e)
	e.Expect(e.cluster.ImportImage(e.ctx, archive)).To(Succeed())
	container.ImagePullPolicy = corev1.PullIfNotPresent // there is no registry here

	e.Expect(e.Create(e.ctx, deployment)).To(Succeed())
	e.Eventually(framework.Read(e.ctx, e, stockName, func(live *appsv1.Deployment) int32 {
		return live.Status.AvailableReplicas
	})).Should(BeEquivalentTo(1))
}

func (e *engineer) stockDeployment() *appsv1.Deployment {
	return check.Value(e.cluster.StockScheduler())(e)
}
