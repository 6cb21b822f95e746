module cardquota.dev/operator/hack/bundle

go 1.25.0

require (
	github.com/operator-framework/api v0.36.0
	k8s.io/api v0.34.1
	k8s.io/apiextensions-apiserver v0.34.1
	k8s.io/apimachinery v0.34.1
	sigs.k8s.io/yaml v1.6.0
)
