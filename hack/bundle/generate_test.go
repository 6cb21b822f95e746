package main

import (
	"errors"
	"io/fs"
	"maps"
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

func TestFirstSentence(t *testing.T) {
	for name, tc := range map[string]struct{ description, want string }{
		"one sentence":                       {"tenant is who the cards are for.", "tenant is who the cards are for."},
		"a second one that begins lower":     {"serviceType says what.\ninference gets more.", "serviceType says what."},
		"a second one that begins with 0":    {"quota is the ceiling, 0 to 9. 0 is nothing.", "quota is the ceiling, 0 to 9."},
		"lines are joined":                   {"cards is\nthe quota\tper card.", "cards is the quota per card."},
		"a full stop inside of a word":       {"name is as kubectl get x.y says, 1.5 times. More.", "name is as kubectl get x.y says, 1.5 times."},
		"an abbreviation":                    {"card is a model (e.g. H200) or etc. and so on. More.", "card is a model (e.g. H200) or etc. and so on."},
		"an example behind an empty line":    {"cards is the quota\n\n\t- name: x. y", "cards is the quota"},
		"a description without a full stop":  {"status of the condition", "status of the condition"},
		"a description that is empty at all": {"", ""},
	} {
		equal(t, name, firstSentence(tc.description), tc.want)
	}
}

func TestDisplayName(t *testing.T) {
	for path, want := range map[string]string{
		"tenant":               "Tenant",
		"queueName":            "Queue Name",
		"cards[0].overQuotaBy": "Cards Over Quota By",
		"resources.cpu":        "Resources CPU",

		"cardUnlimitedCPUMemory":        "Card Unlimited CPU Memory",
		"admission.vcjobEvictionPolicy": "Admission Volcano Job Eviction Policy",
	} {
		equal(t, "display name of "+path, displayName(path), want)
	}
}

func TestFieldsInsideOfConditionsAreRemoved(t *testing.T) {
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
	files, err := generateFrom(projectConfig(t), release)
	noError(t, err)
	return files
}

func TestWhatABundleCannotSayIsRefused(t *testing.T) {
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
		"a role without a binding": {
			"config/rbac/metrics_auth_role.yaml", "kind: ClusterRole\n  name: cardquota-metrics-auth",
			"kind: ClusterRole\n  name: cardquota-scheduler", "no account has ClusterRole cardquota-metrics-auth",
		},
		"a role in another namespace": {
			"config/rbac/manager_rolebinding.yaml", "kind: RoleBinding\nmetadata:\n  name: cardquota-manager\n  namespace: volcano-system",
			"kind: RoleBinding\nmetadata:\n  name: cardquota-manager\n  namespace: other", "a bundle grants only in its own",
		},
		"a foreign account": {
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
		"a definition that the base forgot": {
			basePath, "name: cardquotas.cardquota.dev", "name: tides.cardquota.dev", "says nothing about cardquotas.cardquota.dev",
		},
		"a foreign certificate": {
			"config/manifests/kustomization.yaml", "value: --webhook-certificates=Files", "value: --webhook-certificates=Self",
			"--webhook-certificates=Files is missing",
		},
		"a certificate of two": {
			"config/manager/deployment.yaml", "        - --leader-elect\n", "        - --leader-elect\n        - --webhook-certificates=Self\n",
			"says 2 times where its certificate comes from",
		},
		"a volume where OLM mounts its certificate": {
			"config/manager/deployment.yaml", "        ports:\n",
			"        volumeMounts: [{name: own, mountPath: /tmp/k8s-webhook-server/serving-certs}]\n        ports:\n",
			"volume own is mounted at /tmp/k8s-webhook-server/serving-certs",
		},
		"a webhook for some namespaces": {
			"config/webhook/manifests.yaml", "  failurePolicy: Fail\n",
			"  failurePolicy: Fail\n  namespaceSelector: {matchLabels: {a: b}}\n", "OLM replaces by the OperatorGroup's",
		},
		"a webhook behind a foreign Service": {
			"config/webhook/manifests.yaml", "name: cardquota-webhook", "name: other", "Service other is none of the installation",
		},
		"a webhook behind a port that is not there": {
			"config/webhook/manifests.yaml", "port: 443", "port: 8443", "Service cardquota-webhook has no port 8443",
		},
		"a webhook's Service that leads nowhere": {
			"config/webhook/service.yaml", "selector:\n    app.kubernetes.io/name: cardquota-manager",
			"selector:\n    app.kubernetes.io/name: cardquota", "selects no Deployment",
		},
		"a misspelt field": {
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
			expectThat(t, err != nil && strings.Contains(err.Error(), tc.want), "got error %v, want one that says %q", err, tc.want)
		})
	}
}

