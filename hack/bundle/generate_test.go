package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// TestADescriptorHasTheFirstSentenceOfAField: the CSV (ClusterServiceVersion) describes each field in one
// sentence, the first one of its comment in the API. A sentence ends with a full stop before a word or number,
// but not after an abbreviation or within a word. Lines are joined, and an empty line ends the sentence too.
func TestADescriptorHasTheFirstSentenceOfAField(t *testing.T) {
	for name, tc := range map[string]struct{ description, want string }{
		"one sentence": {"tenant is who the cards are for.", "tenant is who the cards are for."},
		"a second sentence that begins in lower case": {"serviceType says what.\ninference gets more.", "serviceType says what."},
		"a second sentence that begins with a number": {"quota is the ceiling, 0 to 9. 0 is nothing.", "quota is the ceiling, 0 to 9."},
		"a sentence of two lines":                     {"cards is\nthe quota\tper card.", "cards is the quota per card."},
		"full stops within words and numbers": {
			"name is as kubectl get x.y says, 1.5 times. More.", "name is as kubectl get x.y says, 1.5 times.",
		},
		"abbreviations": {
			"card is a model (e.g. H200) or etc. and so on. More.", "card is a model (e.g. H200) or etc. and so on.",
		},
		"an example behind an empty line": {"cards is the quota\n\n\t- name: x. y", "cards is the quota"},
		"no full stop":                    {"status of the condition", "status of the condition"},
		"no text":                         {"", ""},
	} {
		equal(t, name, tc.want, firstSentence(tc.description))
	}
}

// TestTheNameOfAFieldIsWrittenInWords: a console shows the path of a field in words with capitals, without the
// indices of lists. CPU stays in capitals, and vcjob becomes Volcano Job.
func TestTheNameOfAFieldIsWrittenInWords(t *testing.T) {
	for path, want := range map[string]string{
		"tenant":               "Tenant",
		"queueName":            "Queue Name",
		"cards[0].overQuotaBy": "Cards Over Quota By",
		"resources.cpu":        "Resources CPU",

		"cardUnlimitedCPUMemory":        "Card Unlimited CPU Memory",
		"admission.vcjobEvictionPolicy": "Admission Volcano Job Eviction Policy",
	} {
		equal(t, "display name of "+path, want, displayName(path))
	}
}

// TestFieldsInsideOfConditionsAreNotListed: the CSV (ClusterServiceVersion) describes each field of a status,
// but the fields of a condition are the same everywhere. So the list conditions, whose key is the type, is one
// field. The schema has fields a and z, a list whose items have b, and conditions with a type.
func TestFieldsInsideOfConditionsAreNotListed(t *testing.T) {
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	schema := apiextensionsv1.JSONSchemaProps{
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"a": text, "z": text,
			"list": {Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{
				Properties: map[string]apiextensionsv1.JSONSchemaProps{"b": text},
			}}},
			"conditions": {
				XListMapKeys: []string{"type"},
				Items:        &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{"type": text}}},
			},
		},
	}

	var got []string
	for _, f := range listFields(schema, "") {
		got = append(got, f.path)
	}
	equal(t, "fields (-want +got)", []string{"a", "conditions", "list", "list[0].b", "z"}, got)
}

// projectConfig returns this project's config/ in memory, so that a test can change it.
func projectConfig(t *testing.T) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	err := fs.WalkDir(os.DirFS(projectRoot), "config", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(os.DirFS(projectRoot), name)
		files[name] = &fstest.MapFile{Data: content}
		return err
	})

	noError(t, err)
	return files
}

func generateFrom(files fs.FS, release releaseOptions) (map[string][]byte, error) {
	src, err := readSources(files)
	if err != nil {
		return nil, err
	}
	return generateFiles(src, release)
}

func generateFor(t *testing.T, release releaseOptions) map[string][]byte {
	t.Helper()
	return value(generateFrom(projectConfig(t), release))(t)
}

