package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/scheduler/configloader"
	"cardquota.dev/operator/internal/testing/check"
)

func TestWhenAHeartbeatIsDue(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	report := func(hash string, after time.Duration) enforcement.Report {
		return enforcement.Report{Identity: "i", Version: "v", ConfigHash: hash, At: noon.Add(after)}
	}

	last := report("a", 0)
	for t, tc := range check.Cases(t, map[string]struct {
		report enforcement.Report
		last   *enforcement.Report
		failed bool
		want   bool
	}{
		"the first":                       {report("a", 0), nil, false, true},
		"the same after a second":         {report("a", time.Second), &last, false, false},
		"the same after two":              {report("a", 2*time.Second), &last, false, true},
		"another at once":                 {report("b", time.Millisecond), &last, false, true},
		"another at once after a failure": {report("b", time.Second), &last, true, false},
		"the failed one after two":        {report("a", 2*time.Second), &last, true, true},
	}) {
		check.Equal(t, "due", tc.want, isDue(tc.report, tc.last, tc.failed))
	}
}

func TestConfigProblem(t *testing.T) {
	for reason, want := range map[string]string{
		configloader.ReasonLoaded: "", configloader.ReasonRejected: "m", configloader.ReasonMissing: "m", configloader.ReasonNotWritten: "m", configloader.ReasonNotConfigured: "m",
	} {
		check.Equal(t, fmt.Sprintf("%s: problem", reason), want, configProblemOf(configloader.Status{Reason: reason, Message: "m"}))
	}
}

var leaseResource = coordinationv1.SchemeGroupVersion.WithResource("leases")

// heartbeatFixture is a heartbeatWriter under test.
type heartbeatFixture struct {
	*heartbeatWriter
	client *fake.Clientset
	began  time.Time
	// faulty is what is wrong with the configuration.
	faulty atomic.Value
}

func newHeartbeatFixture() *heartbeatFixture {
	b := &heartbeatFixture{client: fake.NewClientset(), began: time.Now()}
	b.faulty.Store("")
	b.heartbeatWriter = newHeartbeatWriter(b.client.CoordinationV1().Leases("ns"), "ns", "host_uid", func() string { return b.faulty.Load().(string) })
	return b
}

// session is a session with a hash that was closed so long after the beginning.
func (h *heartbeatFixture) session(hash string, after time.Duration) capacitycard.SessionReport {
	return capacitycard.SessionReport{ConfigHash: hash, At: h.began.Add(after)}
}

// writtenReport is what the Lease says.
func (h *heartbeatFixture) writtenReport() (enforcement.Report, error) {
	object, err := h.client.Tracker().Get(leaseResource, "ns", enforcement.LeaseName)
	if err != nil {
		return enforcement.Report{}, err
	}
	return enforcement.ReadReport(object.(*coordinationv1.Lease))
}

// countWrites counts the requests that write.
func (h *heartbeatFixture) countWrites() int {
	n := 0
	for _, action := range h.client.Actions() {
		if action.GetVerb() != "get" {
			n++
		}
	}
	return n
}

func TestHeartbeatReportsTheConfigurationOfTheSession(t *testing.T) {
	g := NewWithT(check.Trail(t))
	b := newHeartbeatFixture()
	b.reportSession(t.Context(), &capacitycard.SessionReport{ConfigHash: "a", BoundByOthers: []string{"n/p"}, At: b.began})
	g.Expect(b.writtenReport()).To(Equal(enforcement.Report{Identity: "host_uid", Version: "v0.0.0-dev", ConfigHash: "a", SecondScheduler: []string{"n/p"}, At: b.began.Truncate(time.Microsecond)}))

	// A change is said at once, and what others wrote on the Lease stays.
	check.Value(b.client.CoordinationV1().Leases("ns").Patch(t.Context(), enforcement.LeaseName, "application/merge-patch+json", []byte(`{"metadata":{"labels":{"team":"infra"}}}`), metav1.PatchOptions{}))(t)

	b.lease = nil // the API server would answer with a conflict
	b.faulty.Store("the text is bad")
	session := b.session("a", time.Millisecond)
	session.Problem = "an argument is bad"
	b.reportSession(t.Context(), &session)
	g.Expect(b.writtenReport()).To(HaveField("ConfigProblem", "the text is bad"))

	b.faulty.Store("")
	session = b.session("", time.Second)
	session.Problem = "an argument is bad"
	b.reportSession(t.Context(), &session)
	g.Expect(b.writtenReport()).To(And(HaveField("ConfigProblem", "an argument is bad"), HaveField("ConfigHash", "")))

	lease := check.Value(b.client.CoordinationV1().Leases("ns").Get(t.Context(), enforcement.LeaseName, metav1.GetOptions{}))(t)
	g.Expect(lease.Labels).To(HaveKeyWithValue("team", "infra"))
}

