package volcanokinds

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// WrapManager returns a manager whose reader of the API server finds no object of a missing kind. Its cache must be that of
// NewCache.
func (k *Kinds) WrapManager(mgr ctrl.Manager) ctrl.Manager {
	return &manager{Manager: mgr, reader: &reader{Reader: mgr.GetAPIReader(), kinds: k, scheme: mgr.GetScheme()}}
}

type manager struct {
	ctrl.Manager
	reader client.Reader
}

// GetAPIReader implements ctrl.Manager.
func (m *manager) GetAPIReader() client.Reader { return m.reader }

// reader asks the API server also for missing kinds, which may be served by now. Only if they are still missing there is no
// object. A kind that was served at the start stays an error: the API server may only fail to say that it has it, and the
// operator must not give up a Queue for that.
type reader struct {
	client.Reader
	kinds  *Kinds
	scheme *runtime.Scheme
}

// Get implements client.Reader.
func (r *reader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := r.Reader.Get(ctx, key, object, options...)
	if kind, isMissing := r.kinds.findMissingKind(object, r.scheme); isMissing && meta.IsNoMatchError(err) {
		return newNotFound(kind, key.Name)
	}
	return err
}

// List implements client.Reader.
func (r *reader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := r.Reader.List(ctx, list, options...)
	if _, isMissing := r.kinds.findMissingKind(list, r.scheme); isMissing && meta.IsNoMatchError(err) {
		return meta.SetList(list, nil)
	}
	return err
}
