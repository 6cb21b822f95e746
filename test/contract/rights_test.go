package contract

import (
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/testing/check"
)

// operatorCode are the folders whose code runs with the rights of the operator.
var operatorCode = []string{"../../internal/controller", "../../internal/webhook", "../../cmd/manager"}

// writingCalls are the calls by which the operator writes, as file and text of the call up to its
// second argument, with the rights that each needs.
var writingCalls = map[string]string{
	"controller/localquota/controller.go r.client.Delete(ctx, view":         "localcardquotas delete",
	"controller/localquota/controller.go r.client.Create(ctx, localquota":   "localcardquotas create",
	"controller/localquota/controller.go writer.Write(ctx, status":          "localcardquotas/status patch",
	"controller/admissionpolicy/controller.go r.client.Apply(ctx, client":   "validatingadmissionpolicies create,patch; validatingadmissionpolicybindings create,patch",
	"controller/admissionpolicy/controller.go r.client.Delete(ctx, object":  "validatingadmissionpolicies delete; validatingadmissionpolicybindings delete",
	"controller/cardinventory/controller.go r.client.Create(ctx, inventory": "cardinventories create",
	"controller/cardinventory/controller.go writer.Write(ctx, *status":      "cardinventories/status patch",
	"controller/cardquota/controller.go r.client.Patch(ctx, r.quota":        "cardquotas patch",
	"controller/cardquota/controller.go writer.Write(ctx, status":           "cardquotas/status patch",
	"controller/cardquota/queue.go r.client.Apply(ctx, client":              "queues create,patch",
	"controller/cardquota/queue.go r.client.Delete(ctx, r.queue":            "queues delete",
	"controller/cardquota/queue.go r.client.Apply(ctx, apply":               "queues patch",
	"controller/cardquota/queue.go r.client.Patch(ctx, live":                "queues patch",
	"controller/enforcerights/rights.go r.options.Client.Create(ctx, r":     "", // Kubernetes lets every account ask about itself
	"controller/cardseconds/store.go s.client.Apply(ctx, object":            "configmaps create,patch",
	"controller/cardseconds/store.go s.client.Patch(ctx, object":            "configmaps patch",
	"controller/servicetypepolicy/status.go writer.Write(ctx, policy":       "servicetypepolicies/status patch",
	"controller/statuswriter.go w.Client.Status().Patch(ctx, w":             "", // its callers are above
	"controller/servicetypepolicy/configmap.go r.client.Apply(ctx, apply":   "configmaps create,patch",
	"controller/servicetypepolicy/mode.go r.client.Delete(ctx, live":        "configmaps delete",
	"controller/servicetypepolicy/configmap.go r.client.Delete(ctx, class":  "priorityclasses delete",
	"controller/servicetypepolicy/configmap.go r.client.Create(ctx, class":  "priorityclasses create",
	"webhook/certificates/rotator.go r.client.Apply(ctx, wanted":            "secrets create,patch",
	"webhook/certificates/rotator.go r.client.Patch(ctx, object":            "mutatingwebhookconfigurations patch; validatingwebhookconfigurations patch",
}

// liveGets are the calls that get one object from the API server. Reads from the cache need list and
// watch.
var liveGets = map[string]string{
	"controller/cardquota/controller.go reader.Get(ctx, client":        "queues get",
	"controller/cardseconds/store.go s.live.Get(ctx, client":           "configmaps get",
	"controller/servicetypepolicy/enforcement.go e.live.Get(ctx, clie": "leases get",
	"controller/servicetypepolicy/configmap.go r.live.Get(ctx, client": "configmaps get",
	"controller/policyinforce.go live.Get(ctx, client":                 "configmaps get",
	"webhook/handlers.go getOrNil(ctx, h.live":                         "configmaps get",
	"webhook/cardquota.go getOrNil(ctx, from":                          "servicetypepolicies get",
}

// libraryRights are those that libraries use: the leader election and the recorder of events.
const libraryRights = "leases create,get,update; events create,patch"

// TestEveryRightIsUsed: the operator may do what its code does, and no more: an unused right would only help an
// attacker who steals its token. writingCalls and liveGets list the calls of the code with the rights that each needs. A call
// that is not listed, a listed one that no code has, a right without a call, and a call without its right fail.
// Rights to list and watch are for the caches.
func TestEveryRightIsUsed(t *testing.T) {
	used := sets.New[string]()
	addRights(used, libraryRights)
	addRightsOfCalls(t, used, writingCalls, callsOf(t, isWrite), func(string) bool { return true })
	addRightsOfCalls(t, used, liveGets, callsOf(t, func(name, _ string) bool { return name == "Get" || name == "getOrNil" }), func(call string) bool {
		return strings.Contains(call, "live.") || strings.Contains(call, "h.live")
	})

	granted := grantedRights(t)
	for right := range granted {
		isRead := strings.HasSuffix(right, " list") || strings.HasSuffix(right, " watch")
		check.That(t, isRead || used.Has(right), "no code uses the right %q", right)
	}
	check.Equal(t, "rights that the code uses and no rule grants", nil, sets.List(used.Difference(granted)), cmpopts.EquateEmpty())
}

