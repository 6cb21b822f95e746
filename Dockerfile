# Both programs from one file:
#
#   docker build --target manager --build-arg VERSION=v0.2.0 .
#   docker build --target scheduler --build-arg VERSION=v0.2.0 .
#
# `make images` builds the same images without a registry: it puts programs compiled outside
# in the place of the stage "build" (--build-context build=FOLDER).
#
# The images hold one static binary and no shell, run as a user without a name, and need no
# writable root. They bring no certificates: the programs talk to the API server only, and
# the certificate of its authority comes with the ServiceAccount.
ARG GO_IMAGE=golang:1.25

FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY hack/build-programs.sh hack/
COPY api api
COPY cmd cmd
COPY internal internal
ARG VERSION=v0.0.0
RUN hack/build-programs.sh /out "$VERSION"

FROM scratch AS manager
ARG VERSION=v0.0.0
ARG REVISION=unknown
ARG CREATED
LABEL org.opencontainers.image.title="cardquota-manager" \
      org.opencontainers.image.description="Reconciles CardQuota objects into Volcano queues and reports their use" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.url="https://cardquota.dev" \
      org.opencontainers.image.source="https://cardquota.dev/operator" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/manager /manager
USER 65532:65532
ENTRYPOINT ["/manager"]

FROM scratch AS scheduler
ARG VERSION=v0.0.0
ARG REVISION=unknown
ARG CREATED
LABEL org.opencontainers.image.title="cardquota-scheduler" \
      org.opencontainers.image.description="Volcano's scheduler with the capacity-card plugin" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.url="https://cardquota.dev" \
      org.opencontainers.image.source="https://cardquota.dev/operator" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/root/ /
COPY --from=build /out/cardquota-scheduler /cardquota-scheduler
USER 65532:65532
ENTRYPOINT ["/cardquota-scheduler"]
