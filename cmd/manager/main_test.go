package main

import (
	"reflect"
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"cardquota.dev/operator/internal/testing/check"
)

func TestParse(t *testing.T) {
	cases := map[string]struct {
		args      []string
		want      flags
		wantError string
	}{
		"the defaults are those of an installation": {
			want: flags{metricsAddress: ":8080", probeAddress: ":8081", pprofAddress: "0", leaderElect: true, operatorNamespace: "volcano-system", schedulerNamespace: "volcano-system", volcanoNamespace: "volcano-system", qps: 500,
				certificates: certificatesOff, webhookPort: 9443, webhookCertDir: "/tmp/k8s-webhook-server/serving-certs"},
		},
		"everything can be said": {
			args: []string{"--metrics-bind-address=0", "--health-probe-bind-address=127.0.0.1:1", "--pprof-bind-address=127.0.0.1:2", "--leader-elect=false",
				"--leader-elect-namespace=other", "--scheduler-namespace=there", "--kube-api-qps=20.5", "--zap-log-level=debug", "--secure-metrics",
				"--webhook-certificates=Files", "--volcano-namespace=volcano", "--webhook-port=1", "--webhook-cert-dir=/c", "--webhook-client-ca-file=/ca"},
			want: flags{metricsAddress: "0", probeAddress: "127.0.0.1:1", pprofAddress: "127.0.0.1:2", operatorNamespace: "other", schedulerNamespace: "there", volcanoNamespace: "volcano", qps: 20.5, secureMetrics: true,
				certificates: certificatesFiles, webhookPort: 1, webhookCertDir: "/c", webhookClientCA: "/ca"},
		},
		"certificates of one's own": {args: []string{"--webhook-certificates=Self"}, want: flags{metricsAddress: ":8080", probeAddress: ":8081", pprofAddress: "0", leaderElect: true,
			operatorNamespace: "volcano-system", schedulerNamespace: "volcano-system", volcanoNamespace: "volcano-system", qps: 500, certificates: certificatesSelf, webhookPort: 9443, webhookCertDir: "/tmp/k8s-webhook-server/serving-certs"}},
		"certificates of an unknown source": {args: []string{"--webhook-certificates=self"}, wantError: "write Self, Files or Off"},
		"no requests at all cannot work":    {args: []string{"--kube-api-qps=0"}, wantError: "must be more than 0"},
		"a misspelt flag is refused":        {args: []string{"--kube-qps=1"}, wantError: "not defined: -kube-qps"},
	}

	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parseFlags(tc.args)
			if tc.wantError != "" {
				check.Says(t, err, tc.wantError)
				return
			}
			check.NoError(t, err)
			check.Equal(t, "it logs what is for debugging", slices.Contains(tc.args, "--zap-log-level=debug"), zap.New(zap.UseFlagOptions(&got.logging)).V(1).Enabled())
			tc.want.logging = got.logging
			check.That(t, reflect.DeepEqual(got, tc.want), "flags = %+v, want %+v", got, tc.want)
		})
	}
}
