module cardquota.dev/operator/hack/style

go 1.25.0

require github.com/yuin/goldmark v1.8.7