// TestConfigurationsThatABundleCannotInstallAreRefused: OLM installs less than kubectl apply, and some of it
// differently. A change of config/ that a bundle cannot express must fail, and not be lost. Each row replaces a
// text in one file of config/, and wants an error with a text. The file of basePath is the base of the CSV
// (ClusterServiceVersion).
func TestConfigurationsThatABundleCannotInstallAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		file, old, replacement string
		want                   string
	}{
		"a kustomization that does not build": {
			"config/manager/kustomization.yaml", "- deployment.yaml", "- statefulset.yaml", "statefulset.yaml",
		},
		"a kind that OLM does not install": {
			"config/networkpolicy/networkpolicy.yaml", "kind: NetworkPolicy", "kind: Ingress", "OLM installs no Ingress",
		},
		"a ClusterRole without a binding, which OLM would never remove": {
			"config/rbac/metrics_auth_role.yaml", "kind: ClusterRole\n  name: cardquota-metrics-auth",
			"kind: ClusterRole\n  name: cardquota-scheduler", "no account has ClusterRole cardquota-metrics-auth",
		},
		"a role in another namespace": {
			"config/rbac/manager_rolebinding.yaml", "kind: RoleBinding\nmetadata:\n  name: cardquota-manager\n  namespace: volcano-system",
			"kind: RoleBinding\nmetadata:\n  name: cardquota-manager\n  namespace: other", "a bundle grants only in its own",
		},
		"a role for an account of another installation": {
			"config/rbac/scheduler_rolebinding.yaml", "- kind: ServiceAccount\n  name: cardquota-scheduler",
			"- kind: ServiceAccount\n  name: default", "default is no ServiceAccount of the installation",
		},
		"a role that does not exist": {
			"config/rbac/scheduler_rolebinding.yaml", "kind: Role\n  name: cardquota-scheduler",
			"kind: Role\n  name: operator", "Role operator is no Role of the installation",
		},
		"a Deployment in another namespace": {
			"config/manager/deployment.yaml", "namespace: volcano-system", "namespace: other", "not in the suggested volcano-system",
		},
		"a Deployment without an account": {
			"config/manager/deployment.yaml", "serviceAccountName: cardquota-manager", "serviceAccountName: default", `ServiceAccount "default" is none`,
		},
		"a CustomResourceDefinition that the base of the CSV does not describe": {
			basePath, "name: cardquotas.cardquota.dev", "name: tides.cardquota.dev", "says nothing about cardquotas.cardquota.dev",
		},
		"webhooks with a certificate of their own, although OLM mounts one": {
			"config/manifests/kustomization.yaml", "value: --webhook-certificates=Files", "value: --webhook-certificates=Self",
			"--webhook-certificates=Files is missing",
		},
		"webhooks with a certificate from two sources": {
			"config/manager/deployment.yaml", "        - --leader-elect\n", "        - --leader-elect\n        - --webhook-certificates=Self\n",
			"says 2 times where its certificate comes from",
		},
		"a volume where OLM mounts its certificate": {
			"config/manager/deployment.yaml", "        ports:\n",
			"        volumeMounts: [{name: own, mountPath: /tmp/k8s-webhook-server/serving-certs}]\n        ports:\n",
			"volume own is mounted at /tmp/k8s-webhook-server/serving-certs",
		},
		"a webhook with a namespaceSelector": {
			"config/webhook/manifests.yaml", "  failurePolicy: Fail\n",
			"  failurePolicy: Fail\n  namespaceSelector: {matchLabels: {a: b}}\n", "OLM replaces by the OperatorGroup's",
		},
		"a webhook behind a Service of another installation": {
			"config/webhook/manifests.yaml", "name: cardquota-webhook", "name: other", "Service other is none of the installation",
		},
		"a webhook behind a port that its Service does not have": {
			"config/webhook/manifests.yaml", "port: 443", "port: 8443", "Service cardquota-webhook has no port 8443",
		},
		"a webhook whose Service selects no Deployment": {
			"config/webhook/service.yaml", "selector:\n    app.kubernetes.io/name: cardquota-manager",
			"selector:\n    app.kubernetes.io/name: cardquota", "selects no Deployment",
		},
		"a misspelt field in the base of the CSV": {
			basePath, "minKubeVersion:", "minKubernetesVersion:", "unknown field",
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := projectConfig(t)
			content := string(files[tc.file].Data)
			changed := strings.Replace(content, tc.old, tc.replacement, 1)
			requireThat(t, changed != content, "%s does not contain %q", tc.file, tc.old)

			files[tc.file] = &fstest.MapFile{Data: []byte(changed)}
			_, err := generateFrom(files, defaultRelease())
			expectRefused(t, err, tc.want)
		})
	}
}

// TestScorecardRunsTheImageOfTheOption: operator-sdk's scorecard runs six tests as pods. Option
// -scorecard-image is the image of all of them, as clusters may pull from a registry of their own only.
func TestScorecardRunsTheImageOfTheOption(t *testing.T) {
	chosen := defaultRelease()
	chosen.scorecard = "registry.example/scorecard-test:v1.41.1"
	files := generateFor(t, chosen)

	var config struct {
		Stages []struct{ Tests []struct{ Image string } }
	}
	noError(t, yaml.Unmarshal(files["tests/scorecard/config.yaml"], &config))
	expectThat(t, len(config.Stages[0].Tests) == 6, "%d tests, want 6", len(config.Stages[0].Tests))
	for _, test := range config.Stages[0].Tests {
		expectThat(t, test.Image == chosen.scorecard, "a test runs %s", test.Image)
	}
}

// TestImagesCanBeReplacedByDigestAndRegistry: clusters without access to the internet have a mirror. An image
// of an option, here with a digest, is used as it is, and the others come from the registry of the option. Each
// stands twice in the CSV (ClusterServiceVersion): in a container and in relatedImages, by which a mirror is
// filled. An option without a name or an image is refused.
func TestImagesCanBeReplacedByDigestAndRegistry(t *testing.T) {
	const digest = "registry.example/mirror/cardquota-scheduler@sha256:0123"
	chosen := defaultRelease()
	chosen.images.registry = "registry.example/team"
	noError(t, chosen.images.overrideImage("cardquota-scheduler="+digest))

	files := generateFor(t, chosen)
	csv := string(files["manifests/cardquota.clusterserviceversion.yaml"])
	for _, want := range []string{"image: " + digest + "\n", "image: registry.example/team/cardquota-manager:v0.2.0\n"} {
		expectThat(t, strings.Count(csv, want) == 2, "%q stands %d times in the CSV, want 2", want, strings.Count(csv, want))
	}

	for _, bad := range []string{"", "cardquota-manager", "=x", "cardquota-manager="} {
		expectThat(t, chosen.images.overrideImage(bad) != nil, "-image %q was accepted", bad)
	}
}

