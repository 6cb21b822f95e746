package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// The tests of this file read config/ independently of the generator and compare the result
// with the bundle, so that a mistake cannot hide in both.

// configObjects returns all objects of the files that match a pattern below config/.
func configObjects(t *testing.T, pattern string) []map[string]any {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(projectRoot, "config", pattern))
	requireThat(t, err == nil && len(files) > 0, "no file matches %s: %v", pattern, err)

	separator := regexp.MustCompile(`(?m)^---$`)
	var list []map[string]any
	for _, file := range files {
		for _, text := range separator.Split(string(value(os.ReadFile(file))(t)), -1) {
			object := map[string]any{}
			noError(t, yaml.Unmarshal([]byte(text), &object))
			if len(object) > 0 && object["kind"] != "Kustomization" && object["kind"] != "Component" {
				list = append(list, object)
			}
		}
	}

	return list
}

// convertObject converts an object to a type.
func convertObject[T any](t *testing.T, object any) T {
	t.Helper()
	var typed T
	noError(t, yaml.UnmarshalStrict(value(yaml.Marshal(object))(t), &typed))
	return typed
}

// permissionLines returns rules as single permissions of an account: a verb on a resource,
// perhaps with a name.
func permissionLines(scope, account string, rules []rbacv1.PolicyRule) []string {
	var list []string
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{"*"}
		}

		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, name := range names {
						list = append(list, fmt.Sprintf("%s %s: %s %s.%s %s", scope, account, verb, resource, group, name))
					}
				}
			}
		}
	}

	return list
}

