package leader

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	componentbaseconfig "k8s.io/component-base/config"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// inFakeTime runs a test with a fake clock that advances when every goroutine waits.
func inFakeTime(t *testing.T, test func(t *testing.T, g *WithT)) {
	synctest.Test(t, func(t *testing.T) { test(t, NewWithT(check.Trail(t))) })
}

// long is longer than any wait of these tests.
const long = time.Minute

// fakeAPIServer reports the method of each request that reaches it. It answers none before answerAll is called, then all.
type fakeAPIServer struct {
	arrived   chan string
	answer    chan struct{}
	answerAll func()
}

func newFakeAPIServer(t *testing.T) *fakeAPIServer {
	s := &fakeAPIServer{arrived: make(chan string, 100), answer: make(chan struct{})}
	s.answerAll = sync.OnceFunc(func() { close(s.answer) })
	t.Cleanup(s.answerAll)
	return s
}

func (s *fakeAPIServer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.arrived <- r.Method
	<-s.answer
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}

// send sends a request through a fence.
func (s *fakeAPIServer) send(f *fence, method string) error {
	request, err := http.NewRequest(method, "http://server", strings.NewReader("{}"))
	if err != nil {
		return err
	}
	response, err := f.wrapTransport(s).RoundTrip(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// otherSchedulerPod is a pod of the stock scheduler.
func otherSchedulerPod(name, node string, phase corev1.PodPhase) *builder.PodBuilder {
	return builder.Pod("ns", name).Label("app", "volcano-scheduler").Node(node).Phase(phase)
}

// otherSchedulersFixture is an OtherSchedulers whose API server answers lists with the error in
// trouble, if there is one.
type otherSchedulersFixture struct {
	*OtherSchedulers
	client  *fake.Clientset
	trouble atomic.Pointer[error]
	events  *record.FakeRecorder
}

func newOtherSchedulersFixture(pods ...*builder.PodBuilder) *otherSchedulersFixture {
	l := &otherSchedulersFixture{client: fake.NewClientset(), events: record.NewFakeRecorder(10)}
	for _, pod := range pods {
		_ = l.client.Tracker().Add(pod.Obj())
	}

	l.client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if trouble := l.trouble.Load(); trouble != nil {
			return true, nil, *trouble
		}
		return false, nil, nil
	})

	l.OtherSchedulers = NewOtherSchedulers(l.client, []string{"ns"}, labels.SelectorFromSet(labels.Set{"app": "volcano-scheduler"}), "own", l.events)
	return l
}

func (o *otherSchedulersFixture) addPod(g *WithT, pod *builder.PodBuilder) {
	_, err := o.client.CoreV1().Pods("ns").Create(context.Background(), pod.Obj(), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	time.Sleep(lookupInterval)
	synctest.Wait()
}

func (o *otherSchedulersFixture) deletePod(g *WithT, name string) {
	g.Expect(o.client.CoreV1().Pods("ns").Delete(context.Background(), name, metav1.DeleteOptions{})).To(Succeed())
	time.Sleep(lookupInterval)
	synctest.Wait()
}

// startWaiting runs waitUntilNone in the background.
func (o *otherSchedulersFixture) startWaiting(ctx context.Context) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- o.waitUntilNone(ctx) }()
	synctest.Wait()
	return ended
}

// electionFixture is an election under test.
type electionFixture struct {
	*otherSchedulersFixture
	// elect says whether there is a lease at all.
	elect bool
	// lead and beforeRelease are those of the election; both may be nil.
	lead          func(context.Context) error
	beforeRelease func(context.Context)
	// writeEnds is how long a write in flight takes at the end.
	writeEnds time.Duration
	fences    []*fence
	led       chan struct{}
	stop      context.CancelFunc
	ended     chan error
	// takenLease, once set, is the lease as the API server has it: another client took it.
	takenLease atomic.Pointer[coordinationv1.Lease]
}

func newElectionFixture(l *otherSchedulersFixture, existing ...*coordinationv1.Lease) *electionFixture {
	e := &electionFixture{otherSchedulersFixture: l, elect: true, writeEnds: 20 * time.Second, led: make(chan struct{}), ended: make(chan error, 1)}
	for _, lease := range existing {
		_ = e.client.Tracker().Add(lease)
	}

	// The fake API does not compare versions, while a real one answers a stale update with a conflict.
	e.client.PrependReactor("*", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		taken := e.takenLease.Load()
		switch {
		case taken == nil:
			return false, nil, nil
		case action.GetVerb() == "get":
			return true, taken.DeepCopy(), nil
		default:
			return true, nil, apierrors.NewConflict(coordinationv1.Resource("leases"), "lease", errors.New("changed"))
		}
	})
	return e
}

// election is one for the Lease ns/lease.
func (e *electionFixture) election() *election {
	e.fences = append(e.fences, newFence())
	const deadline = 40 * time.Second

	return &election{
		config: componentbaseconfig.LeaderElectionConfiguration{
			LeaderElect: e.elect, ResourceNamespace: "ns", ResourceName: "lease",
			LeaseDuration: metav1.Duration{Duration: deadline + e.writeEnds},
			RenewDeadline: metav1.Duration{Duration: deadline},
			RetryPeriod:   metav1.Duration{Duration: 2 * time.Second},
		},
		client: e.client, identity: "this process", fence: e.fence(), beforeRelease: e.beforeRelease,
		lead: func(term context.Context) error {
			close(e.led)
			if e.lead != nil {
				return e.lead(term)
			}
			<-term.Done()
			return nil
		},
	}
}

// fence is that of the newest election.
func (e *electionFixture) fence() *fence { return e.fences[len(e.fences)-1] }

// startElection runs one election until it is stopped.
func (e *electionFixture) startElection(t *testing.T) *electionFixture {
	return e.startFunc(t, e.election().run)
}

// startRunElections runs runElections in the background.
func (e *electionFixture) startRunElections(t *testing.T) *electionFixture {
	return e.startFunc(t, func(ctx context.Context) error { return runElections(ctx, e.OtherSchedulers, e.election) })
}

func (e *electionFixture) startFunc(t *testing.T, run func(context.Context) error) *electionFixture {
	ctx, stop := context.WithCancel(t.Context())
	e.stop = stop
	go func() { e.ended <- run(ctx) }()
	time.Sleep(lookupInterval)
	synctest.Wait()
	return e
}

// leads reports whether it has begun to lead.
func (e *electionFixture) leads() bool {
	select {
	case <-e.led:
		return true
	default:
		return false
	}
}

// holder is the holder of the lease, "" when it is free.
func (e *electionFixture) holder() string {
	lease, err := e.client.CoordinationV1().Leases("ns").Get(context.Background(), "lease", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func leaseOf(holder string) *coordinationv1.Lease {
	seconds := int32(3600)
	now := metav1.NowMicro()
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "lease"}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now,
	}}
}
