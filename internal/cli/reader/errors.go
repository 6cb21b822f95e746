package reader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/output"
)

const (
	// defaultServer is the API server that kubectl's library assumes where no kubeconfig names one.
	defaultServer   = "http://localhost:8080"
	noConfiguration = "no cluster is configured: write --kubeconfig or --context, or set KUBECONFIG"
)

// IsForbidden reports whether the user lacks a right.
func IsForbidden(err error) bool { return apierrors.IsForbidden(err) }

// IsNotInstalled reports whether the cluster does not have a kind.
func IsNotInstalled(err error) bool { return meta.IsNoMatchError(err) }

// Explain returns what is wrong, and what would help, as plain sentences on one line.
func Explain(err error) string {
	var missing *meta.NoKindMatchError
	var noResource *meta.NoResourceMatchError
	var groups *discovery.ErrGroupDiscoveryFailed
	var syntax *json.SyntaxError

	switch {
	case errors.As(err, &missing):
		return explainMissingKind(missing.GroupKind.Group, missing.GroupKind.Kind)
	case errors.As(err, &noResource):
		return explainMissingKind(noResource.PartialResource.Group, noResource.PartialResource.Resource)
	case clientcmd.IsEmptyConfig(err):
		return noConfiguration
	case apierrors.IsUnauthorized(err):
		return "the API server does not accept your credentials: log in again, or choose another --user"
	case apierrors.IsForbidden(err):
		return explainForbidden(err)
	case errors.As(err, &syntax):
		return "the server does not answer as an API server does, but maybe as a proxy that wants a login: check --context and --server"
	case apierrors.IsInternalError(err):
		return "the API server has an error of its own: " + output.Clean(err.Error())
	case errors.As(err, &groups):
		return "the API server does not answer for some API groups: " + output.Clean(groups.Error())
	case apierrors.IsTimeout(err), apierrors.IsServerTimeout(err), errors.Is(err, context.DeadlineExceeded):
		return "the API server does not answer in time: " + output.Clean(err.Error())
	default:
		return explainConnectionError(err)
	}
}

// explainConnectionError returns what is wrong on the way to the API server. It returns any other error as
// it is.
func explainConnectionError(err error) string {
	var request *url.Error
	var network net.Error
	var file *fs.PathError

	switch {
	case errors.As(err, &request) && serverOf(request) == defaultServer:
		return noConfiguration
	case errors.As(err, &request):
		return fmt.Sprintf("the API server %s does not answer: %s. Check --context, --server and the network", serverOf(request), output.Clean(RootCause(request.Err)))
	case errors.As(err, &file): // errors of files look like those of the network
		return output.Clean(err.Error())
	case errors.As(err, &network):
		return "the API server does not answer: " + output.Clean(err.Error())
	default:
		return output.Clean(err.Error())
	}
}

// explainMissingKind says that the cluster does not have a kind, and who would install it.
func explainMissingKind(group, kind string) string {
	if kind == "" { // the whole group is missing
		kind = "at all"
	}
	switch {
	case group == v1alpha1.GroupVersion.Group:
		return fmt.Sprintf("the cluster has no kind %s of %s: Cardquota is not installed, or an older version. docs/install.md says how to install it", kind, group)
	case strings.HasSuffix(group, "volcano.sh"):
		return fmt.Sprintf("the cluster has no kind %s of %s: Volcano is not installed", kind, group)
	default:
		return fmt.Sprintf("the cluster has no kind %s of %q", kind, group)
	}
}

// forbiddenPattern has the words of the API server's refusal: who, which verb, which resource.
var forbiddenPattern = regexp.MustCompile(`User "([^"]*)" cannot (\w+) resource "([^"]*)"(?: in API group "([^"]*)")?(?: (in the namespace "[^"]*"|at the cluster scope))?`)

// parseForbidden returns a sentence that says which verb on which resource a user lacks, the API group, and where: in
// a namespace or in the cluster. If the API server says it in other words, text is what it says, and the others are "".
func parseForbidden(err error) (text, group, where string) {
	found := forbiddenPattern.FindStringSubmatch(err.Error())
	if found == nil {
		return output.Clean(err.Error()), "", ""
	}

	user := found[1]
	verb := found[2]
	resource := found[3]
	group = found[4]
	where = found[5]

	if group != "" {
		resource += "." + group
	}

	return strings.TrimSpace(fmt.Sprintf("user %q may not %s %s %s", output.Clean(user), verb, output.Clean(resource), output.Clean(where))), group, where
}

// Explain says why a user without the right to list CardQuotas sees no LocalCardQuota either, and whom to ask.
func (e *NoViewError) Explain() string {
	text, _, _ := parseForbidden(e)
	if e.isRefused {
		return fmt.Sprintf("%s, and no LocalCardQuotas in %s either. Check -n, or ask the administrator for the role view in the namespace, "+
			"or for a ClusterRoleBinding to cardquota-viewer, which shows all CardQuotas", text, describeNamespace(e.namespace))
	}
	found := "namespace " + e.namespace + " has no LocalCardQuota"
	if e.namespace == metav1.NamespaceAll {
		found = "no namespace has a LocalCardQuota"
	}
	return fmt.Sprintf("%s, and %s. Check -n, or ask the administrator to select the namespace with spec.namespaceSelector of its CardQuota, "+
		"or for a ClusterRoleBinding to cardquota-viewer, which shows all CardQuotas", text, found)
}

// adviceError is a refusal with what the user may read instead.
type adviceError struct {
	error
	advice string
}

// Unwrap returns the refusal.
func (e *adviceError) Unwrap() error { return e.error }

// WithAdvice adds to a refusal what the user may read instead. Explain ends with it.
func WithAdvice(refusal error, advice string) error { return &adviceError{refusal, advice} }

// explainForbidden says which verb on which resource a user lacks, and what grants it or may be read instead.
func explainForbidden(err error) string {
	var advised *adviceError
	if errors.As(err, &advised) {
		return explainForbidden(advised.error) + ". " + advised.advice
	}

	text, group, where := parseForbidden(err)
	switch {
	case group != v1alpha1.GroupVersion.Group: // our ClusterRoles grant rights on our own kinds only
	case strings.HasPrefix(where, "in "):
		return text + ": the ClusterRoles cardquota-viewer, view, edit and admin may"
	default: // a RoleBinding grants no right on objects without a namespace
		return text + ": a ClusterRoleBinding to cardquota-viewer grants it"
	}
	return text
}

// serverOf returns the scheme and host of a failed request, which are those of the API server.
func serverOf(request *url.Error) string {
	target, err := url.Parse(request.URL)
	if err != nil {
		return "of the kubeconfig"
	}
	return target.Scheme + "://" + target.Host
}

// RootCause returns the innermost error: "connect: connection refused" instead of a chain.
func RootCause(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}