// isWrite reports whether a call writes with a client, or a status with a writer.
func isWrite(name, receiver string) bool {
	writes := slices.Contains([]string{"Create", "Update", "Patch", "Apply", "Delete", "DeleteAllOf"}, name)
	return (name == "Write" && receiver == "writer") || (writes && strings.Contains(strings.ToLower(receiver), "client"))
}

// addRightsOfCalls compares the listed calls with those of the code, and adds their rights.
func addRightsOfCalls(t *testing.T, used sets.Set[string], listed map[string]string, found []string, needsRight func(call string) bool) {
	for known, rights := range listed {
		isFound := slices.ContainsFunc(found, func(call string) bool { return strings.HasPrefix(call, known) })
		check.That(t, isFound, "no code has the call %q: remove it here and its right", known)
		addRights(used, rights)
	}

	for _, call := range found {
		isListed := slices.ContainsFunc(slices.Collect(maps.Keys(listed)), func(known string) bool { return strings.HasPrefix(call, known) })
		check.That(t, isListed || !needsRight(call), "the call %q is not listed here with its rights", call)
	}
}

// addRights adds rights of the form "resource verb,verb; resource verb", none for "".
func addRights(to sets.Set[string], text string) {
	if text == "" {
		return
	}

	for part := range strings.SplitSeq(text, "; ") {
		resource, verbs, _ := strings.Cut(part, " ")
		for verb := range strings.SplitSeq(verbs, ",") {
			to.Insert(resource + " " + verb)
		}
	}
}

// grantedRights are those of the generated roles, and of the one to enforce, as resource and verb.
func grantedRights(t *testing.T) sets.Set[string] {
	granted := sets.New[string]()
	for _, rule := range append(readRules(t, "manager_role.yaml"), readRules(t, "manager_enforce_role.yaml")...) {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				granted.Insert(resource + " " + verb)
			}
		}
	}

	check.Must(t, granted.Len() > 30, "the roles have %d rights", granted.Len())

	return granted
}

// readRules returns the rules of all roles in a file of config/rbac.
func readRules(t *testing.T, file string) (rules []rbacv1.PolicyRule) {
	text := check.Value(os.ReadFile("../../config/rbac/" + file))(t)
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var role rbacv1.ClusterRole
		check.NoError(t, yaml.Unmarshal([]byte(document), &role))
		rules = append(rules, role.Rules...)
	}
	return rules
}

// TestTheOperatorAsksForEachRightToEnforce: the operator asks the API server for each permission of the ClusterRole
// cardquota-manager-enforce, and for no others. So it never begins to enforce what it could not finish. The role that it
// always has grants none of them.
func TestTheOperatorAsksForEachRightToEnforce(t *testing.T) {
	asked := sets.New(policy.EnforcePermissions()...)
	check.Equal(t, "permissions without duplicates", len(policy.EnforcePermissions()), asked.Len())

	granted := permissionsOf(readRules(t, "manager_enforce_role.yaml"))
	check.Equal(t, "permissions that only one of both has", nil, asked.SymmetricDifference(granted).UnsortedList(), cmpopts.EquateEmpty())
	check.Equal(t, "permissions that the operator always has", nil, asked.Intersection(permissionsOf(readRules(t, "manager_role.yaml"))).UnsortedList(), cmpopts.EquateEmpty())
}

// permissionsOf returns each permission of some rules.
func permissionsOf(rules []rbacv1.PolicyRule) sets.Set[policy.Permission] {
	all := sets.New[policy.Permission]()
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}

		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				for _, name := range names {
					all.Insert(policy.Permission{Verb: verb, Group: rule.APIGroups[0], Resource: resource, Name: name})
				}
			}
		}
	}

	return all
}

// callsOf returns the calls in the operator's code whose method and receiver are wanted, each as file
// and text.
func callsOf(t *testing.T, isWanted func(name, receiver string) bool) (calls []string) {
	for _, folder := range operatorCode {
		check.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}

			files := token.NewFileSet()
			parsed := check.Value(parser.ParseFile(files, path, nil, 0))(t)
			short := strings.TrimPrefix(strings.TrimPrefix(filepath.ToSlash(path), "../../"), "internal/")
			ast.Inspect(parsed, func(node ast.Node) bool {
				call, isCall := node.(*ast.CallExpr)
				if !isCall || len(call.Args) == 0 || textOf(files, call.Args[0]) != "ctx" {
					return true
				}

				name := textOf(files, call.Fun)
				receiver := ""
				if dot := strings.LastIndex(name, "."); dot >= 0 {
					receiver = name[:dot]
					name = name[dot+1:]
				}

				if isWanted(name, receiver) {
					calls = append(calls, short+" "+textOf(files, call))
				}

				return true
			})

			return nil
		}))
	}

	return calls
}

// textOf returns an expression as it is written.
func textOf(files *token.FileSet, node ast.Node) string {
	var text strings.Builder
	_ = printer.Fprint(&text, files, node)
	return text.String()
}
