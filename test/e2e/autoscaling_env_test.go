package e2e

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/gomega"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/internal/cli"
	"cardquota.dev/operator/internal/scheduler/simulator"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
)

// The metric that the test serves, and its API, which autoscalers read.
const (
	loadMetric     = "requests-in-flight"
	metricsGroup   = "external.metrics.k8s.io"
	metricsVersion = "v1beta1"
	// loadPerPod is how much load a pod takes.
	loadPerPod = 10
)

// loadServer serves one metric to the API server, as an adapter of Prometheus does.
type loadServer struct {
	value atomic.Int64
}

// set sets the load to what a number of pods takes.
func (l *loadServer) set(pods int) { l.value.Store(int64(pods * loadPerPod)) }

func (l *loadServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const api = "/apis/" + metricsGroup + "/" + metricsVersion
	var body string
	switch {
	case r.URL.Path == api:
		body = fmt.Sprintf(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"%s/%s","resources":[]}`, metricsGroup, metricsVersion)
	case strings.HasPrefix(r.URL.Path, api+"/namespaces/") && strings.HasSuffix(r.URL.Path, "/"+loadMetric):
		body = fmt.Sprintf(`{"kind":"ExternalMetricValueList","apiVersion":"%s/%s","metadata":{},"items":[{"metricName":%q,"metricLabels":{},"timestamp":%q,"value":"%d"}]}`,
			metricsGroup, metricsVersion, loadMetric, time.Now().UTC().Format(time.RFC3339), l.value.Load())
	default:
		http.NotFound(w, r)
		return
	}

	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(body)) // a client that left reads nothing
}

// serveLoad serves a metric under the API of external metrics until the end of the scene.
func (s *scene) serveLoad() *loadServer {
	address := check.Value(cluster.ServiceAddress())(s)
	port := check.Value(cluster.FreePort())(s)
	listener := check.Value(net.Listen("tcp", net.JoinHostPort(address, fmt.Sprint(port))))(s)

	load := &loadServer{}
	server := httptest.NewUnstartedServer(load)
	s.Expect(server.Listener.Close()).To(Succeed())
	server.Listener = listener
	server.StartTLS()
	s.Cleanup(server.Close)

	s.registerMetrics(port)
	return load
}

// registerMetrics lets the API server forward the API of external metrics to a port of this process.
func (s *scene) registerMetrics(port int) {
	const (
		service     = "metrics"
		servicePort = 443
	)

	s.createObjects(&corev1.Service{ObjectMeta: s.objectMeta(service), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: servicePort}}}})
	s.Expect(s.cluster.ExposeService(s.ctx, s.namespace, service, port)).To(Succeed())

	registration := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"group": metricsGroup, "version": metricsVersion, "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
		"service":               map[string]any{"namespace": s.namespace, "name": service, "port": int64(servicePort)},
		"insecureSkipTLSVerify": true, // the server's certificate is for another name
	}}}

	registration.SetGroupVersionKind(apiServices)
	registration.SetName(metricsVersion + "." + metricsGroup)
	s.createObjects(registration)
}

// createAutoscaler lets an autoscaler follow the load with the replicas of a Deployment, without delay.
func (s *scene) createAutoscaler(deployment string, most int32) {
	atOnce := &autoscalingv2.HPAScalingRules{
		StabilizationWindowSeconds: ptr.To[int32](0),
		Policies:                   []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy, Value: 100, PeriodSeconds: 1}},
	}

	s.createObjects(&autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: s.objectMeta(deployment),
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: deployment},
			MinReplicas:    ptr.To[int32](1), MaxReplicas: most,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
				Metric: autoscalingv2.MetricIdentifier{Name: loadMetric},
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: resource.NewQuantity(loadPerPod, resource.DecimalSI)},
			}}},
			Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: atOnce, ScaleDown: atOnce},
		},
	})
}

// askWhy returns what kubectl cardquota why answers about a workload, and its exit code.
func (s *scene) askWhy(workload string) (text string, code int) {
	var out bytes.Buffer
	code = cli.Run(s.ctx, []string{"kubectl-cardquota", "why", workload, "--kubeconfig", s.cluster.Kubeconfig(), "-n", s.namespace},
		genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out}, simulator.New())
	return out.String(), code
}
