module cardquota.dev/operator/hack/boards

go 1.25.0

require github.com/grafana/grafana-foundation-sdk/go v0.0.12