func TestHeartbeatNeverBlocksASessionAndWritesTheNewestReport(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g *WithT) {
		b := newHeartbeatFixture()
		arrived := make(chan struct{})
		answer := make(chan struct{})
		b.client.PrependReactor("create", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			close(arrived)
			<-answer
			return false, nil, nil
		})

		go b.run(t.Context())
		b.observeSession(b.session("first", 0))
		<-arrived

		for i, hash := range []string{"b", "c", "d", "newest"} {
			b.observeSession(b.session(hash, time.Duration(i+1)*time.Second)) // returns although a write is under way
		}

		close(answer)
		synctest.Wait()
		before := check.Value(b.writtenReport())(t)
		g.Expect(before.ConfigHash).To(Equal("newest"))

		time.Sleep(long)
		g.Expect(b.writtenReport()).To(Equal(before), "no session, no heartbeat")
		g.Expect(b.countWrites()).To(Equal(2), "those between are dropped")
	})
}

func TestHeartbeatIsWrittenAgainAfterFailures(t *testing.T) {
	g := NewWithT(check.Trail(t))
	b := newHeartbeatFixture()
	failing := map[string]error{}
	b.client.PrependReactor("*", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		err := failing[action.GetVerb()]
		if apierrors.IsConflict(err) {
			delete(failing, action.GetVerb())
		}
		return err != nil, nil, err
	})

	at := time.Duration(0)
	beat := func(hash string, after time.Duration) string {
		at += after
		session := b.session(hash, at)
		b.reportSession(t.Context(), &session)
		said, _ := b.writtenReport()
		return said.ConfigHash
	}

	for _, verb := range []string{"get", "create"} {
		failing[verb] = errors.New("not now")
		g.Expect(beat("a", heartbeatInterval)).To(BeEmpty())
		delete(failing, verb)
	}

	tries := b.countWrites()
	g.Expect(beat("b", time.Millisecond)).To(BeEmpty(), "tried again at once")
	g.Expect(b.countWrites()).To(Equal(tries))
	g.Expect(beat("a", heartbeatInterval)).To(Equal("a"))

	failing["update"] = apierrors.NewConflict(coordinationv1.Resource("leases"), enforcement.LeaseName, errors.New("changed"))
	g.Expect(beat("b", time.Millisecond)).To(Equal("b"), "another client changed the Lease")
	g.Expect(b.client.Tracker().Delete(leaseResource, "ns", enforcement.LeaseName)).To(Succeed())
	g.Expect(beat("b", heartbeatInterval)).To(Equal("b"), "another client deleted the Lease")

	failing["update"] = errors.New("not now")
	g.Expect(beat("c", time.Millisecond)).To(Equal("b"))
	delete(failing, "update")
	g.Expect(beat("c", heartbeatInterval)).To(Equal("c"))
}

// TestOnlyTheLeaderWritesHeartbeats: the fence refuses heartbeats as well.
func TestOnlyTheLeaderWritesHeartbeats(t *testing.T) {
	g := NewWithT(check.Trail(t))
	var asked, written atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			written.Add(1)
		}
		asked.Add(1)
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(server.Close)

	fence := newFence()
	config := &rest.Config{Host: server.URL}
	config.Wrap(fence.wrapTransport)
	client := check.Value(newHeartbeatClient(config, "ns"))(t)

	b := newHeartbeatWriter(client, "ns", "i", func() string { return "" })
	b.reportSession(t.Context(), &capacitycard.SessionReport{At: time.Now()})
	g.Expect(asked.Load()).To(BeNumerically(">", 0), "it is looked for")
	g.Expect(written.Load()).To(BeZero())

	fence.extend(time.Now().Add(time.Hour))
	b.reportSession(t.Context(), &capacitycard.SessionReport{At: time.Now().Add(heartbeatInterval)})
	g.Expect(written.Load()).To(BeNumerically(">", 0))
}

// TestTheLastHeartbeat: a scheduler that stops writes that into its own heartbeat only.
func TestTheLastHeartbeat(t *testing.T) {
	g := NewWithT(check.Trail(t))
	b := newHeartbeatFixture()
	g.Expect(writeFinalHeartbeat(t.Context(), b.leases, b.identity)).To(Succeed(), "there is none")
	g.Expect(b.countWrites()).To(BeZero())

	b.reportSession(t.Context(), &capacitycard.SessionReport{ConfigHash: "a", At: b.began})
	before := b.countWrites()

	g.Expect(writeFinalHeartbeat(t.Context(), b.leases, "another")).To(Succeed())
	g.Expect(b.countWrites()).To(Equal(before), "a successor's stays")

	conflicts := 1
	b.client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		conflicts--
		return conflicts >= 0, nil, apierrors.NewConflict(coordinationv1.Resource("leases"), enforcement.LeaseName, errors.New("changed"))
	})

	g.Expect(writeFinalHeartbeat(t.Context(), b.leases, b.identity)).To(Succeed())
	g.Expect(b.writtenReport()).To(Equal(enforcement.Report{
		Identity: "host_uid", Version: "v0.0.0-dev", ConfigHash: "a", At: b.began.Truncate(time.Microsecond), Ended: true,
	}))
}
