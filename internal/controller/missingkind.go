package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/build"
)

// kindHost is the part of a manager that waits for a kind.
type kindHost interface {
	GetRESTMapper() meta.RESTMapper
	GetAPIReader() client.Reader
	GetLogger() logr.Logger
	Add(manager.Runnable) error
}

// lookTimeout bounds one look at the API server. Its clients try again by themselves.
const lookTimeout = 30 * time.Second

// SetUpWithKind sets a controller up as soon as the API server has its kind and lets this account list
// it. An upgrade of the image alone leaves out new definitions and rights. The other controllers then
// run without this one, while a cache without rights would end them all.
func SetUpWithKind(host kindHost, kind string, setUp func() error) error {
	return setUpWithKind(host, kind, build.Wait(10*time.Second), setUp)
}

// setUpWithKind calls setUp now, or, if the kind cannot be used yet, as soon as it can. It looks again each
// interval.
func setUpWithKind(host kindHost, kind string, interval time.Duration, setUp func() error) error {
	missing, err := whatIsMissing(context.Background(), host, kind)
	if err != nil {
		return err
	}
	if missing == "" {
		return setUp()
	}

	// The CRDs may be applied after the operator starts. An error now would end the operator, and with it all
	// other controllers, again and again.
	host.GetLogger().Info(missing+". Its controller starts then", "kind", kind)
	return host.Add(manager.RunnableFunc(func(ctx context.Context) error {
		err := wait.PollUntilContextCancel(ctx, interval, false, func(ctx context.Context) (bool, error) {
			still, err := whatIsMissing(ctx, host, kind)
			switch {
			case err != nil:
				host.GetLogger().Error(err, "the API server does not say whether it has the kind", "kind", kind)
			case still != missing && still != "":
				host.GetLogger().Info(still+". Its controller starts then", "kind", kind)
				missing = still
			}
			return err == nil && still == "", nil
		})
		if err != nil {
			return nil //nolint:nilerr // the manager ends
		}

		host.GetLogger().Info("the kind can be used now: its controller starts", "kind", kind)
		return setUp()
	}))
}

// whatIsMissing returns a text that says what a controller lacks to work with a kind of Cardquota, and what
// would help, "" if it lacks nothing.
func whatIsMissing(ctx context.Context, host kindHost, kind string) (string, error) {
	_, err := host.GetRESTMapper().RESTMapping(v1alpha1.GroupVersion.WithKind(kind).GroupKind(), v1alpha1.GroupVersion.Version)
	switch {
	case meta.IsNoMatchError(err):
		return "the API server does not have the kind: apply the CustomResourceDefinitions of this version", nil
	case err != nil:
		return "", fmt.Errorf("look up kind %s: %w", kind, err)
	}

	// A watch that may not list would keep the whole manager from starting, so try a list of one
	// object.
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()

	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind + "List"))
	switch err := host.GetAPIReader().List(ctx, list, client.Limit(1)); {
	case apierrors.IsForbidden(err):
		return "this account may not list the kind: apply the ClusterRole cardquota-manager of this version", nil
	case err != nil:
		return "", fmt.Errorf("list kind %s: %w", kind, err)
	}

	return "", nil
}
