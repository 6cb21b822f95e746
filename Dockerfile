# Both programs from one file: docker build --target manager|scheduler .
# The images hold one static binary and no shell, run as a user without a name,
# and need no writable root.
ARG GO_IMAGE=golang:1.25

FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY api api
COPY cmd cmd
COPY internal internal
ARG VERSION=v0.0.0
ENV CGO_ENABLED=0 GOFLAGS=-trimpath
RUN go build -ldflags "-s -w -X cardquota.dev/operator/internal/version.Version=${VERSION}" -o /out/ ./cmd/manager ./cmd/scheduler

FROM scratch AS manager
LABEL org.opencontainers.image.title="cardquota-manager" \
      org.opencontainers.image.description="Reconciles CardQuota objects into Volcano queues and reports their use" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/manager /manager
USER 65532:65532
ENTRYPOINT ["/manager"]

FROM scratch AS scheduler
LABEL org.opencontainers.image.title="cardquota-scheduler" \
      org.opencontainers.image.description="Volcano's scheduler with the capacity-card plugin" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/scheduler /cardquota-scheduler
USER 65532:65532
ENTRYPOINT ["/cardquota-scheduler"]
