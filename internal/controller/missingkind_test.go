package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// kindServer is a manager whose API server gives one answer after the other, the last one for ever.
type kindServer struct {
	meta.RESTMapper
	client.Reader
	answers []error
	// listing is the answer to the list that follows.
	listing error
	added   []manager.Runnable
	lines   []string
}

var (
	errNoKind  = &meta.NoKindMatchError{GroupKind: v1alpha1.GroupVersion.WithKind("LocalCardQuota").GroupKind()}
	errNoRight = apierrors.NewForbidden(schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "localcardquotas"}, "", errors.New("no rule"))
)

func (s *kindServer) GetAPIReader() client.Reader { return s }

// List answers as RESTMapping was set to.
func (s *kindServer) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if kind := list.GetObjectKind().GroupVersionKind().Kind; kind != "LocalCardQuotaList" {
		return errors.New("another kind: " + kind)
	}
	return s.listing
}

func (s *kindServer) GetRESTMapper() meta.RESTMapper { return s }

func (s *kindServer) GetLogger() logr.Logger {
	return funcr.New(func(_, line string) { s.lines = append(s.lines, line) }, funcr.Options{})
}

func (s *kindServer) Add(r manager.Runnable) error {
	s.added = append(s.added, r)
	return nil
}

func (s *kindServer) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if kind.String() != "LocalCardQuota.cardquota.dev" || len(versions) != 1 || versions[0] != "v1alpha1" {
		return nil, errors.New("another kind: " + kind.String())
	}

	answer := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}

	s.listing = nil
	if apierrors.IsForbidden(answer) {
		answer, s.listing = nil, answer
	}

	return nil, answer
}

// TestControllersWaitForTheirKind: after an upgrade the cluster may lack a new CustomResourceDefinition, or the right
// to list its objects. The operator starts all the same. The controller of that kind is set up when a lookup of the
// kind, and a list, succeed. Each row has the answers of the API server to one lookup after the other, the last one
// for ever.
func TestControllersWaitForTheirKind(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		answers                 []error
		wantAtOnce, wantOnStart bool
	}{
		"the kind exists":                                {answers: []error{nil}, wantAtOnce: true},
		"the kind comes later":                           {answers: []error{errNoKind, errNoKind, nil}, wantOnStart: true},
		"the kind comes after an error of the server":    {answers: []error{errNoKind, errors.New("away"), nil}, wantOnStart: true},
		"the kind never comes, and the manager ends":     {answers: []error{errNoKind}},
		"the right to list comes later":                  {answers: []error{errNoRight, errNoRight, nil}, wantOnStart: true},
		"the kind comes first, and then the right to it": {answers: []error{errNoKind, errNoRight, nil}, wantOnStart: true},
	}) {
		server := &kindServer{answers: tc.answers}
		setUps := 0
		check.NoError(t, setUpWithKind(server, "LocalCardQuota", time.Millisecond, func() error { setUps++; return nil }))
		check.Equal(t, "set up at once", tc.wantAtOnce, setUps == 1)
		check.Equal(t, "a runnable waits for the kind", !tc.wantAtOnce, len(server.added) == 1)

		for _, runnable := range server.added {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if !tc.wantOnStart {
				cancel()
			}

			check.NoError(t, runnable.Start(ctx))
			check.Equal(t, "set up later", tc.wantOnStart, setUps == 1)
		}
	}
}

// TestEachChangeOfWhatIsMissingIsLoggedOnce: first the kind is missing, and then the right to list its objects,
// each in two lookups. Each missing thing is one line, which says what the administrator must apply. The last
// line says that nothing is missing.
func TestEachChangeOfWhatIsMissingIsLoggedOnce(t *testing.T) {
	server := &kindServer{answers: []error{errNoKind, errNoKind, errNoRight, errNoRight, nil}}
	check.NoError(t, setUpWithKind(server, "LocalCardQuota", time.Millisecond, func() error { return nil }))
	check.NoError(t, server.added[0].Start(t.Context()))
	wants := []string{"apply the CustomResourceDefinitions", "apply the ClusterRole cardquota-manager", "the kind can be used now"}
	check.Must(t, len(server.lines) == len(wants), "%d lines: %q", len(server.lines), server.lines)
	for i, want := range wants {
		check.Contains(t, "line", server.lines[i], want, "LocalCardQuota")
	}
}

// TestAnUnreachableServerIsAnError: without an answer the operator does not know whether the kind is missing. So the set-up
// fails, and Kubernetes starts the operator again.
func TestAnUnreachableServerIsAnError(t *testing.T) {
	server := &kindServer{answers: []error{errors.New("away")}}
	err := SetUpWithKind(server, "LocalCardQuota", func() error { t.Error("set up without an answer"); return nil })
	check.Says(t, err, "look up kind LocalCardQuota: away")
}

// TestAFailedSetupEndsTheManager: the kind comes after the start of the manager, and the set-up of its controller fails. The
// runnable returns the error, with which the manager ends.
func TestAFailedSetupEndsTheManager(t *testing.T) {
	server := &kindServer{answers: []error{errNoKind, nil}}
	check.NoError(t, setUpWithKind(server, "LocalCardQuota", time.Millisecond, func() error { return errors.New("broken") }))
	check.Says(t, server.added[0].Start(t.Context()), "broken")
}
