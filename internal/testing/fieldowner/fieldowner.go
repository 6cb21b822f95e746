// Package fieldowner checks who owns the fields that a controller writes. The fake API server forgets
// the managers of custom resources.
package fieldowner

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// CheckStatus returns a client whose status patches fail the test unless the operator's field manager owns
// them.
func CheckStatus(t check.T, api client.WithWatch) client.WithWatch {
	return interceptor.NewClient(api, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, api client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
		t.Helper()
		var all client.SubResourcePatchOptions
		all.ApplyOptions(options)
		check.Equal(t, "field owner of "+object.GetName(), v1alpha1.FieldManager, all.FieldManager)
		return api.SubResource(sub).Patch(ctx, object, patch, options...)
	}})
}
