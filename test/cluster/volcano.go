package cluster

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// VolcanoNamespace is the namespace of Volcano and of our programs.
const VolcanoNamespace = "volcano-system"

// admissionPaths are the webhooks that Volcano's installer enables. The webhook manager waits
// forever for a path without a webhook configuration.
const admissionPaths = "/jobs/mutate,/jobs/validate,/podgroups/validate,/queues/mutate,/queues/validate,/hypernodes/validate,/cronjobs/validate"

var (
	crdResource   = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	queueResource = schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "queues"}
	documentKind  = regexp.MustCompile(`(?m)^kind:[ \t]*(\S+)`)
)

// StockScheduler returns the Deployment of Volcano's own scheduler from its installer.
func (c *Cluster) StockScheduler() (*appsv1.Deployment, error) {
	objects, err := c.installerObjects("Deployment")
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		if object.GetName() == "volcano-scheduler" {
			deployment := &appsv1.Deployment{}
			return deployment, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, deployment)
		}
	}
	return nil, errors.New("volcano: the installer has no Deployment volcano-scheduler")
}

// startVolcano installs Volcano's CRDs and rights, and starts its controllers and webhooks
// under the ServiceAccounts of its installer.
func (c *Cluster) startVolcano(ctx context.Context) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.createCRDs(groupCtx) })
	group.Go(func() error {
		// Volcano's programs are processes here. So its Deployments, their Services and the
		// certificate Job are not applied. The CRDs come from their own folder.
		objects, err := c.installerObjects("Namespace", "ServiceAccount", "ConfigMap", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
		if err != nil {
			return err
		}
		return c.applyAll(groupCtx, objects)
	})

	if err := group.Wait(); err != nil {
		return fmt.Errorf("volcano: %w", err)
	}
	webhooks, err := c.installerObjects("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
	if err != nil {
		return err
	}

	group, groupCtx = errgroup.WithContext(ctx)
	group.Go(func() error { return c.startVolcanoControllers(groupCtx) })
	group.Go(func() error { return c.startVolcanoWebhooks(groupCtx, webhooks) })
	return group.Wait()
}

// installerObjects returns the objects of some kinds in Volcano's installer.
func (c *Cluster) installerObjects(kinds ...string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(c.binaryPath("volcano/install.yaml"))
	if err != nil {
		return nil, fmt.Errorf("volcano: %w", err)
	}

	objects, err := decodeObjects(text, func(document []byte) bool {
		match := documentKind.FindSubmatch(document)
		return match != nil && slices.Contains(kinds, string(match[1]))
	})
	if err != nil {
		return nil, fmt.Errorf("volcano: %w", err)
	}

	return objects, nil
}

// StockConfiguration is the scheduler configuration of Volcano's installer.
const StockConfiguration = `actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
`

// StartStockScheduler starts Volcano's own scheduler with a configuration, under its own
// ServiceAccount and without leader election.
func (c *Cluster) StartStockScheduler(ctx context.Context, configuration string, args ...string) (*Process, error) {
	kubeconfig, err := c.KubeconfigFor(ctx, VolcanoNamespace, "volcano-scheduler")
	if err != nil {
		return nil, err
	}

	file, err := c.writeFile("stock-scheduler.conf", []byte(configuration))
	if err != nil {
		return nil, err
	}

	return c.StartProcess(ctx, ProcessSpec{
		Name: "stock-scheduler", Path: c.binaryPath("scheduler"),
		Args: append([]string{"--kubeconfig=" + kubeconfig, "--scheduler-conf=" + file, "--leader-elect=false"}, args...),
		Env:  []string{"DEBUG_SOCKET_DIR=" + filepath.Join(c.Dir(), "sockets")},
	})
}

// createCRDs creates Volcano's CRDs and waits until the apiserver serves them.
func (c *Cluster) createCRDs(ctx context.Context) error {
	files, err := filepath.Glob(c.binaryPath("volcano/crds/*.yaml"))
	if err != nil {
		return err
	}

	group, ctx := errgroup.WithContext(ctx)
	for _, file := range files {
		group.Go(func() error {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}

			objects, err := Decode(text)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}

			for _, crd := range objects {
				if err := c.createCRD(ctx, crd); err != nil {
					return err
				}
			}

			return nil
		})
	}

	return group.Wait()
}

