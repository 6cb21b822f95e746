package configloader

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"cardquota.dev/operator/internal/testing/check"
)

// TestAConfigMapThatCannotBeReadYet: until the API server answers, the status says why not.
func TestAConfigMapThatCannotBeReadYet(t *testing.T) {
	var allowed atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/api/v1/namespaces/default/configmaps" || r.URL.Query().Get("fieldSelector") != "metadata.name=scheduler" {
			w.WriteHeader(http.StatusNotFound)
			return
		}

		switch watches := r.URL.Query().Get("watch") != ""; {
		case !allowed.Load():
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"configmaps is forbidden"}`)
		case watches:
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			_, _ = fmt.Fprintf(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7"},
				"items":[{"metadata":{"namespace":"default","name":"scheduler","resourceVersion":"7"},"data":{%q:%q}}]}`, key, good)
		}
	}))
	t.Cleanup(server.Close) // after the loader has ended

	g := NewWithT(t)
	client := check.Value(kubernetes.NewForConfig(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}))(t)

	loader := startLoader(t, Config{Source: NewConfigMap(client, types.NamespacedName{Namespace: "default", Name: "scheduler"}, key)})
	status := func() string { return loader.Status().String() }
	g.Eventually(status, 5*time.Second).Should(And(HavePrefix("NotConfigured: "), ContainSubstring("configmaps is forbidden")))

	allowed.Store(true)
	g.Eventually(loader.Ready(), 20*time.Second).Should(BeClosed())
	privateFileHolds(g, loader, good)
}