func TestScorecardRunsTheImageThatIsNamed(t *testing.T) {
	chosen := defaultRelease()
	chosen.scorecard = "registry.example/scorecard-test:v1.41.1"
	files := generateFor(t, chosen)

	var config struct {
		Stages []struct{ Tests []struct{ Image string } }
	}
	noError(t, yaml.Unmarshal(files["tests/scorecard/config.yaml"], &config))
	n := len(config.Stages[0].Tests)
	expectThat(t, n == 6, "%d tests, want 6", n)

	for _, test := range config.Stages[0].Tests {
		expectThat(t, test.Image == chosen.scorecard, "a test runs %s", test.Image)
	}
}

func TestImagesCanBeGivenByDigest(t *testing.T) {
	const digest = "registry.example/mirror/cardquota-scheduler@sha256:0123"
	chosen := defaultRelease()
	chosen.images.registry = "registry.example/team"
	noError(t, chosen.images.overrideImage("cardquota-scheduler="+digest))

	files := generateFor(t, chosen)
	csv := string(files["manifests/cardquota.clusterserviceversion.yaml"])
	for _, want := range []string{"image: " + digest + "\n", "image: registry.example/team/cardquota-manager:v0.2.0\n"} {
		n := strings.Count(csv, want)
		expectThat(t, n == 2, "%q stands %d times in the CSV, want in a container and in relatedImages", want, n)
	}

	for _, bad := range []string{"", "cardquota-manager", "=x", "cardquota-manager="} {
		err := chosen.images.overrideImage(bad)
		expectThat(t, err != nil, "-image %q was accepted", bad)
	}
}

func TestAReleaseHasItsPlaceInTheChannel(t *testing.T) {
	for name, tc := range map[string]struct {
		version, replaces            string
		wantName, wantReplaces, want string
	}{
		"the base's": {"", "", "cardquota.v0.2.0", "cardquota.v0.1.0", ">=0.1.0 <0.2.0"},
		"the next":   {"0.3.0", "0.2.1", "cardquota.v0.3.0", "cardquota.v0.2.1", ">=0.2.1 <0.3.0"},
		"a patch":    {"0.2.1", "0.2.0", "cardquota.v0.2.1", "cardquota.v0.2.0", ">=0.2.0 <0.2.1"},
	} {
		t.Run(name, func(t *testing.T) {
			csv := &v1alpha1.ClusterServiceVersion{}
			csv.Annotations = map[string]string{}
			csv.Spec.Version.Version = semver.MustParse("0.2.0")
			csv.Spec.Replaces = "cardquota.v0.1.0"
			noError(t, (releaseOptions{version: tc.version, replaces: tc.replaces}).setVersion(csv))
			if csv.Name != tc.wantName || csv.Spec.Replaces != tc.wantReplaces || csv.Annotations[skipRange] != tc.want {
				t.Errorf("got %s, replaces %s, skips %s; want %s, %s, %s",
					csv.Name, csv.Spec.Replaces, csv.Annotations[skipRange], tc.wantName, tc.wantReplaces, tc.want)
			}
		})
	}

	first := &v1alpha1.ClusterServiceVersion{}
	first.Spec.Version.Version = semver.MustParse("0.1.0")
	if err := (releaseOptions{}).setVersion(first); err != nil || first.Spec.Replaces != "" || len(first.Annotations) != 0 {
		t.Errorf("the first version replaces %q with %v (%v), want nothing", first.Spec.Replaces, first.Annotations, err)
	}

	for _, bad := range []releaseOptions{{version: "next"}, {replaces: "0.9.0"}, {replaces: "0.2.0"}, {replaces: "before"}} {
		csv := &v1alpha1.ClusterServiceVersion{}
		csv.Spec.Version.Version = semver.MustParse("0.2.0")
		if err := bad.setVersion(csv); err == nil {
			t.Errorf("version %q that replaces %q was accepted", bad.version, bad.replaces)
		}
	}
}

func TestWriteLeavesNothingOld(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bundle")
	first := map[string][]byte{"manifests/a.yaml": []byte("a"), "manifests/b.yaml": []byte("b")}
	second := map[string][]byte{"manifests/b.yaml": []byte("B"), "metadata/c.yaml": []byte("c")}
	for _, files := range []map[string][]byte{first, second} {
		noError(t, writeFiles(dir, files))
		got, err := readTree(os.DirFS(dir), ".")
		noError(t, err)
		equal(t, "folder (-want +got)", fileTexts(files), fileTexts(got))
	}
}

func TestRunNeedsAProject(t *testing.T) {
	err := run([]string{"-root", t.TempDir()})
	expectThat(t, errors.Is(err, fs.ErrNotExist), "got error %v, want one about the missing file", err)
}

func TestTheSameSourcesGiveTheSameBytes(t *testing.T) {
	first := generateFor(t, defaultRelease())
	for range 5 {
		again := generateFor(t, defaultRelease())
		requireThat(t, maps.EqualFunc(first, again, func(a, b []byte) bool { return string(a) == string(b) }), "two runs over the same sources differ")
	}
}
