package e2e

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	api "cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
	kit "cardquota.dev/operator/test/framework"
	"cardquota.dev/operator/test/observer"
	"cardquota.dev/operator/test/observer/rule"
)

// testCluster is a cluster with both programs that runs scenes.
type testCluster struct {
	kit.Framework
	cluster    *cluster.Cluster
	deployment *deployment.Deployment
	// mappings are the cards that the policy names, for the observers.
	mappings []rule.Mapping

	mu     sync.Mutex
	asked  time.Time
	latest deployment.SessionStats
	failed error

	scraping sync.Mutex
	scraped  time.Time
	pages    observer.Pages
}

// suite is the cluster that most scenes share.
var suite struct {
	*testCluster
	root string
}

// programs run as shipped, but their leases expire soon after a crash.
var programs = deployment.Options{
	SchedulePeriod: 400 * time.Millisecond,
	SchedulerArgs: []string{
		"--leader-elect=true", "--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=6500ms", "--leader-elect-retry-period=500ms",
	},
	ManagerArgs:   []string{"--leader-elect=true"},
	SecureMetrics: true,
}

// apiServices is the kind of the APIs that other servers serve. While one of them does not answer, no
// namespace can be deleted.
var apiServices = schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}

// clusterVariable names the folder of a cluster that make e2e keeps running.
const clusterVariable = "E2E_CLUSTER"

func TestMain(m *testing.M) { check.Main(m, "e2e", setUp) }

func setUp(s *check.SetUp) {
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctrl.SetLogger(funcr.New(func(prefix, args string) { fmt.Println("e2e:", prefix, args) }, funcr.Options{}))
	began := time.Now()

	startSuite(ctx, s)

	// The first Ctrl-C ends the tests and stops the cluster.
	context.AfterFunc(ctx, func() {
		_ = suite.cluster.Stop()
		os.Exit(130)
	})

	fmt.Printf("e2e: cluster, operator and scheduler ready after %.1f s\n", time.Since(began).Seconds())
}

func startSuite(ctx context.Context, s *check.SetUp) {
	var err error
	var c *cluster.Cluster
	suite.root = check.Value(cluster.ModuleRoot())(s)
	dir := os.Getenv(clusterVariable)
	if dir == "" {
		c, err = cluster.Start(ctx, cluster.Options{Fleet: "testdata/fleet.yaml"})
	} else {
		c, err = cluster.Attach(ctx, dir)
	}

	check.NoError(s, err)
	s.Cleanup(c.Stop)
	suite.testCluster = check.Value(newTestCluster(c))(s)
	suite.deployment = check.Value(deployment.Start(ctx, c, programs))(s)
	if dir != "" {
		check.NoError(s, suite.removeLeftovers(ctx))
	}
}

func newTestCluster(c *cluster.Cluster) (*testCluster, error) {
	framework, err := kit.New(c.Config())
	return &testCluster{Framework: framework, cluster: c}, err
}

// startTestCluster starts a cluster for one test with the manifests of the programs, but without the
// programs. managerArgs are further flags of the operator.
func startTestCluster(t *testing.T, nodes []cluster.NodeProfile, configuration string, managerArgs ...string) *testCluster {
	g := NewWithT(check.Trail(t))
	c := check.Value(cluster.Start(t.Context(), cluster.Options{Nodes: nodes}))(t)
	t.Cleanup(func() { g.Expect(c.Stop()).To(Succeed()) })

	st := check.Value(newTestCluster(c))(t)

	options := programs
	options.Configuration = configuration
	options.ManagerArgs = slices.Concat(options.ManagerArgs, managerArgs)
	st.deployment = check.Value(deployment.Install(t.Context(), c, options))(t)

	return st
}

// startReclaimingCluster starts a cluster with both programs and two PriorityClasses. Its scheduler
// runs the given actions, with further texts of the shipped configuration replaced.
func startReclaimingCluster(t *testing.T, nodes []cluster.NodeProfile, actions string, replace ...string) *testCluster {
	g := NewWithT(check.Trail(t))
	const shipped = `"enqueue, allocate, backfill`
	configuration := check.Value(deployment.ShippedConfiguration(append(replace, shipped, shipped+", "+actions)...))(t)

	st := startTestCluster(t, nodes, configuration)
	for name, value := range map[string]int32{"pc-high": 80000, "pc-low": 20000} {
		g.Expect(st.Create(t.Context(), builder.PriorityClass(name, value))).To(Succeed())
	}

	g.Expect(st.deployment.StartManager(t.Context())).To(Succeed())
	g.Expect(st.deployment.StartScheduler(t.Context())).To(Succeed())

	return st
}

