package main

import (
	"fmt"
	"io/fs"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const (
	// installationDir is config/default with the changes for OLM.
	installationDir = "config/manifests"
	samplesDir      = "config/samples"
	basePath        = "config/manifests/bases/cardquota.clusterserviceversion.yaml"
	iconPath        = "config/manifests/bases/icon.svg"
)

// sources are the sources of a bundle.
type sources struct {
	// base is the hand-written part of the ClusterServiceVersion; icon is its SVG.
	base v1alpha1.ClusterServiceVersion
	icon []byte
	// crds are the definitions, typed and as read.
	crds        []crd
	deployments []appsv1.Deployment
	services    []corev1.Service
	validating  []admissionv1.ValidatingWebhookConfiguration
	mutating    []admissionv1.MutatingWebhookConfiguration
	rbac        rbac
	// extras are the other objects of an installation that a bundle may contain.
	extras []unstructured.Unstructured
	// samples are the examples in the order of their kustomization.
	samples []unstructured.Unstructured
}

// crd is a definition, typed and as read.
type crd struct {
	definition apiextensionsv1.CustomResourceDefinition
	object     unstructured.Unstructured
}

// rbac has the access control objects of config/.
type rbac struct {
	accounts            map[string]bool
	clusterRoles, roles map[string][]rbacv1.PolicyRule
	clusterRoleBindings []rbacv1.ClusterRoleBinding
	roleBindings        []rbacv1.RoleBinding
}

// bundleKinds are the kinds that OLM installs from a bundle on every cluster, beside the
// content of the ClusterServiceVersion (operator-framework/operator-lifecycle-manager
// pkg/controller/operators/catalog/supportedresources.go). OLM also supports Prometheus's
// kinds, but the whole installation would fail on a cluster without Prometheus's operator.
var bundleKinds = map[string]bool{
	"ConfigMap": true, "NetworkPolicy": true, "PodDisruptionBudget": true, "PriorityClass": true, "Secret": true,
}

// unboundRoles are the ClusterRoles that the bundle has as they are, because administrators bind them by themselves. OLM
// never removes them, so the commands of docs/install.md do.
var unboundRoles = map[string]bool{"cardquota-manager-enforce": true}

// readSources reads the project at the given root.
func readSources(root fs.FS) (*sources, error) {
	src := &sources{rbac: rbac{
		accounts:     map[string]bool{},
		clusterRoles: map[string][]rbacv1.PolicyRule{},
		roles:        map[string][]rbacv1.PolicyRule{},
	}}

	base, err := fs.ReadFile(root, basePath)
	if err != nil {
		return nil, err
	}
	if err := yaml.UnmarshalStrict(base, &src.base); err != nil {
		return nil, fmt.Errorf("%s: %w", basePath, err)
	}

	src.icon, err = fs.ReadFile(root, iconPath)
	if err != nil {
		return nil, err
	}

	config, err := copyToMemory(root, "config")
	if err != nil {
		return nil, err
	}

	objects, err := buildKustomization(config, installationDir)
	if err != nil {
		return nil, err
	}

	for _, object := range objects {
		if err := src.addObject(object); err != nil {
			return nil, fmt.Errorf("%s: %s %s: %w", installationDir, object.GetKind(), object.GetName(), err)
		}
	}

	src.samples, err = buildKustomization(config, samplesDir)
	return src, err
}

// copyToMemory copies a folder into a file system for kustomize.
func copyToMemory(root fs.FS, folder string) (filesys.FileSystem, error) {
	files, err := readTree(root, folder)
	if err != nil {
		return nil, err
	}
	memory := filesys.MakeFsInMemory()
	for name, content := range files {
		if err := memory.WriteFile(name, content); err != nil {
			return nil, err
		}
	}
	return memory, nil
}

// buildKustomization returns the objects of a kustomization in their order, like kustomize
// build.
func buildKustomization(files filesys.FileSystem, dir string) ([]unstructured.Unstructured, error) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, dir)
	if err != nil {
		return nil, fmt.Errorf("kustomize build %s: %w", dir, err)
	}

	var objects []unstructured.Unstructured
	for _, resource := range resources.Resources() {
		content, err := resource.AsYAML()
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", dir, resource.CurId(), err)
		}

		var object unstructured.Unstructured
		if err := yaml.Unmarshal(content, &object.Object); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", dir, resource.CurId(), err)
		}
		objects = append(objects, object)
	}

	return objects, nil
}

// addObject adds one object of the installation by its kind.
func (s *sources) addObject(object unstructured.Unstructured) error {
	if object.GetKind() == "ClusterRole" && unboundRoles[object.GetName()] {
		s.extras = append(s.extras, object)
		return nil
	}

	switch kind := object.GetKind(); kind {
	case "CustomResourceDefinition":
		s.crds = append(s.crds, crd{object: object})
		return convertTo(object, &s.crds[len(s.crds)-1].definition)
	case "Deployment":
		return appendTo(&s.deployments, object)
	case "Service":
		return appendTo(&s.services, object)
	case "ValidatingWebhookConfiguration":
		return appendTo(&s.validating, object)
	case "MutatingWebhookConfiguration":
		return appendTo(&s.mutating, object)
	case "ServiceAccount", "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding":
		return s.rbac.addObject(object)
	default:
		if !bundleKinds[kind] {
			return fmt.Errorf("OLM installs no %s from a bundle", kind)
		}

		s.extras = append(s.extras, object)
		return nil
	}
}

// addObject adds one access control object.
func (r *rbac) addObject(object unstructured.Unstructured) error {
	switch object.GetKind() {
	case "ServiceAccount":
		r.accounts[object.GetName()] = true
		return nil
	case "ClusterRole":
		var role rbacv1.ClusterRole
		err := convertTo(object, &role)
		r.clusterRoles[object.GetName()] = role.Rules
		return err
	case "Role":
		var role rbacv1.Role
		err := convertTo(object, &role)
		r.roles[object.GetName()] = role.Rules

		return err
	case "ClusterRoleBinding":
		return appendTo(&r.clusterRoleBindings, object)
	default:
		return appendTo(&r.roleBindings, object)
	}
}

// convertTo converts an object to its type. An unknown field is an error.
func convertTo(object unstructured.Unstructured, into any) error {
	content, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	return yaml.UnmarshalStrict(content, into)
}

func appendTo[T any](list *[]T, object unstructured.Unstructured) error {
	var typed T
	err := convertTo(object, &typed)
	*list = append(*list, typed)
	return err
}
