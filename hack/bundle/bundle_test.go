package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/api/pkg/validation"
	validator "github.com/operator-framework/api/pkg/validation/interfaces"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// projectRoot is the project's root relative to this package. Go does not know that these tests
// depend on files outside of this module: run them with -count=1, or Go may show a cached
// result.
const projectRoot = "../.."

func noError(t *testing.T, err error) {
	t.Helper()
	requireThat(t, err == nil, "%v", err)
}

// value returns what a call returned beside its error, and ends the test on an error.
func value[V any](v V, err error) func(*testing.T) V {
	return func(t *testing.T) V {
		t.Helper()
		noError(t, err)
		return v
	}
}

// expectRefused reports an error that does not have a text, or none.
func expectRefused(t *testing.T, err error, want string) {
	t.Helper()
	expectThat(t, err != nil && strings.Contains(err.Error(), want), "got error %v, want …%s…", err, want)
}

// expectThat reports a failed condition.
func expectThat(t *testing.T, isTrue bool, format string, args ...any) {
	t.Helper()
	if !isTrue {
		t.Errorf(format, args...)
	}
}

// requireThat is expectThat, but ends the test.
func requireThat(t *testing.T, isTrue bool, format string, args ...any) {
	t.Helper()
	if !isTrue {
		t.Fatalf(format, args...)
	}
}

// equal reports a difference under a title that names both sides.
func equal[V any](t *testing.T, what string, left, right V) {
	t.Helper()
	diff := cmp.Diff(left, right)
	expectThat(t, diff == "", "%s:\n%s", what, diff)
}

func loadBundle(t *testing.T) *manifests.Bundle {
	t.Helper()
	return value(manifests.GetBundleFromDir(filepath.Join(projectRoot, bundleDir)))(t)
}

func committedFile(t *testing.T, name string) []byte {
	t.Helper()
	return value(os.ReadFile(filepath.Join(projectRoot, bundleDir, name)))(t)
}

// validatorComplaints returns the errors and warnings of every validator that operator-sdk runs
// for suite=operatorframework and for the kinds in a bundle.
func validatorComplaints(bundle *manifests.Bundle) []string {
	validators := append(slices.Clone(validation.DefaultBundleValidators), validator.Validators{
		validation.OperatorHubV2Validator,
		validation.StandardCapabilitiesValidator,
		validation.StandardCategoriesValidator,
		validation.GoodPracticesValidator,
		validation.AlphaDeprecatedAPIsValidator,
		validation.ObjectValidator,
	}...)
	objects := append(bundle.ObjectsToValidate(), map[string]string{"k8s-version": "1.34"})

	var list []string
	for _, result := range validators.Validate(objects...) {
		for _, complaint := range append(result.Errors, result.Warnings...) {
			list = append(list, fmt.Sprintf("%s: %v", complaint.Level, complaint))
		}
	}

	return list
}

// TestValidatorsFindNoErrorAndNoWarningInTheBundle: OLM installs the operator from the files of bundle/. The
// validators of operator-sdk for such a bundle must find nothing. They read only the first object of a file, so
// the bundle must also have all objects. These are a ClusterServiceVersion (CSV), the definitions and policies
// of config/, two Services, and the ClusterRole that administrators bind by themselves.
func TestValidatorsFindNoErrorAndNoWarningInTheBundle(t *testing.T) {
	bundle := loadBundle(t)
	for _, complaint := range validatorComplaints(bundle) {
		t.Error(complaint)
	}

	want := map[string]int{
		"ClusterServiceVersion":    1,
		"CustomResourceDefinition": len(configObjects(t, "crd/bases/*.yaml")),
		"Service":                  2,
		"ClusterRole":              1,
		"NetworkPolicy":            len(configObjects(t, "networkpolicy/*.yaml")),
	}
	got := map[string]int{}
	for _, object := range bundle.Objects {
		got[object.GetKind()]++
	}
	equal(t, "objects of the bundle by kind (-want +got)", want, got)
}

// TestValidatorsComplainAboutABundleThatIsWrong: TestValidatorsFindNoErrorAndNoWarningInTheBundle would also
// pass if the validators did not run. So each row breaks the bundle in one way, and wants a complaint of one of
// them.
func TestValidatorsComplainAboutABundleThatIsWrong(t *testing.T) {
	for name, tc := range map[string]struct {
		breakBundle func(b *manifests.Bundle)
		want        string
	}{
		"no icon": {func(b *manifests.Bundle) { b.CSV.Spec.Icon = nil }, "Icon not specified"},
		// A permission names no version, so it may be for one that Kubernetes has removed, unless the CSV lists one.
		"a permission for PodDisruptionBudgets, and no version of them in the CSV": {func(b *manifests.Bundle) {
			for i := range b.CSV.Spec.CustomResourceDefinitions.Owned {
				b.CSV.Spec.CustomResourceDefinitions.Owned[i].Resources = nil
			}

			// The validator of permissions reads the CSV among the objects.
			content := value(runtime.DefaultUnstructuredConverter.ToUnstructured(b.CSV))(t)
			for _, object := range b.Objects {
				if object.GetKind() == "ClusterServiceVersion" {
					object.Object["spec"] = content["spec"]
				}
			}
		}, "poddisruptionbudgets"},
		"an unknown category": {
			func(b *manifests.Bundle) { b.CSV.Annotations["categories"] = "Cards" }, "standard categories",
		},
		"a capability level that does not exist": {
			func(b *manifests.Bundle) { b.CSV.Annotations["capabilities"] = "Full" }, "capabilities",
		},
		"a channel that is only a version": {
			func(b *manifests.Bundle) { b.Channels = []string{"v0"} }, "naming convention",
		},
		"a CustomResourceDefinition that the CSV does not describe": {
			func(b *manifests.Bundle) { b.CSV.Spec.CustomResourceDefinitions.Owned = nil }, "not defined in CSV",
		},
		"a CustomResourceDefinition without an example": {
			func(b *manifests.Bundle) { b.CSV.Annotations["alm-examples"] = "[]" }, "example",
		},
		"a container without resource requests": {
			func(b *manifests.Bundle) { firstContainer(b).Resources.Requests = nil }, "resource requests",
		},
		"a ServiceAccount that the CSV creates, as an object of its own": {func(b *manifests.Bundle) {
			b.Objects = append(b.Objects, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": "cardquota-manager"},
			}})
		}, "invalid service account"},
	} {
		t.Run(name, func(t *testing.T) {
			bundle := loadBundle(t)
			tc.breakBundle(bundle)
			list := strings.Join(validatorComplaints(bundle), "\n")
			expectThat(t, strings.Contains(list, tc.want), "want a complaint about %q, got:\n%s", tc.want, list)
		})
	}
}