// sessionStats returns the scheduler's session statistics. Concurrent scenes share an answer.
func (st *testCluster) sessionStats(ctx context.Context) (deployment.SessionStats, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if time.Since(st.asked) > often {
		st.latest, st.failed = st.deployment.Sessions(ctx)
		st.asked = time.Now()
	}
	return st.latest, st.failed
}

// countSessions is how the observers of all scenes read the number of closed sessions.
func (st *testCluster) countSessions(ctx context.Context) (observer.SessionCount, error) {
	s, err := st.sessionStats(ctx)
	return observer.SessionCount{Process: s.PID, Closed: s.Closed, Decides: s.Deciding}, err
}

// scrapeTimeout bounds how long a program may take to answer.
const scrapeTimeout = 10 * time.Second

// metricsPages is how the observers of all scenes read the metrics of both programs. A program that
// does not run has an empty page. Concurrent scenes share an answer, so it does not end with the scene
// that asked.
func (st *testCluster) metricsPages(ctx context.Context) (observer.Pages, error) {
	st.scraping.Lock()
	defer st.scraping.Unlock()

	if time.Since(st.scraped) > often {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), scrapeTimeout)
		defer cancel()
		operator, operatorErr := st.deployment.ManagerMetrics(ctx)
		scheduler, schedulerErr := st.deployment.SchedulerMetrics(ctx)
		st.pages.Operator = observer.KeepPage(st.pages.Operator, pageOf(operator), operatorErr)
		st.pages.Scheduler = observer.KeepPage(st.pages.Scheduler, pageOf(scheduler), schedulerErr)
		st.scraped = time.Now()
	}

	return st.pages, nil
}

func pageOf(m deployment.ProgramMetrics) observer.Page {
	return observer.Page{Process: m.PID, Asked: m.Asked, Answered: m.Answered, Text: m.Page}
}

// TestASceneThatEndsReadsThePagesForOthers: scenes, the tests of this package, read the metrics of both programs. Those
// that run at the same time share a reading. A scene that ends while it reads must not fail the other scenes. So the
// reading does not end with the context of the scene, which has ended here.
func TestASceneThatEndsReadsThePagesForOthers(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	st := &testCluster{deployment: suite.deployment}
	NewWithT(check.Trail(t)).Eventually(func(g Gomega) {
		pages, err := st.metricsPages(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(pages.Operator.Text).NotTo(BeEmpty())
		g.Expect(pages.Scheduler.Text).NotTo(BeEmpty())
	}, time.Minute, often).Should(Succeed())
}

// removeLeftovers removes what interrupted scenes have left on a cluster that stays up.
func (st *testCluster) removeLeftovers(ctx context.Context) error {
	marked := client.HasLabels{sceneLabel}
	registrations := &unstructured.Unstructured{}
	registrations.SetGroupVersionKind(apiServices)
	for _, kind := range []client.Object{registrations, &api.CardQuota{}, &v1beta1.Queue{}, &schedulingv1.PriorityClass{}} {
		if err := st.DeleteAllOf(ctx, kind, marked); err != nil {
			return err
		}
	}

	namespaces := &corev1.NamespaceList{}
	if err := st.List(ctx, namespaces, marked); err != nil {
		return err
	}

	for i := range namespaces.Items { // they cannot be deleted together
		if err := client.IgnoreNotFound(st.Delete(ctx, &namespaces.Items[i])); err != nil {
			return err
		}
	}

	return wait.PollUntilContextTimeout(ctx, often, soon, true, func(ctx context.Context) (bool, error) {
		left := 0
		for _, list := range []client.ObjectList{&api.CardQuotaList{}, &v1beta1.QueueList{}, &corev1.NamespaceList{}} {
			if err := st.List(ctx, list, marked); err != nil {
				return false, err
			}
			left += meta.LenList(list)
		}
		return left == 0, nil
	})
}
