// Package realnode tests the real node of test/cluster: running containers, Services, cards
// from a kubelet, and a clean end.
package realnode

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/missing"
	"cardquota.dev/operator/test/cluster"
)

const (
	image = "localhost/responder:test"
	cards = 4
)

// startRealNode starts a cluster with a real node, or skips the test.
func startRealNode(t *testing.T, o cluster.Options) *cluster.Cluster {
	o.Log = testr.NewWithOptions(t, testr.Options{LogTimestamp: true})
	c, err := cluster.Start(t.Context(), o)
	if errors.Is(err, cluster.ErrNoRealNode) || errors.Is(err, cluster.ErrNotBuilt) {
		missing.Skip(t, err)
	}
	check.NoError(t, err)
	t.Cleanup(func() { check.NoError(t, c.Stop()) })
	return c
}

// cardNode returns a node with cards of a model.
func cardNode() *cluster.RealNode {
	return &cluster.RealNode{
		Labels: map[string]string{"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.memory": "143771"},
		Cards:  map[corev1.ResourceName]int{"nvidia.com/gpu": cards},
	}
}

func importResponder(t *testing.T, c *cluster.Cluster) {
	g := NewWithT(check.Trail(t))
	g.Expect(c.ImportImage(t.Context(), check.Value(c.BuildImage(t.Context(), image, "./test/realnode/responder"))(t))).To(Succeed())
}

// responderManifests returns a Deployment, and a Service of the same name, of restricted pods
// on the real node. A pod becomes ready on request.
func responderManifests(name string, replicas, cardsEach int) []byte {
	return fmt.Appendf(nil, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: default}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      nodeSelector: {%[4]s: "true"}
      terminationGracePeriodSeconds: 2
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: main
        image: %[5]s
        imagePullPolicy: Never
        readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1}
        livenessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 10}
        resources: {limits: {nvidia.com/gpu: "%[3]d"}}
        securityContext: {readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: default}
spec: {selector: {app: %[1]s}, ports: [{port: 80, targetPort: 8080}]}
`, name, replicas, cardsEach, cluster.RealNodeLabel, image)
}

// mustGet gets a page that must exist, on a machine that may be busy.
func mustGet(t *testing.T, format string, values ...any) string {
	var body string
	NewWithT(check.Trail(t)).Eventually(func() (err error) {
		body, err = getPage(t, format, values...)
		return err
	}, "30s", "100ms").Should(Succeed())
	return body
}

// getPage returns the body of a page, or an error for any status but 200.
func getPage(t *testing.T, format string, values ...any) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	body, err := cluster.HTTPGet(ctx, "http://"+fmt.Sprintf(format, values...))
	return string(body), err
}
