// Package releases says which releases of kubectl cardquota and of the programs in the cluster fit
// together. It is pure.
package releases

import (
	"fmt"
	"regexp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/version"
)

// Compare returns why a program of the cluster does not fit the client, "" if it fits or one of the
// versions is no release. Patch releases of one minor release fit together.
func Compare(client, program, other string) string {
	ours, err := version.ParseSemantic(client)
	theirs, otherErr := version.ParseSemantic(other)
	if err != nil || otherErr != nil || isUnreleased(ours) || isUnreleased(theirs) {
		return ""
	}
	if ours.Major() == theirs.Major() && ours.Minor() == theirs.Minor() {
		return ""
	}

	advice := "install kubectl cardquota of that release"
	if theirs.LessThan(ours) {
		advice += ", or upgrade the cluster: docs/upgrade.md"
	}

	return fmt.Sprintf("kubectl cardquota %s does not fit %s %s: fields of one may be unknown to the other. Use the same minor release: %s", client, program, other, advice)
}

// isUnreleased reports whether a version is of a build without a release, which is 0.0.x.
func isUnreleased(v *version.Version) bool { return v.Major() == 0 && v.Minor() == 0 }

// tagPattern has the tags that are a version of a release or of a build after one.
var tagPattern = regexp.MustCompile(`^v?[0-9]+\.[0-9]+\.[0-9]+([-+].*)?$`)

// operatorContainer is the container of the operator in its Deployment. Others beside it, such as the proxy of
// a service mesh, have versions of their own.
const operatorContainer = "manager"

// OfOperator returns the version of the operator by the image in the first of its Deployments that states one,
// "" if none does.
func OfOperator(deployments []*appsv1.Deployment) string {
	for _, deployment := range deployments {
		for _, container := range deployment.Spec.Template.Spec.Containers {
			if version := imageVersion(container.Image); container.Name == operatorContainer && version != "" {
				return version
			}
		}
	}
	return ""
}

// imageVersion returns the version in the tag of an image, "" if it has another tag or a digest alone. A colon
// before the last slash is that of a registry's port.
func imageVersion(image string) string {
	image, _, _ = strings.Cut(image, "@")
	name := image[strings.LastIndex(image, "/")+1:]
	_, tag, _ := strings.Cut(name, ":")
	if !tagPattern.MatchString(tag) {
		return ""
	}
	return tag
}
