package deployment

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
)

// NewScheme returns a new scheme with the kinds that who works on such a cluster
// reads and writes: Kubernetes', Volcano's, and those of this project.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	kinds := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, v1beta1.AddToScheme, batchv1alpha1.AddToScheme, v1alpha1.AddToScheme)
	if err := kinds.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("scheme: %w", err)
	}
	return scheme, nil
}