func sortedCopy(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// TestTheBundleGrantsThePermissionsOfConfig: OLM creates roles from the CSV (ClusterServiceVersion). Each
// account must have the same verbs on the same resources as by the roles and bindings of config/rbac. OLM
// creates the certificate of the webhooks, so the bundle does not request the permissions for it. Roles without
// a binding are for people, and not in the bundle.
func TestTheBundleGrantsThePermissionsOfConfig(t *testing.T) {
	roles := map[string][]rbacv1.PolicyRule{}
	bound := map[string][]string{}
	scope := map[string]string{"ClusterRole": "cluster", "Role": "namespace"}
	for _, object := range configObjects(t, "rbac/*.yaml") {
		switch kind := object["kind"].(string); kind {
		case "ClusterRole", "Role":
			role := convertObject[rbacv1.ClusterRole](t, object)
			roles[scope[kind]+" "+role.Name] = role.Rules
		case "ClusterRoleBinding", "RoleBinding":
			binding := convertObject[rbacv1.RoleBinding](t, object)
			role := scope[binding.RoleRef.Kind] + " " + binding.RoleRef.Name
			for _, subject := range binding.Subjects {
				bound[role] = append(bound[role], subject.Name)
			}
		}
	}

	var want []string
	for role, rules := range roles {
		for _, account := range bound[role] {
			scope, _, _ := strings.Cut(role, " ")
			want = append(want, permissionLines(scope, account, rules)...)
		}
	}

	certificates := regexp.MustCompile(`: \w+ ((mutating|validating)webhookconfigurations\.admissionregistration\.k8s\.io|secrets\.) `)
	all := len(want)
	want = slices.DeleteFunc(want, certificates.MatchString)
	expectThat(t, len(want) >= 50 && len(want) != all, "config/rbac grants %d permissions, %d of them for certificates: is it read right?", all, all-len(want))

	strategy := loadBundle(t).CSV.Spec.InstallStrategy.StrategySpec
	var got []string
	for _, permission := range strategy.ClusterPermissions {
		got = append(got, permissionLines("cluster", permission.ServiceAccountName, permission.Rules)...)
	}

	for _, permission := range strategy.Permissions {
		got = append(got, permissionLines("namespace", permission.ServiceAccountName, permission.Rules)...)
	}
	equal(t, "permissions (-config +bundle)", sortedCopy(want), sortedCopy(got))
}

// TestTheBundleHasTheRoleToEnforce: OLM installs the ClusterRole of the rights to enforce as config/rbac has it, and binds it
// to no account: administrators do that before mode Enforce. TestTheBundleGrantsThePermissionsOfConfig shows that the
// CSV (ClusterServiceVersion) grants none of these rights.
func TestTheBundleHasTheRoleToEnforce(t *testing.T) {
	want := configObjects(t, "rbac/manager_enforce_role.yaml")
	requireThat(t, len(want) == 1, "the file has %d objects", len(want))

	got := map[string]any{}
	text := value(os.ReadFile(filepath.Join(projectRoot, "bundle", "manifests", "cardquota-manager-enforce_v1_clusterrole.yaml")))(t)
	noError(t, yaml.Unmarshal(text, &got))
	equal(t, "ClusterRole (-config +bundle)", want[0], got)
}

// TestTheBundleHasTheDeploymentsOfConfig: the Deployments of the CSV (ClusterServiceVersion) are those of
// operator and scheduler in config/, except for two things. Images have their registry and version, as a bundle
// has no kustomization that adds them. The operator reads the certificate of its webhooks from files, which OLM
// mounts.
func TestTheBundleHasTheDeploymentsOfConfig(t *testing.T) {
	csv := loadBundle(t).CSV
	want := map[string]any{}
	got := map[string]any{}
	registry := "cardquota.dev/"
	tag := ":v" + csv.Spec.Version.String()
	for _, object := range append(configObjects(t, "manager/deployment.yaml"), configObjects(t, "scheduler/deployment.yaml")...) {
		name, _, err := unstructured.NestedString(object, "metadata", "name")
		noError(t, err)
		containers, _, err := unstructured.NestedSlice(object, "spec", "template", "spec", "containers")
		requireThat(t, err == nil && len(containers) > 0, "containers of %s: %v, %v", name, containers, err)

		for _, container := range containers {
			container := container.(map[string]any)
			image, _, _ := strings.Cut(container["image"].(string), ":")
			container["image"] = registry + image + tag
			if container["name"] == "manager" {
				args := container["args"].([]any)
				args[slices.Index(args, any("--webhook-certificates=Self"))] = certificatesFlag
			}
		}

		noError(t, unstructured.SetNestedSlice(object, containers, "spec", "template", "spec", "containers"))
		want[name] = object["spec"]
	}

	for _, deployment := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		spec := convertObject[map[string]any](t, deployment.Spec)
		if strategy, ok := spec["strategy"].(map[string]any); ok && len(strategy) == 0 {
			delete(spec, "strategy") // written although it is empty
		}
		got[deployment.Name] = spec
	}

	equal(t, "Deployments (-config +bundle)", want, got)
	expectThat(t, len(got) == 2, "the bundle has %d Deployments, want the operator and the scheduler", len(got))
}

// TestRelatedImagesAreThoseThatContainersRun: a mirror for clusters without internet is filled from
// relatedImages of the CSV (ClusterServiceVersion). So it must list each image that a container runs, and no
// other. The annotation containerImage is the operator's.
func TestRelatedImagesAreThoseThatContainersRun(t *testing.T) {
	csv := loadBundle(t).CSV
	var run, related []string
	for _, deployment := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		for _, container := range deployment.Spec.Template.Spec.Containers {
			run = append(run, container.Image)
		}
	}

	for _, image := range csv.Spec.RelatedImages {
		related = append(related, image.Image)
	}

	equal(t, "images (-containers +relatedImages)", sortedCopy(run), sortedCopy(related))
	got := csv.Annotations["containerImage"]
	expectThat(t, strings.Contains(got, "/cardquota-manager:"), "containerImage is %s, want the operator's", got)
}

// TestTheExamplesOfTheBundleAreTheSamples: a console offers the examples of the CSV (ClusterServiceVersion),
// alm-examples, when a user creates an object. They are the objects of config/samples, and those that the
// operator creates itself.
func TestTheExamplesOfTheBundleAreTheSamples(t *testing.T) {
	byName := func(list []map[string]any) map[string]any {
		named := map[string]any{}
		for _, object := range list {
			named[object["metadata"].(map[string]any)["name"].(string)] = object
		}
		return named
	}

	want := byName(append(configObjects(t, "samples/*.yaml"), createdExamples...))
	equal(t, "examples (-config/samples +alm-examples)", want, byName(almExamples(t, loadBundle(t).CSV)))
}

