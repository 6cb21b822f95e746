package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const (
	installation = "config/default"
	samples      = "config/samples"
	basePath     = "config/manifests/bases/cardquota.clusterserviceversion.yaml"
	iconPath     = "config/manifests/bases/icon.svg"
)

// sources is everything a bundle is made of.
type sources struct {
	// base is the ClusterServiceVersion as far as people write it; icon is its SVG.
	base v1alpha1.ClusterServiceVersion
	icon []byte
	// crds are the definitions, with the file each was read from.
	crds        []crdFile
	deployments []appsv1.Deployment
	rbac        rbac
	// extras are the other objects of an installation that a bundle may hold.
	extras []unstructured.Unstructured
	// samples are the examples, in the order of their kustomization.
	samples []unstructured.Unstructured
}

type crdFile struct {
	name       string
	content    []byte
	definition apiextensionsv1.CustomResourceDefinition
}

// rbac is who may do what, as config/ says it in objects.
type rbac struct {
	accounts            map[string]bool
	clusterRoles, roles map[string][]rbacv1.PolicyRule
	clusterRoleBindings []rbacv1.ClusterRoleBinding
	roleBindings        []rbacv1.RoleBinding
}

// bundleKinds are the kinds that OLM installs from a bundle beside what the
// ClusterServiceVersion carries
// (github.com/operator-framework/operator-registry pkg/lib/bundle/supported_resources.go).
var bundleKinds = map[string]bool{
	"ConfigMap": true, "ConsolePlugin": true, "PodDisruptionBudget": true, "PriorityClass": true,
	"PrometheusRule": true, "Secret": true, "Service": true, "ServiceMonitor": true,
}

// readSources reads the project whose root is given.
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
	if src.icon, err = fs.ReadFile(root, iconPath); err != nil {
		return nil, err
	}
	if err := eachDocument(root, installation, src.add); err != nil {
		return nil, err
	}
	err = eachDocument(root, samples, func(_ string, content []byte, obj unstructured.Unstructured) error {
		src.samples = append(src.samples, obj)
		return nil
	})
	return src, err
}

// kustomization is all that the generator understands of a kustomization. Anything else, such
// as a patch, is refused: the bundle would silently differ from what kustomize installs.
type kustomization struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Resources  []string `json:"resources"`
}

// eachDocument calls visit for every object of the kustomization in dir, in its order.
func eachDocument(root fs.FS, dir string, visit func(file string, content []byte, obj unstructured.Unstructured) error) error {
	name := path.Join(dir, "kustomization.yaml")
	content, err := fs.ReadFile(root, name)
	if err != nil {
		return err
	}
	var list kustomization
	if err := yaml.UnmarshalStrict(content, &list); err != nil {
		return fmt.Errorf("%s: only resources are understood: %w", name, err)
	}
	for _, resource := range list.Resources {
		file := path.Join(dir, resource)
		info, err := fs.Stat(root, file)
		if err != nil {
			return err
		}
		if info.IsDir() {
			err = eachDocument(root, file, visit)
		} else {
			err = eachDocumentOf(root, file, visit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func eachDocumentOf(root fs.FS, file string, visit func(string, []byte, unstructured.Unstructured) error) error {
	content, err := fs.ReadFile(root, file)
	if err != nil {
		return err
	}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		var obj unstructured.Unstructured
		if err := yaml.Unmarshal(document, &obj.Object); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if len(obj.Object) == 0 {
			continue
		}
		if err := visit(file, document, obj); err != nil {
			return fmt.Errorf("%s: %s %s: %w", file, obj.GetKind(), obj.GetName(), err)
		}
	}
}

// add sorts one object of the installation to where a bundle keeps its kind.
func (s *sources) add(file string, content []byte, obj unstructured.Unstructured) error {
	switch kind := obj.GetKind(); kind {
	case "CustomResourceDefinition":
		crd := crdFile{name: path.Base(file), content: bytes.TrimLeft(content, "\n")}
		s.crds = append(s.crds, crd)
		return yaml.UnmarshalStrict(content, &s.crds[len(s.crds)-1].definition)
	case "Deployment":
		s.deployments = append(s.deployments, appsv1.Deployment{})
		return yaml.UnmarshalStrict(content, &s.deployments[len(s.deployments)-1])
	case "ServiceAccount", "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding":
		return s.rbac.add(kind, obj.GetName(), content)
	default:
		if !bundleKinds[kind] {
			return fmt.Errorf("OLM installs no %s from a bundle", kind)
		}
		s.extras = append(s.extras, obj)
		return nil
	}
}

// add keeps one object of access control.
func (r *rbac) add(kind, name string, content []byte) error {
	var err error
	switch kind {
	case "ServiceAccount":
		r.accounts[name] = true
	case "ClusterRole":
		var role rbacv1.ClusterRole
		err = yaml.UnmarshalStrict(content, &role)
		r.clusterRoles[name] = role.Rules
	case "Role":
		var role rbacv1.Role
		err = yaml.UnmarshalStrict(content, &role)
		r.roles[name] = role.Rules
	case "ClusterRoleBinding":
		r.clusterRoleBindings = append(r.clusterRoleBindings, rbacv1.ClusterRoleBinding{})
		err = yaml.UnmarshalStrict(content, &r.clusterRoleBindings[len(r.clusterRoleBindings)-1])
	case "RoleBinding":
		r.roleBindings = append(r.roleBindings, rbacv1.RoleBinding{})
		err = yaml.UnmarshalStrict(content, &r.roleBindings[len(r.roleBindings)-1])
	}
	return err
}
