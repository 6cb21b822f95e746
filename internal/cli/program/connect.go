package program

import (
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
)

// Requests per second. kubectl has the same limits.
const (
	requestsPerSecond = 50
	requestBurst      = 300
)

// requestTimeout bounds each request, unless the user writes --request-timeout. A list comes in pages,
// so that no request is that long.
const requestTimeout = 30 * time.Second

// connectCluster returns a client of the cluster that the flags name. It sends no request yet.
func (p *Program) connectCluster() (client.WithWatch, error) {
	config, err := p.flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}

	if config.Timeout == 0 && !p.Watches { // a watch is one long request
		config.Timeout = p.RequestTimeout
	}

	// The defaults of client-go are for controllers, and would make a command with many lists
	// wait.
	config.QPS = requestsPerSecond
	config.Burst = requestBurst
	config.WarningHandler = rest.NewWarningWriter(p.Streams.ErrOut, rest.WarningWriterOptions{Deduplicate: true})
	scheme, err := NewScheme()
	if err != nil {
		return nil, err
	}

	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

// NewScheme returns the kinds that the commands read.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		admissionregistrationv1.AddToScheme, apiextensionsv1.AddToScheme, appsv1.AddToScheme, authorizationv1.AddToScheme, batchv1.AddToScheme,
		coordinationv1.AddToScheme, corev1.AddToScheme, policyv1.AddToScheme, schedulingv1.AddToScheme, batchv1alpha1.AddToScheme, v1beta1.AddToScheme, v1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register the API: %w", err)
		}
	}
	return scheme, nil
}
