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

	. "github.com/onsi/gomega"
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

// rights reads rights, one or more a line: verbs, resources as resource.group/subresource, and
// namespace/name, of which either may be empty.
func rights(text string) []right {
	var read []right
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		words := strings.Fields(line)
		namespace, name, _ := strings.Cut(words[2], "/")
		for _, verb := range strings.Split(words[0], ",") {
			for _, resource := range strings.Split(words[1], ",") {
				resource, subresource, _ := strings.Cut(resource, "/")
				resource, group, _ := strings.Cut(resource, ".")
				read = append(read, right{verb, group, resource, subresource, namespace, name})
			}
		}
	}
	return read
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
		url += "?dryRun=All" + query
	}
	if content != "" && r.verb != "delete" { // whose options in the body, though empty, replace those of the URL
		body = bytes.NewReader([]byte(`{}`))
	}
	request, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", content)
	return request
}

// caller calls the API server as an account, by a token of it, or as a user.
type caller struct {
	user   string
	groups []string
	config *rest.Config
	client *http.Client
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
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}
	return callerOf(t, config, "system:serviceaccount:"+namespace+":"+account, groups)
}

func newUser(t *testing.T, user string, groups ...string) *caller {
	t.Helper()
	config := suite.cluster.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	return callerOf(t, config, user, config.Impersonate.Groups)
}

func callerOf(t *testing.T, config *rest.Config, user string, groups []string) *caller {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return &caller{user: user, groups: groups, config: config, client: client}
}

// holds expects that the caller may do all of it.
func (c *caller) holds(t *testing.T, rights []right) {
	t.Helper()
	for _, r := range rights {
		expect(t).Eventually(func() bool { return c.may(t, r) }).Should(BeTrue(), "%s may not %s", c.user, r)
	}
}

// lacks expects that the caller may do nothing of it. The API server forgets within moments what
// an earlier test has granted.
func (c *caller) lacks(t *testing.T, rights []right) {
	t.Helper()
	for _, r := range rights {
		expect(t).Eventually(func() bool { return c.may(t, r) }).Should(BeFalse(), "%s may %s", c.user, r)
	}
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
		t.Fatalf("%s: %s: nothing was tried: %s", c.user, r, status.Message)
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
		User: c.user, Groups: c.groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: r.verb, Group: r.group, Resource: r.resource, Subresource: r.subresource, Namespace: r.namespace, Name: r.name,
		},
	}}
	if err := suite.admin.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}
