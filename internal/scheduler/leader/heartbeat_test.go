package leader

import (
	"errors"
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
	"cardquota.dev/operator/internal/testing/check"
)

// TestAHeartbeatIsDueAfterTwoSecondsOrAChange: after each session (scheduling cycle) the leader reports with
// which configuration it runs. It writes an unchanged report every 2 seconds, and a changed one at once. After
// a failed write it waits for 2 seconds, so that it does not burden an API server in trouble. The last report
// has configuration "a".
func TestAHeartbeatIsDueAfterTwoSecondsOrAChange(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	report := func(hash string, after time.Duration) enforcement.Report {
		return enforcement.Report{Identity: "i", Version: "v", ConfigHash: hash, At: noon.Add(after)}
	}

	last := report("a", 0)
	for t, tc := range check.Cases(t, map[string]struct {
		report     enforcement.Report
		last       *enforcement.Report
		lastFailed bool
		wantDue    bool
	}{
		"the first report":                                {report: report("a", 0), wantDue: true},
		"the same report after a second":                  {report: report("a", time.Second), last: &last},
		"the same report after 2 seconds":                 {report: report("a", 2*time.Second), last: &last, wantDue: true},
		"another configuration after a millisecond":       {report: report("b", time.Millisecond), last: &last, wantDue: true},
		"another configuration, a second after a failure": {report: report("b", time.Second), last: &last, lastFailed: true},
		"the same report, 2 seconds after a failure":      {report: report("a", 2*time.Second), last: &last, lastFailed: true, wantDue: true},
	}) {
		check.Equal(t, "due", tc.wantDue, isDue(tc.report, tc.last, tc.lastFailed))
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

// TestHeartbeatReportsTheConfigurationOfTheSession: the heartbeat states the hash of the configuration with which a
// session (scheduling cycle) ran, and pods that another scheduler bound. A problem is reported at once, here a
// millisecond or a second after the first report. A problem of the text comes before one that the plugin found in its
// arguments. A session whose arguments are invalid has no hash. Labels that other clients write on the Lease stay.
func TestHeartbeatReportsTheConfigurationOfTheSession(t *testing.T) {
	g := NewWithT(check.Trail(t))
	heartbeat := newHeartbeatFixture()
	heartbeat.reportSession(t.Context(), &capacitycard.SessionReport{ConfigHash: "a", BoundByOthers: []string{"n/p"}, At: heartbeat.began})
	g.Expect(heartbeat.writtenReport()).To(Equal(enforcement.Report{
		Identity: "host_uid", Version: "v0.0.0-dev", ConfigHash: "a", SecondScheduler: []string{"n/p"}, At: heartbeat.began.Truncate(time.Microsecond),
	}))

	check.Value(heartbeat.client.CoordinationV1().Leases("ns").Patch(t.Context(), enforcement.LeaseName, "application/merge-patch+json", []byte(`{"metadata":{"labels":{"team":"infra"}}}`), metav1.PatchOptions{}))(t)

	heartbeat.lease = nil // it lacks the label; a real API server would answer its update with a conflict
	heartbeat.faulty.Store("the text is bad")
	session := heartbeat.session("a", time.Millisecond)
	session.Problem = "an argument is bad"
	heartbeat.reportSession(t.Context(), &session)
	g.Expect(heartbeat.writtenReport()).To(HaveField("ConfigProblem", "the text is bad"))

	heartbeat.faulty.Store("")
	session = heartbeat.session("", time.Second)
	session.Problem = "an argument is bad"
	heartbeat.reportSession(t.Context(), &session)
	g.Expect(heartbeat.writtenReport()).To(And(HaveField("ConfigProblem", "an argument is bad"), HaveField("ConfigHash", "")))

	lease := check.Value(heartbeat.client.CoordinationV1().Leases("ns").Get(t.Context(), enforcement.LeaseName, metav1.GetOptions{}))(t)
	g.Expect(lease.Labels).To(HaveKeyWithValue("team", "infra"))
}

// TestHeartbeatNeverBlocksASessionAndWritesTheNewestReport: the API server does not answer the first write of a
// heartbeat. Four sessions end meanwhile, and none waits. When the answer comes, the report of the newest session is
// written, and the reports of the three before it are dropped: 2 writes. Without another session there is no further
// heartbeat.
func TestHeartbeatNeverBlocksASessionAndWritesTheNewestReport(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g *WithT) {
		heartbeat := newHeartbeatFixture()
		arrived := make(chan struct{})
		answer := make(chan struct{})
		heartbeat.client.PrependReactor("create", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			close(arrived)
			<-answer
			return false, nil, nil
		})

		go heartbeat.run(t.Context())
		heartbeat.observeSession(heartbeat.session("first", 0))
		<-arrived

		for i, hash := range []string{"b", "c", "d", "newest"} {
			heartbeat.observeSession(heartbeat.session(hash, time.Duration(i+1)*time.Second)) // returns although a write is in flight
		}

		close(answer)
		synctest.Wait()
		before := check.Value(heartbeat.writtenReport())(t)
		g.Expect(before.ConfigHash).To(Equal("newest"))

		time.Sleep(long)
		g.Expect(heartbeat.writtenReport()).To(Equal(before))
		g.Expect(heartbeat.countWrites()).To(Equal(2))
	})
}

