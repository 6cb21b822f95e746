package main

import (
	"reflect"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"cardquota.dev/operator/internal/testing/check"
)

// TestFlagsAreParsed: without a flag each setting has its default, and each flag changes its value.
// --leader-elect-namespace sets the operator's own namespace, which without --scheduler-namespace is that of
// the scheduler, too.
func TestFlagsAreParsed(t *testing.T) {
	defaults := flags{
		metricsAddress: ":8080", probeAddress: ":8081", pprofAddress: "0", leaderElect: true, qps: 500,
		operatorNamespace: "volcano-system", schedulerNamespace: "volcano-system", volcanoNamespace: "volcano-system",
		certificates: certificatesOff, webhookPort: 9443, webhookCertDir: "/tmp/k8s-webhook-server/serving-certs",
	}
	withOwnCertificates := defaults
	withOwnCertificates.certificates = certificatesSelf

	for t, tc := range check.Cases(t, map[string]struct {
		args      []string
		want      flags
		wantDebug bool
	}{
		"no flag": {want: defaults},
		"certificates that the operator makes itself": {args: []string{"--webhook-certificates=Self"}, want: withOwnCertificates},
		"every flag": {
			args: []string{
				"--metrics-bind-address=0", "--health-probe-bind-address=127.0.0.1:1", "--pprof-bind-address=127.0.0.1:2", "--leader-elect=false",
				"--leader-elect-namespace=other", "--scheduler-namespace=there", "--kube-api-qps=20.5", "--zap-log-level=debug", "--secure-metrics",
				"--webhook-certificates=Files", "--volcano-namespace=volcano", "--webhook-port=1", "--webhook-cert-dir=/c", "--webhook-client-ca-file=/ca",
			},
			want: flags{
				metricsAddress: "0", probeAddress: "127.0.0.1:1", pprofAddress: "127.0.0.1:2", qps: 20.5, secureMetrics: true,
				operatorNamespace: "other", schedulerNamespace: "there", volcanoNamespace: "volcano",
				certificates: certificatesFiles, webhookPort: 1, webhookCertDir: "/c", webhookClientCA: "/ca",
			},
			wantDebug: true,
		},
	}) {
		got := check.Value(parseFlags(tc.args))(t)
		check.Equal(t, "debug messages are logged", tc.wantDebug, zap.New(zap.UseFlagOptions(&got.logging)).V(1).Enabled())

		tc.want.logging = got.logging // the line above checks it
		check.That(t, reflect.DeepEqual(got, tc.want), "flags = %+v, want %+v", got, tc.want)
	}
}

// TestInvalidFlagsAreRefused: an operator that ignored an invalid flag would run in another way than the administrator
// wrote. So it ends with what is wrong.
func TestInvalidFlagsAreRefused(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ arg, want string }{
		"an unknown source of certificates": {"--webhook-certificates=self", "write Self, Files or Off"},
		"0 requests a second":               {"--kube-api-qps=0", "must be more than 0"},
		"a misspelt flag":                   {"--kube-qps=1", "not defined: -kube-qps"},
	}) {
		_, err := parseFlags([]string{tc.arg})
		check.Says(t, err, tc.want)
	}
}