// newCSV is a CSV of a version, as the base of config/manifests has it.
func newCSV(version, replaces string) *v1alpha1.ClusterServiceVersion {
	csv := &v1alpha1.ClusterServiceVersion{}
	csv.Annotations = map[string]string{}
	csv.Spec.Version.Version = semver.MustParse(version)
	csv.Spec.Replaces = replaces
	return csv
}

// TestAReleaseReplacesTheOneBefore: OLM upgrades along a channel, by the version that a CSV
// (ClusterServiceVersion) replaces and by the range of versions that it may skip. The base has version 0.2.0,
// which replaces 0.1.0. Options may change its version, and what it replaces.
func TestAReleaseReplacesTheOneBefore(t *testing.T) {
	for name, tc := range map[string]struct {
		options                           releaseOptions
		wantName, wantReplaces, wantSkips string
	}{
		"no options": {releaseOptions{}, "cardquota.v0.2.0", "cardquota.v0.1.0", ">=0.1.0 <0.2.0"},
		"version 0.3.0 replaces 0.2.1": {
			releaseOptions{version: "0.3.0", replaces: "0.2.1"}, "cardquota.v0.3.0", "cardquota.v0.2.1", ">=0.2.1 <0.3.0",
		},
		"version 0.2.1 replaces 0.2.0": {
			releaseOptions{version: "0.2.1", replaces: "0.2.0"}, "cardquota.v0.2.1", "cardquota.v0.2.0", ">=0.2.0 <0.2.1",
		},
	} {
		csv := newCSV("0.2.0", "cardquota.v0.1.0")
		noError(t, tc.options.setVersion(csv))

		equal(t, name+": name", tc.wantName, csv.Name)
		equal(t, name+": replaces", tc.wantReplaces, csv.Spec.Replaces)
		equal(t, name+": skips", tc.wantSkips, csv.Annotations[skipRange])
	}
}

// TestTheFirstReleaseReplacesNone: the first release has no version before it. So its CSV
// (ClusterServiceVersion) replaces none, and has no annotation with a range of versions to skip.
func TestTheFirstReleaseReplacesNone(t *testing.T) {
	first := newCSV("0.1.0", "")
	noError(t, (releaseOptions{}).setVersion(first))
	equal(t, "replaces", "", first.Spec.Replaces)
	equal(t, "annotations", map[string]string{}, first.Annotations)
}

// TestAReleaseMustBeNewerThanTheOneThatItReplaces: the base has version 0.2.0. It cannot replace 0.9.0, which is newer, or
// itself, and texts that are no versions are refused.
func TestAReleaseMustBeNewerThanTheOneThatItReplaces(t *testing.T) {
	for _, bad := range []releaseOptions{{version: "next"}, {replaces: "0.9.0"}, {replaces: "0.2.0"}, {replaces: "before"}} {
		expectThat(t, bad.setVersion(newCSV("0.2.0", "")) != nil, "version %q that replaces %q was accepted", bad.version, bad.replaces)
	}
}

// TestWritingABundleRemovesTheFilesOfTheOneBefore: a file that is no longer generated must not stay in bundle/. The second
// bundle has no a.yaml, another b.yaml and a new c.yaml.
func TestWritingABundleRemovesTheFilesOfTheOneBefore(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "bundle")
	first := map[string][]byte{"manifests/a.yaml": []byte("a"), "manifests/b.yaml": []byte("b")}
	second := map[string][]byte{"manifests/b.yaml": []byte("B"), "metadata/c.yaml": []byte("c")}
	for _, files := range []map[string][]byte{first, second} {
		noError(t, writeFiles(folder, files))
		equal(t, "folder (-want +got)", fileTexts(files), fileTexts(value(readTree(os.DirFS(folder), "."))(t)))
	}
}

// TestGeneratingInAFolderWithoutTheProjectFails: -root must be the project. In an empty folder, the error says
// that a file does not exist.
func TestGeneratingInAFolderWithoutTheProjectFails(t *testing.T) {
	err := run([]string{"-root", t.TempDir()})
	expectThat(t, errors.Is(err, fs.ErrNotExist), "got error %v, want one about the missing file", err)
}

// TestTheSameSourcesGiveTheSameBundle: a bundle is committed, and compared with a new one in CI. So the order
// of its parts must not be random. Six runs write the same bytes.
func TestTheSameSourcesGiveTheSameBundle(t *testing.T) {
	first := generateFor(t, defaultRelease())
	for range 5 {
		equal(t, "files (-first run +later run)", fileTexts(first), fileTexts(generateFor(t, defaultRelease())))
	}
}
