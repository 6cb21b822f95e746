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

// TestAConfigMapThatCannotBeReadYetIsReadLater: the API server, here a test server, first forbids the loader to read its
// ConfigMap. The status of the loader says so, and the loader tries again. Once the API server answers with the ConfigMap,
// the loader loads the text.
func TestAConfigMapThatCannotBeReadYetIsReadLater(t *testing.T) {
	var isAllowed atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/api/v1/namespaces/default/configmaps" || r.URL.Query().Get("fieldSelector") != "metadata.name=scheduler" {
			w.WriteHeader(http.StatusNotFound)
			return
		}

		switch isWatch := r.URL.Query().Get("watch") != ""; {
		case !isAllowed.Load():
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"configmaps is forbidden"}`)
		case isWatch:
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			_, _ = fmt.Fprintf(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7"},
				"items":[{"metadata":{"namespace":"default","name":"scheduler","resourceVersion":"7"},"data":{%q:%q}}]}`, key, valid)
		}
	}))
	t.Cleanup(server.Close) // after the loader has ended

	g := NewWithT(t)
	config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	client := check.Value(kubernetes.NewForConfig(config))(t)
	loader := startLoader(t, Config{Source: NewConfigMap(client, types.NamespacedName{Namespace: "default", Name: "scheduler"}, key)})
	status := func() string { return loader.Status().String() }
	g.Eventually(status, 5*time.Second).Should(And(HavePrefix("NotConfigured: "), ContainSubstring("configmaps is forbidden")))

	isAllowed.Store(true)
	g.Eventually(loader.Ready(), 20*time.Second).Should(BeClosed())
	expectInForce(g, loader, valid)
}
