package monitoring

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
	"cardquota.dev/operator/test/framework"
)

// The cards of the fleet.
const (
	h200    = "NVIDIA-H200"
	rtx4090 = "NVIDIA-GeForce-RTX-4090"
)

// The nodes have eight cards each.
const (
	cardsPerNode = 8
	h200Nodes    = 6
	rtx4090Nodes = 2
)

// namespace is that of the workloads, and monitoring that of Prometheus.
const (
	namespace  = "work"
	monitoring = "monitoring"
)

// Env is a cluster with both programs, scraped by Prometheus.
type Env struct {
	framework.Framework
	Prometheus *Prometheus
	// Rules are the alerts that Prometheus evaluates.
	Rules []Rule
	// Root is the project's folder.
	Root string

	cluster  *cluster.Cluster
	programs *deployment.Deployment
	// zone is where days are billed. It is about noon there.
	zone *time.Location
	// bypass is when the pod began and ended that bypasses the scheduler.
	bypass struct{ began, ended time.Time }
}

// Start starts a cluster, Prometheus and the operator. The day starts the scheduler.
func Start(ctx context.Context, interval time.Duration) (e *Env, err error) {
	e = &Env{}
	// POSIX names the hours west of Greenwich.
	e.zone, err = time.LoadLocation(fmt.Sprintf("Etc/GMT%+d", time.Now().UTC().Hour()-12))
	if err != nil {
		return nil, err
	}

	e.Root, err = cluster.ModuleRoot()
	if err != nil {
		return nil, err
	}

	program, err := programPath(e.Root)
	if err != nil {
		return nil, err
	}

	e.cluster, err = cluster.Start(ctx, cluster.Options{Nodes: fleet()})
	if err != nil {
		return nil, err
	}
	if err := e.startPrograms(ctx, program, interval); err != nil {
		return nil, errors.Join(err, e.Stop())
	}

	return e, nil
}

// Stop stops everything.
func (e *Env) Stop() error { return e.cluster.Stop() }

func fleet() []cluster.NodeProfile {
	nodes := func(name, model, memory string, count int) cluster.NodeProfile {
		allocatable := builder.Resources("192", "2Ti")
		allocatable[builder.GPU] = *resource.NewQuantity(cardsPerNode, resource.DecimalSI)
		return cluster.NodeProfile{Name: name, Count: count, Allocatable: allocatable, Labels: map[string]string{
			"nvidia.com/gpu.product": model, "nvidia.com/gpu.memory": memory, "nvidia.com/gpu.count": "8", "nvidia.com/gpu.replicas": "1",
		}}
	}
	return []cluster.NodeProfile{nodes("h200", h200, "143771", h200Nodes), nodes("rtx4090", rtx4090, "24564", rtx4090Nodes)}
}

func (e *Env) startPrograms(ctx context.Context, program string, interval time.Duration) (err error) {
	e.Framework, err = framework.New(e.cluster.Config())
	if err != nil {
		return err
	}

	s := scrape{interval: interval}
	for _, address := range []*string{&s.manager, &s.scheduler} {
		*address, err = cluster.FreeAddress()
		if err != nil {
			return err
		}
	}

	e.programs, err = deployment.Install(ctx, e.cluster, deployment.Options{
		SchedulePeriod: 500 * time.Millisecond,
		ManagerArgs:    []string{"--metrics-bind-address=" + s.manager, "--secure-metrics", "--leader-elect=true"},
		SchedulerArgs:  []string{"--listen-address=" + s.scheduler, "--secure-metrics=true"},
	})
	if err != nil {
		return err
	}

	s.token, err = e.createReader(ctx)
	if err != nil {
		return err
	}

	s.rules, e.Rules, err = readRules(e.Root)
	if err != nil {
		return err
	}

	e.Prometheus, err = startPrometheus(ctx, e.cluster, program, s)
	if err != nil {
		return err
	}

	return e.programs.StartManager(ctx)
}

// createReader creates the namespaces, and Prometheus' ServiceAccount with the right to read
// metrics. It returns a token.
func (e *Env) createReader(ctx context.Context) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: monitoring, Name: "prometheus"}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "prometheus-cardquota"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cardquota-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
	}
	if err := e.create(ctx, builder.Namespace(namespace), builder.Namespace(monitoring), account, binding); err != nil {
		return "", err
	}

	request := &authenticationv1.TokenRequest{}
	if err := e.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("token of Prometheus: %w", err)
	}

	return request.Status.Token, nil
}

func (e *Env) create(ctx context.Context, objects ...client.Object) error {
	for _, object := range objects {
		if err := e.Create(ctx, object); err != nil {
			return fmt.Errorf("create %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

// awaitOpen waits until queues are open.
func (e *Env) awaitOpen(ctx context.Context, names ...string) error {
	for _, name := range names {
		queue := &v1beta1.Queue{}
		err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, awaitTimeout, true, func(ctx context.Context) (bool, error) {
			err := e.Get(ctx, client.ObjectKey{Name: name}, queue)
			return queue.Status.State == v1beta1.QueueStateOpen, client.IgnoreNotFound(err)
		})
		if err != nil {
			return fmt.Errorf("queue %s is %q, not Open: %w", name, queue.Status.State, err)
		}
	}
	return nil
}

// stopManager stops the operator, which stores its card-seconds.
func stopManager(ctx context.Context, e *Env) error {
	if err := e.programs.Manager.Stop(); err != nil {
		return err
	}
	// Nothing else leads then.
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: managerJob}}
	return e.setLeader(ctx, lease, "another-replica")
}

// stopAndDropDay stops the operator, and lets its bills say that yesterday was dropped for lack of room.
func stopAndDropDay(ctx context.Context, e *Env) error {
	if err := stopManager(ctx, e); err != nil {
		return err
	}
	bills := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: "cardquota-card-seconds-0"}}
	if err := e.Get(ctx, client.ObjectKeyFromObject(bills), bills); err != nil {
		return fmt.Errorf("bills: %w", err)
	}

	yesterday := time.Now().UTC().AddDate(0, 0, -1).Format("2006-01-02")
	bills.Data["card-seconds"] = strings.Replace(bills.Data["card-seconds"], `,"timeZone"`, fmt.Sprintf(`,"daysDropped":%q,"lackedRoom":true,"timeZone"`, yesterday), 1)
	if err := e.Update(ctx, bills); err != nil {
		return fmt.Errorf("bills: %w", err)
	}

	return nil
}

// letLead ends the lease of the other replica.
func letLead(ctx context.Context, e *Env) error {
	return e.setLeader(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: managerJob}}, "")
}

func (e *Env) setLeader(ctx context.Context, lease *coordinationv1.Lease, holder string) error {
	patch := fmt.Sprintf(`{"spec":{"holderIdentity":%q,"leaseDurationSeconds":60,"renewTime":%q}}`, holder, time.Now().UTC().Format(metav1.RFC3339Micro))
	if err := e.Patch(ctx, lease, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		return fmt.Errorf("lease of the operator: %w", err)
	}
	return nil
}
