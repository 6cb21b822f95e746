module cardquota.dev/operator/hack/sbom

go 1.25.0

require github.com/CycloneDX/cyclonedx-go v0.12.0