// TestTheBundleIsWhatConfigGenerates: bundle/ is generated from config/, and never edited. The files on disk
// are those that make bundle would write now.
func TestTheBundleIsWhatConfigGenerates(t *testing.T) {
	generated := value(generateFrom(os.DirFS(projectRoot), defaultRelease()))(t)
	onDisk := value(readTree(os.DirFS(filepath.Join(projectRoot, bundleDir)), "."))(t)
	equal(t, "bundle/ is not what config/ generates, run make bundle (-generated +on disk)", fileTexts(generated), fileTexts(onDisk))
}

// TestTheAnnotationsOfTheBundleAreTheLabelsOfItsImage: OLM reads the package and channels of a bundle from
// annotations.yaml, and a registry from the labels of its image. Both must be the same eight.
func TestTheAnnotationsOfTheBundleAreTheLabelsOfItsImage(t *testing.T) {
	var file struct {
		Annotations map[string]string `json:"annotations"`
	}
	noError(t, yaml.UnmarshalStrict(committedFile(t, "metadata/annotations.yaml"), &file))

	labels := map[string]string{}
	line := regexp.MustCompile(`(?m)^LABEL ([^=\s]+)=(.+)$`)
	for _, label := range line.FindAllStringSubmatch(string(committedFile(t, "bundle.Dockerfile")), -1) {
		labels[label[1]] = label[2]
	}

	equal(t, "annotations and labels differ (-annotations +labels)", file.Annotations, labels)
	expectThat(t, len(labels) == 8, "got %d labels, want the 8 of a bundle with a scorecard", len(labels))
}

// TestTextsOfTheBundleFitACatalog: OperatorHub shows a name of 3 to 50 characters, a description of at least 20, and a
// short one of at most 135. It also needs some annotations, keywords and the maturity.
func TestTextsOfTheBundleFitACatalog(t *testing.T) {
	csv := loadBundle(t).CSV
	name := csv.Spec.DisplayName
	short := []rune(csv.Annotations["description"])
	expectThat(t, len(name) >= 3 && len(name) <= 50, "displayName has %d characters, want 3 to 50", len(name))
	expectThat(t, len(csv.Spec.Description) >= 20, "description has %d characters, want 20 or more", len(csv.Spec.Description))
	expectThat(t, len(short) > 0 && len(short) <= 135, "the short description has %d characters, want 1 to 135", len(short))

	for _, key := range []string{"containerImage", "createdAt", "repository", "support", namespaceAnnotation} {
		expectThat(t, csv.Annotations[key] != "", "annotation %s is missing", key)
	}
	expectThat(t, len(csv.Spec.Keywords) > 0, "there are no keywords")
	expectThat(t, csv.Spec.Maturity != "", "the maturity is missing")
}

// TestTheOperatorIsInstalledForAllNamespacesOnly: queues and nodes belong to the whole cluster, so the operator
// cannot be limited to some namespaces. Of OLM's four install modes the bundle supports AllNamespaces only.
func TestTheOperatorIsInstalledForAllNamespacesOnly(t *testing.T) {
	got := map[v1alpha1.InstallModeType]bool{}
	for _, mode := range loadBundle(t).CSV.Spec.InstallModes {
		got[mode.Type] = mode.Supported
	}
	want := map[v1alpha1.InstallModeType]bool{
		v1alpha1.InstallModeTypeOwnNamespace:    false,
		v1alpha1.InstallModeTypeSingleNamespace: false,
		v1alpha1.InstallModeTypeMultiNamespace:  false,
		v1alpha1.InstallModeTypeAllNamespaces:   true,
	}
	equal(t, "install modes (-want +got)", want, got)
}

func firstContainer(b *manifests.Bundle) *corev1.Container {
	return &b.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers[0]
}

// fileTexts converts files to texts, for readable differences.
func fileTexts(files map[string][]byte) map[string]string {
	list := map[string]string{}
	for name, content := range files {
		list[name] = string(content)
	}
	return list
}

func almExamples(t *testing.T, csv *v1alpha1.ClusterServiceVersion) []map[string]any {
	t.Helper()
	var list []map[string]any
	noError(t, json.Unmarshal([]byte(csv.Annotations["alm-examples"]), &list))
	return list
}
