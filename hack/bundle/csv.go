package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// packageName is the operator's name in a catalog. It must never change.
const packageName = "cardquota"

// skipRange is the annotation for the versions from which this one may be installed directly.
const skipRange = "olm.skipRange"

// namespaceAnnotation is the base's annotation for the namespace of the operator.
const namespaceAnnotation = "operatorframework.io/suggested-namespace"

// clusterServiceVersion completes the base from the other files of config/.
func clusterServiceVersion(src *sources, release releaseOptions) (*v1alpha1.ClusterServiceVersion, error) {
	csv := src.base.DeepCopy()
	if err := release.setVersion(csv); err != nil {
		return nil, err
	}

	version := csv.Spec.Version.String()
	csv.Namespace = ""
	csv.Spec.Icon = []v1alpha1.Icon{{Data: base64.StdEncoding.EncodeToString(src.icon), MediaType: "image/svg+xml"}}

	if err := addExamples(csv, src.samples); err != nil {
		return nil, err
	}
	if err := completeCRDDescriptions(csv, src.crds); err != nil {
		return nil, err
	}

	namespace := csv.Annotations[namespaceAnnotation]
	strategy := v1alpha1.StrategyDetailsDeployment{}
	var err error
	strategy.ClusterPermissions, strategy.Permissions, err = src.rbac.accountPermissions(namespace)
	if err != nil {
		return nil, err
	}

	for _, deployment := range src.deployments {
		if deployment.Namespace != namespace {
			return nil, fmt.Errorf("deployment %s is in namespace %s, not in the suggested %s", deployment.Name, deployment.Namespace, namespace)
		}
		if account := deployment.Spec.Template.Spec.ServiceAccountName; !src.rbac.accounts[account] {
			return nil, fmt.Errorf("deployment %s: ServiceAccount %q is none of the installation", deployment.Name, account)
		}

		spec := *deployment.Spec.DeepCopy()
		containers := spec.Template.Spec.Containers
		for i := range containers {
			name, reference := release.images.imageReference(containers[i].Image, version)
			containers[i].Image = reference
			csv.Spec.RelatedImages = append(csv.Spec.RelatedImages, v1alpha1.RelatedImage{Name: name, Image: reference})
		}

		strategy.DeploymentSpecs = append(strategy.DeploymentSpecs, v1alpha1.StrategyDeploymentSpec{
			Name: deployment.Name, Label: deployment.Labels, Spec: spec,
		})
	}

	if len(csv.Spec.RelatedImages) == 0 {
		return nil, fmt.Errorf("%s has no Deployment", installationDir)
	}
	csv.Spec.WebhookDefinitions, err = src.webhookDefinitions()
	if err != nil {
		return nil, err
	}

	// The operator's page shows one image: the operator's, the first of the installation.
	csv.Annotations["containerImage"] = csv.Spec.RelatedImages[0].Image
	csv.Spec.InstallStrategy = v1alpha1.NamedInstallStrategy{
		StrategyName: v1alpha1.InstallStrategyNameDeployment, StrategySpec: strategy,
	}
	return csv, nil
}

// setVersion sets the version of a release and its place in the channel.
func (r releaseOptions) setVersion(csv *v1alpha1.ClusterServiceVersion) error {
	if r.version != "" {
		version, err := semver.Parse(r.version)
		if err != nil {
			return fmt.Errorf("version %q: %w", r.version, err)
		}
		csv.Spec.Version.Version = version
	}

	version := csv.Spec.Version.Version
	csv.Name = bundleName(version)
	before := strings.TrimPrefix(csv.Spec.Replaces, packageName+".v")
	if r.replaces != "" {
		before = r.replaces
	}

	if before == "" {
		return nil
	}

	replaced, err := semver.Parse(before)
	if err != nil {
		return fmt.Errorf("replaces %q: %w", before, err)
	}
	if replaced.GE(version) {
		return fmt.Errorf("version %s cannot replace %s", version, replaced)
	}

	csv.Spec.Replaces = bundleName(replaced)
	// Later patches of the previous version may be upgraded directly.
	csv.Annotations[skipRange] = fmt.Sprintf(">=%s <%s", replaced, version)
	return nil
}

// bundleName returns the name of a release's ClusterServiceVersion.
func bundleName(version semver.Version) string { return packageName + ".v" + version.String() }

// completeCRDDescriptions completes the entry of each owned definition. The base has its
// display name and related objects, the schema has the descriptions.
func completeCRDDescriptions(csv *v1alpha1.ClusterServiceVersion, crds []crd) error {
	type key struct{ name, version string }
	written := map[key]v1alpha1.CRDDescription{}
	for _, owned := range csv.Spec.CustomResourceDefinitions.Owned {
		written[key{owned.Name, owned.Version}] = owned
	}

	csv.Spec.CustomResourceDefinitions.Owned = nil
	for _, crd := range crds {
		for _, version := range crd.definition.Spec.Versions {
			k := key{crd.definition.Name, version.Name}
			owned, ok := written[k]
			if !ok {
				return fmt.Errorf("%s says nothing about %s %s under owned", basePath, k.name, k.version)
			}

			delete(written, k)
			schema := version.Schema.OpenAPIV3Schema
			owned.Kind = crd.definition.Spec.Names.Kind
			owned.Description = firstParagraph(schema.Description)

			var err error
			owned.SpecDescriptors, err = specDescriptors(schema.Properties["spec"])
			if err != nil {
				return fmt.Errorf("%s %s: %w", k.name, k.version, err)
			}

			owned.StatusDescriptors = statusDescriptors(schema.Properties["status"])
			csv.Spec.CustomResourceDefinitions.Owned = append(csv.Spec.CustomResourceDefinitions.Owned, owned)
		}
	}

	for k := range written {
		return fmt.Errorf("%s describes %s %s, which is not in %s", basePath, k.name, k.version, installationDir)
	}

	return nil
}

// createdExamples are objects of which OLM's validators want an example. They are no samples,
// because the operator creates them.
var createdExamples = []map[string]any{
	{"apiVersion": "cardquota.dev/v1alpha1", "kind": "CardInventory", "metadata": map[string]any{"name": "cluster"}},
	{"apiVersion": "cardquota.dev/v1alpha1", "kind": "LocalCardQuota", "metadata": map[string]any{"name": "local"}},
}

// addExamples adds the samples as examples for a console, and the policy as the first object to
// create: without a policy the scheduler waits.
func addExamples(csv *v1alpha1.ClusterServiceVersion, samples []unstructured.Unstructured) error {
	objects := make([]map[string]any, 0, len(samples))
	for _, sample := range samples {
		objects = append(objects, sample.Object)
		if sample.GetKind() == "ServiceTypePolicy" {
			text, err := json.MarshalIndent(sample.Object, "", "  ")
			if err != nil {
				return fmt.Errorf("write the first object: %w", err)
			}
			csv.Annotations["operatorframework.io/initialization-resource"] = string(text)
		}
	}

	objects = append(objects, createdExamples...)
	text, err := json.MarshalIndent(objects, "", "  ")
	if err != nil {
		return fmt.Errorf("write examples: %w", err)
	}

	csv.Annotations["alm-examples"] = string(text)
	return nil
}