func (c *Cluster) createCRD(ctx context.Context, crd *unstructured.Unstructured) error {
	crds := c.dynamic.Resource(crdResource)
	if _, err := crds.Create(ctx, crd, metav1.CreateOptions{FieldManager: fieldManager}); err != nil {
		return fmt.Errorf("create CRD %s: %w", crd.GetName(), err)
	}

	return waitUntilReady(ctx, "CRD "+crd.GetName(), nil, func(ctx context.Context) error {
		live, err := crds.Get(ctx, crd.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
		for _, condition := range conditions {
			if m, ok := condition.(map[string]any); ok && m["type"] == "Established" && m["status"] == "True" {
				return nil
			}
		}
		return errors.New("not established")
	})
}

func (c *Cluster) startVolcanoControllers(ctx context.Context) error {
	kubeconfig, err := c.KubeconfigFor(ctx, VolcanoNamespace, "volcano-controllers")
	if err != nil {
		return err
	}

	health, err := FreeAddress()
	if err != nil {
		return err
	}

	_, err = c.StartProcess(ctx, ProcessSpec{
		Name: volcanoControllers, Path: c.binaryPath("controller-manager"), component: true,
		Args: []string{
			"--kubeconfig=" + kubeconfig, "--logtostderr", "-v=2",
			"--leader-elect=false", "--kube-api-qps=500", "--kube-api-burst=1000",
			"--worker-threads=8", "--worker-threads-for-gc=5", "--worker-threads-for-podgroup=8",
			"--enable-healthz=true", "--healthz-address=" + health,
		},
		Env:   []string{"KUBE_POD_NAMESPACE=" + VolcanoNamespace, "HELM_RELEASE_NAME=volcano", rareGCEnv},
		Ready: HTTPProbe("http://" + health + "/healthz"),
	})

	return err
}

// Names of Volcano's programs.
const (
	volcanoControllers = "volcano-controllers"
	volcanoAdmission   = "volcano-admission"
)

// KillVolcano kills Volcano's controllers and webhooks, like a crash of both. The returned
// function starts them again, as they were, and waits until they are ready.
func (c *Cluster) KillVolcano() (restart func(context.Context) error, err error) {
	var killed []*Process
	for _, name := range []string{volcanoControllers, volcanoAdmission} {
		p := c.lastProcess(name)
		if p == nil {
			return nil, fmt.Errorf("this process runs no %s", name)
		}
		p.Kill()
		killed = append(killed, p)
	}

	return func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		for _, p := range killed {
			group.Go(func() error {
				_, err := c.StartProcess(ctx, p.spec)
				return err
			})
		}
		return group.Wait()
	}, nil
}

// startVolcanoWebhooks registers Volcano's webhooks by URL and starts the server behind
// them. It is ready when the apiserver refuses a Queue with an unknown parent.
func (c *Cluster) startVolcanoWebhooks(ctx context.Context, configurations []*unstructured.Unstructured) error {
	kubeconfig, err := c.KubeconfigFor(ctx, VolcanoNamespace, "volcano-admission")
	if err != nil {
		return err
	}

	serving, err := c.ca.issueServingCert("volcano-admission", "127.0.0.1")
	if err != nil {
		return err
	}

	port, err := FreePort()
	if err != nil {
		return err
	}

	url := fmt.Sprintf("https://127.0.0.1:%d", port)
	if err := c.registerWebhooks(ctx, configurations, url); err != nil {
		return err
	}

	_, err = c.StartProcess(ctx, ProcessSpec{
		Name: volcanoAdmission, Path: c.binaryPath("webhook-manager"), component: true,
		Args: []string{
			"--kubeconfig=" + kubeconfig, "--logtostderr", "-v=2",
			"--enabled-admission=" + admissionPaths,
			"--webhook-url=" + url, "--listen-address=127.0.0.1", "--port=" + strconv.Itoa(port),
			"--tls-cert-file=" + serving.cert, "--tls-private-key-file=" + serving.key,
			"--ca-cert-file=" + c.caFile(), "--graceful-shutdown-time=2s",
		},
		Ready: c.checkQueueWebhook,
	})

	return err
}

// registerWebhooks applies the installer's configurations, with a URL in place of the
// Service: that is where the process listens.
func (c *Cluster) registerWebhooks(ctx context.Context, configurations []*unstructured.Unstructured, base string) error {
	caBundle := base64.StdEncoding.EncodeToString(c.ca.pem)
	for _, configuration := range configurations {
		for _, webhook := range configuration.Object["webhooks"].([]any) {
			fields := webhook.(map[string]any)
			path, found, err := unstructured.NestedString(fields, "clientConfig", "service", "path")
			if err != nil || !found {
				return fmt.Errorf("webhook %v has no service path (%w)", fields["name"], err)
			}
			fields["clientConfig"] = map[string]any{"url": base + path, "caBundle": caBundle}
		}
	}

	return c.applyAll(ctx, configurations)
}

// checkQueueWebhook is a probe of the complete path from the apiserver to Volcano's webhook.
func (c *Cluster) checkQueueWebhook(ctx context.Context) error {
	queue := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
		"metadata": map[string]any{"name": "readiness-probe"},
		"spec":     map[string]any{"parent": "no-such-queue"},
	}}

	_, err := c.dynamic.Resource(queueResource).Create(ctx, queue, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil:
		return errors.New("a queue with an unknown parent was accepted")
	case apierrors.IsForbidden(err) || strings.Contains(err.Error(), "denied the request"):
		return nil
	default:
		return err
	}
}

// IsStaleAdmissionCache reports whether an error is the denial of an admission plugin that has
// not yet seen a queue or a PriorityClass. Each plugin has its own cache: Volcano's webhooks of
// Queues, the API server of PriorityClasses.
func IsStaleAdmissionCache(err error) bool {
	denials := []string{"to queue with state", "unable to find queue", "unable to find job queue", "no PriorityClass with name"}
	return err != nil && slices.ContainsFunc(denials, func(words string) bool { return strings.Contains(err.Error(), words) })
}
