package security

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// right is a verb on a resource: group/resource[/subresource], in a namespace, of a name.
type right struct {
	verb, group, resource, subresource, namespace, name string
}

func (r right) String() string {
	what := r.resource
	if r.subresource != "" {
		what += "/" + r.subresource
	}
	return fmt.Sprintf("%s %s.%s %s/%s", r.verb, what, r.group, r.namespace, r.name)
}

// versions of the groups that are tried, where it is not v1.
var versions = map[string]string{"batch.volcano.sh": "v1alpha1", "scheduling.volcano.sh": "v1beta1", "cardquota.dev": "v1alpha1"}

// request is the call by which somebody would use the right, as a dry run. What is sent is no
// object: who may call is told that, and nothing happens.
func (r right) request(t *testing.T, server string) *http.Request {
	t.Helper()
	url := server + "/api/v1"
	if r.group != "" {
		version := versions[r.group]
		if version == "" {
			version = "v1"
		}
		url = server + "/apis/" + r.group + "/" + version
	}
	if r.namespace != "" {
		url += "/namespaces/" + r.namespace
	}
	url += "/" + path.Join(r.resource, r.name, r.subresource)
	method, content, query := http.MethodGet, "", ""
	switch r.verb {
	case "create":
		method, content = http.MethodPost, "application/json"
		if r.name != "" && r.subresource == "" { // of a name only by apply
			method, content, query = http.MethodPatch, "application/apply-patch+yaml", "&fieldManager=probe"
		}
	case "update":
		method, content = http.MethodPut, "application/json"
	case "patch":
		method, content = http.MethodPatch, "application/merge-patch+json"
	case "delete":
		method, content = http.MethodDelete, "application/json"
	}
	body := io.Reader(http.NoBody)
	if content != "" {
		url, body = url+"?dryRun=All"+query, bytes.NewReader([]byte(`{}`))
	}
	request, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", content)
	return request
}

// caller calls the API server as an account, by a token of it.
type caller struct {
	namespace, account string
	config             *rest.Config
	client             *http.Client
}

func newCaller(t *testing.T, namespace, account string) *caller {
	t.Helper()
	kubeconfig, err := suite.cluster.KubeconfigFor(t.Context(), namespace, account)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return &caller{namespace: namespace, account: account, config: config, client: client}
}

// may tells whether the API server lets the account do it: tried, but for the two verbs that
// belong to no call, about which it is asked.
func (c *caller) may(t *testing.T, r right) bool {
	t.Helper()
	request := r.request(t, c.config.Host)
	switch r.verb {
	case "escalate", "bind":
		return c.reviewed(t, r)
	case "impersonate":
		who := r.name
		if r.resource == "serviceaccounts" {
			who = "system:serviceaccount:" + r.namespace + ":" + r.name
		}
		request = right{verb: "get", resource: "namespaces", name: "default"}.request(t, c.config.Host)
		request.Header.Set("Impersonate-User", who)
	}
	status := call(t, c.client, request)
	if status.Code == http.StatusUnauthorized || strings.Contains(status.Message, "could not find the requested resource") {
		t.Fatalf("%s: %s: nothing was tried: %s", c.account, r, status.Message)
	}
	return status.Code != http.StatusForbidden || !strings.Contains(status.Message, " cannot "+spoken(request, r)+" ")
}

// spoken is the verb that RBAC refuses: an apply is a patch.
func spoken(request *http.Request, r right) string {
	if request.Method == http.MethodPatch {
		return "patch"
	}
	return r.verb
}

// call sends a request and reads the answer, whatever it is.
func call(t *testing.T, client *http.Client, request *http.Request) metav1.Status {
	t.Helper()
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	status := metav1.Status{}
	if json.Unmarshal(body, &status) != nil || status.Kind != "Status" {
		status = metav1.Status{Message: string(body)}
	}
	status.Code = int32(response.StatusCode) //nolint:gosec // three digits
	return status
}

// reviewed asks the API server what RBAC says.
func (c *caller) reviewed(t *testing.T, r right) bool {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   "system:serviceaccount:" + c.namespace + ":" + c.account,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + c.namespace, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: r.verb, Group: r.group, Resource: r.resource, Subresource: r.subresource, Namespace: r.namespace, Name: r.name,
		},
	}}
	if err := suite.admin.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}