// fieldPaths returns the paths of all fields that a value sets, list items as [0].
func fieldPaths(value any, path string) []string {
	var list []string
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			below := strings.TrimPrefix(path+"."+key, ".")
			list = append(list, below)
			if key == "matchLabels" {
				continue // its keys are labels, and no fields
			}
			list = append(list, fieldPaths(inner, below)...)
		}
	case []any:
		for _, item := range value {
			list = append(list, fieldPaths(item, path+"[0]")...)
		}
	}

	return list
}

// TestEachFieldOfAnExampleIsDescribed: a console shows a form with the names and descriptions of
// specDescriptors. Each field that an example sets must have both.
func TestEachFieldOfAnExampleIsDescribed(t *testing.T) {
	csv := loadBundle(t).CSV
	described := map[string]map[string]v1alpha1.SpecDescriptor{}
	for _, owned := range csv.Spec.CustomResourceDefinitions.Owned {
		described[owned.Kind] = map[string]v1alpha1.SpecDescriptor{}
		for _, descriptor := range owned.SpecDescriptors {
			described[owned.Kind][descriptor.Path] = descriptor
		}
	}

	for _, example := range almExamples(t, csv) {
		kind := example["kind"].(string)
		for _, key := range sortedCopy(fieldPaths(example["spec"], "")) {
			descriptor := described[kind][key]
			expectThat(t, descriptor.DisplayName != "" && descriptor.Description != "", "%s spec.%s has no name and description in specDescriptors", kind, key)
		}
	}
}

// checkStatusDescriptors checks that each field of a status has a name of its own and a description.
func checkStatusDescriptors(t *testing.T, descriptors []v1alpha1.StatusDescriptor) {
	t.Helper()
	names := map[string]string{}
	for _, descriptor := range descriptors {
		other, ok := names[descriptor.DisplayName]
		expectThat(t, !ok, "status.%s and status.%s are both called %s", descriptor.Path, other, descriptor.DisplayName)
		names[descriptor.DisplayName] = descriptor.Path

		expectThat(t, descriptor.Description != "", "status.%s has no description", descriptor.Path)
	}
}

// TestEachCustomResourceDefinitionIsDescribed: the CSV (ClusterServiceVersion) owns each definition of
// config/crd/bases, and no other, with a name, a description and resources. Each field of its status has a name
// of its own and a description. The CSV does not offer fields of spec that admission refuses: their descriptions
// say that they are reserved or not supported.
func TestEachCustomResourceDefinitionIsDescribed(t *testing.T) {
	owned := loadBundle(t).CSV.Spec.CustomResourceDefinitions.Owned
	var want, got []string
	for _, object := range configObjects(t, "crd/bases/*.yaml") {
		want = append(want, object["metadata"].(map[string]any)["name"].(string))
	}

	for _, crd := range owned {
		got = append(got, crd.Name)
		expectThat(t, len(crd.Resources) > 0, "%s has no resources", crd.Name)
		expectThat(t, crd.DisplayName != "" && crd.Description != "", "%s has no name or no description", crd.Name)
		expectThat(t, len(crd.StatusDescriptors) > 0, "%s has no statusDescriptors", crd.Name)

		checkStatusDescriptors(t, crd.StatusDescriptors)
		for _, descriptor := range crd.SpecDescriptors {
			isRefused := strings.Contains(descriptor.Description, "not supported") || strings.Contains(descriptor.Description, "reserved")
			expectThat(t, !isRefused, "spec.%s is offered although it is refused: %s", descriptor.Path, descriptor.Description)
		}
	}

	equal(t, "definitions (-config/crd/bases +CSV)", sortedCopy(want), sortedCopy(got))
}