// TestHeartbeatIsWrittenAgainAfterFailures: the heartbeat must reach the API server in spite of failures. A
// session with another configuration is reported at once, here after a millisecond. But after a failure the
// heartbeat waits for the first session that is 2 seconds later (heartbeatInterval). A write that ends in a
// conflict, because another client changed the Lease, is repeated at once. A Lease that another client
// deleted is created again.
func TestHeartbeatIsWrittenAgainAfterFailures(t *testing.T) {
	g := NewWithT(check.Trail(t))
	heartbeat := newHeartbeatFixture()
	failing := map[string]error{}
	heartbeat.client.PrependReactor("*", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		err := failing[action.GetVerb()]
		if apierrors.IsConflict(err) {
			delete(failing, action.GetVerb())
		}
		return err != nil, nil, err
	})

	// reportAfter reports a session with a configuration some time after the last one, and returns the configuration
	// in the Lease.
	at := time.Duration(0)
	reportAfter := func(passed time.Duration, hash string) string {
		at += passed
		session := heartbeat.session(hash, at)
		heartbeat.reportSession(t.Context(), &session)
		written, _ := heartbeat.writtenReport()
		return written.ConfigHash
	}

	for _, verb := range []string{"get", "create"} {
		failing[verb] = errors.New("not now")
		g.Expect(reportAfter(heartbeatInterval, "a")).To(BeEmpty(), "a failure to "+verb+" the Lease")
		delete(failing, verb)
	}
	tries := heartbeat.countWrites()
	g.Expect(reportAfter(time.Millisecond, "b")).To(BeEmpty(), "too early after a failure")
	g.Expect(heartbeat.countWrites()).To(Equal(tries))
	g.Expect(reportAfter(heartbeatInterval, "a")).To(Equal("a"))

	failing["update"] = apierrors.NewConflict(coordinationv1.Resource("leases"), enforcement.LeaseName, errors.New("changed"))
	g.Expect(reportAfter(time.Millisecond, "b")).To(Equal("b"), "another client changed the Lease")
	g.Expect(heartbeat.client.Tracker().Delete(leaseResource, "ns", enforcement.LeaseName)).To(Succeed())
	g.Expect(reportAfter(heartbeatInterval, "b")).To(Equal("b"), "another client deleted the Lease")

	failing["update"] = errors.New("not now")
	g.Expect(reportAfter(time.Millisecond, "c")).To(Equal("b"), "a failure to update the Lease")
	delete(failing, "update")
	g.Expect(reportAfter(heartbeatInterval, "c")).To(Equal("c"))
}

// TestOnlyTheLeaderWritesHeartbeats: heartbeats pass the same fence as all writes of the scheduler. So a process that
// does not have the Lease reads the heartbeat, but writes none.
func TestOnlyTheLeaderWritesHeartbeats(t *testing.T) {
	g := NewWithT(check.Trail(t))
	var reads, writes atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			reads.Add(1)
		} else {
			writes.Add(1)
		}
		w.WriteHeader(http.StatusNotFound) // there is no Lease, so a heartbeat creates one
	}))
	t.Cleanup(server.Close)

	fence := newFence()
	config := &rest.Config{Host: server.URL}
	config.Wrap(fence.wrapTransport)
	heartbeat := newHeartbeatWriter(check.Value(newHeartbeatClient(config, "ns"))(t), "ns", "i", func() string { return "" })
	heartbeat.reportSession(t.Context(), &capacitycard.SessionReport{At: time.Now()})
	g.Expect(reads.Load()).To(BeNumerically(">", 0))
	g.Expect(writes.Load()).To(BeZero())

	fence.extend(time.Now().Add(time.Hour)) // the process has the Lease now
	heartbeat.reportSession(t.Context(), &capacitycard.SessionReport{At: time.Now().Add(heartbeatInterval)})
	g.Expect(writes.Load()).To(BeNumerically(">", 0))
}

// TestAStoppedSchedulerEndsOnlyItsOwnHeartbeat: the final heartbeat says that the scheduler has ended, so that
// the operator need not wait until it is stale. It is written only while the Lease has the heartbeat of this
// process. A write that ends in a conflict is repeated. Without a heartbeat there is nothing to end.
func TestAStoppedSchedulerEndsOnlyItsOwnHeartbeat(t *testing.T) {
	g := NewWithT(check.Trail(t))
	heartbeat := newHeartbeatFixture()
	g.Expect(writeFinalHeartbeat(t.Context(), heartbeat.leases, heartbeat.identity)).To(Succeed(), "there is no heartbeat")
	g.Expect(heartbeat.countWrites()).To(BeZero())

	heartbeat.reportSession(t.Context(), &capacitycard.SessionReport{ConfigHash: "a", At: heartbeat.began})
	before := heartbeat.countWrites()
	g.Expect(writeFinalHeartbeat(t.Context(), heartbeat.leases, "another")).To(Succeed())
	g.Expect(heartbeat.countWrites()).To(Equal(before), "the heartbeat of another process stays")

	conflicts := 1
	heartbeat.client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		conflicts--
		return conflicts >= 0, nil, apierrors.NewConflict(coordinationv1.Resource("leases"), enforcement.LeaseName, errors.New("changed"))
	})

	g.Expect(writeFinalHeartbeat(t.Context(), heartbeat.leases, heartbeat.identity)).To(Succeed())
	g.Expect(heartbeat.writtenReport()).To(Equal(enforcement.Report{
		Identity: "host_uid", Version: "v0.0.0-dev", ConfigHash: "a", At: heartbeat.began.Truncate(time.Microsecond), Ended: true,
	}))
}
