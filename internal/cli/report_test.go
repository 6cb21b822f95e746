package cli

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/internal/cli/carduse"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/fakeprometheus"
)

// usedCards is a Prometheus that has scraped the operator since the end of September, but for some
// hours of October. Each queue uses its cards by day, or all the time.
func usedCards(further ...string) *fakeprometheus.Prometheus {
	p := &fakeprometheus.Prometheus{Metric: carduse.Counter}
	for _, queue := range []struct {
		tenant, project, queue, serviceType, card string
		cards                                     float64
		byDay                                     bool
	}{
		{"chat", "assistant", "chat", "inference", "NVIDIA-H200", 8, true},
		{"lab", "llm", "lab-llm", "training", "NVIDIA-H200", 3, false},
		{"lab", "vision", "lab-vision", "training", "NVIDIA-H200", 1, false},
		{"lab", "vision", "lab-vision", "training", "NVIDIA-H200/mig-1g.18gb-mixed", 2, true},
		{"", "", "old", "none", "Ascend-910B", 1, true},
	} {
		labels := map[string]string{
			"tenant": queue.tenant, "project": queue.project, "queue": queue.queue, "service_type": queue.serviceType, "card": queue.card, "instance": "10.0.0.1:8443", "job": "cardquota-manager",
		}
		for _, label := range further {
			name, value, _ := strings.Cut(label, "=")
			labels[name] = value
		}
		series, sum := &fakeprometheus.Series{Labels: labels}, 123456.7
		const scrape = 5 * time.Minute
		for now := time.Date(2026, 9, 29, 0, 0, 0, 0, time.UTC); !now.After(at); now = now.Add(scrape) {
			if !queue.byDay || now.Hour() >= 8 && now.Hour() < 20 {
				sum += queue.cards * scrape.Seconds()
			}
			if day := now.Day(); now.Month() == 10 && day == 5 && now.Hour() >= 2 && now.Hour() < 7 {
				continue // Prometheus is away
			}
			series.Samples = append(series.Samples, fakeprometheus.Sample{At: now, Value: sum})
		}
		p.Series = append(p.Series, series)
	}
	return p
}

func TestReport(t *testing.T) {
	t.Setenv(prometheusVariable, fakeprometheus.Start(t, usedCards()))
	for name, args := range map[string]string{
		"this-month": "",
		"month":      "--month 2026-10",
		"prices":     "--month 2026-10 --prices testdata/prices.yaml",
		"queue":      "--from 2026-11-20 --to 2026-11-21 --by queue --prices testdata/prices.yaml",
		"queue-wide": "--from 2026-11-20 --to 2026-11-21 --by queue -o wide --prices testdata/prices.yaml",
		"json":       "--from 2d --by project --tenant lab -o json --prices testdata/prices.yaml",
		"csv":        "--from 2026-10-05 --to 2026-10-06T00:00:00Z --by queue --prices testdata/prices.yaml -o csv",
		"nothing":    "--from 2026-11-22T22:00:00Z --to 2026-11-22T23:00:00Z --tenant chat",
		"early":      "--from 2026-09-28 --to 2026-09-30",
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, nil, interceptor.Funcs{}, append([]string{"report"}, strings.Fields(args)...)...)
			check.That(t, r.code == exitOK, "exit code %d, %s", r.code, r.errOut)
			compareGolden(t, "report-"+name, r.out)
			if name == "csv" {
				check.Contains(t, "notes of the csv", r.errOut, "No price, so no amount", "Prometheus has no samples of")
				check.That(t, strings.HasPrefix(r.out, "from,to,tenant,project,queue,service_type,card,card_seconds,card_hours,per_card_hour,currency,amount\r\n"), "%s", r.out)
			} else {
				check.Equal(t, "errors", "", r.errOut)
			}
			if name != "csv" && name != "json" && name != "queue-wide" {
				checkColumns(t, r.out)
			}
		})
	}
}

// TestReportOfSeveralClusters: with --match each cluster has its own report.
func TestReportOfSeveralClusters(t *testing.T) {
	both := usedCards("cluster=east")
	west := usedCards("cluster=west")
	for _, series := range west.Series { // the other cluster uses twice as much
		for i := range series.Samples {
			series.Samples[i].Value *= 2
		}
	}
	both.Series = append(both.Series, west.Series...)
	address := fakeprometheus.Start(t, both)
	report := func(args ...string) result {
		return execute(t, nil, interceptor.Funcs{}, append([]string{"report", "--prometheus", address, "--from", "2026-11-20", "--to", "2026-11-21"}, args...)...)
	}
	mixed := report()
	check.That(t, mixed.code == exitError && mixed.out == "", "exit code %d: %s", mixed.code, mixed.out)
	check.Contains(t, "error", strings.Join(strings.Fields(mixed.errOut), " "), `two programs export the counter at the same time`, `cluster="east"`, `Choose the one of your cluster with --match`)
	check.Contains(t, "report of the east", report("--match", `cluster="east"`).out, "228.000")
	check.Contains(t, "report of the west", report("--match", `cluster="west"`).out, "456.000")
}

// answerAlways answers every request alike.
func answerAlways(code int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	})
}

func matrixOf(value string) string {
	return `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"queue":"q","card":"A"},"values":[[` + "1795003200" + `,"` + value + `"]]}]}}`
}

func TestReportErrors(t *testing.T) {
	t.Setenv(prometheusVariable, "")
	working := fakeprometheus.Start(t, usedCards())
	token, broken := filepath.Join(t.TempDir(), "token"), filepath.Join(t.TempDir(), "prices.yaml")
	check.NoError(t, os.WriteFile(token, []byte("secret\n"), 0o600))
	check.NoError(t, os.WriteFile(broken, []byte("currency: EUR\nprice: 3\n"), 0o600))
	away := fakeprometheus.Start(t, nil)
	serve := func(code int, body string) []string {
		return []string{"--prometheus", fakeprometheus.Start(t, answerAlways(code, body))}
	}
	on := func(args ...string) []string { return append([]string{"--prometheus", working}, args...) }
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no sums":             {nil, "namespace volcano-system has no card-seconds"},
		"no URL":              {[]string{"--prometheus", "prometheus:9090"}, "--prometheus is no URL"},
		"no service":          {[]string{"--service", "prometheus:9090"}, "write NAMESPACE/NAME:PORT"},
		"path in a service":   {[]string{"--service", "monitoring/../secrets:9090"}, "write NAMESPACE/NAME:PORT"},
		"both":                {on("--service", "monitoring/prometheus:9090"), "but not both"},
		"token for a service": {[]string{"--service", "monitoring/prometheus:9090", "--prometheus-token-file", token}, "the API server authenticates you"},
		"token without TLS":   {[]string{"--prometheus", "http://prometheus.example.com", "--prometheus-token-file", token}, "would be sent without encryption"},
		"no token file":       {on("--prometheus-token-file", "missing"), "read --prometheus-token-file: open missing"},
		"no certificate":      {on("--prometheus-ca-file", token), "has no certificate"},
		"away":                {[]string{"--prometheus", "http://127.0.0.1:1"}, "does not answer: connection refused. Check --prometheus"},
		"no handler":          {[]string{"--prometheus", away}, "has no API of Prometheus: client error: 404"},
		"wrong credentials":   {serve(401, "no"), "wants other credentials (401): write --prometheus-token-file"},
		"no rights":           {serve(403, "no"), "does not allow you to query (403)"},
		"error":               {serve(500, "it burns"), "does not work: server error: 500 it burns"},
		"starts":              {serve(503, "Service Unavailable"), "does not work: server error: 503"},
		"a redirect":          {serve(302, ""), "has no API of Prometheus: bad response code 302"},
		"a web page":          {serve(200, "<html>Sign in</html>"), "has no API of Prometheus"},
		"another answer":      {serve(200, `{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}`), "it sent no matrix"},
		"cut short":           {serve(200, `{"status":"success","data":{"resultType":"matrix","result":[{`), "has no API of Prometheus"},
		"a warning":           {serve(200, strings.Replace(matrixOf("1"), `"data"`, `"warnings":["store a is away"],"data"`, 1)), "may not be complete: store a is away"},
		"no number":           {serve(200, matrixOf("NaN")), "cardquota_card_seconds_total of queue q and card A: NaN is no number of card-seconds"},
		"a negative number":   {serve(200, matrixOf("-1")), "-1 is no number of card-seconds"},
		"too many samples":    {serve(422, `{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory in query execution"}`), "too many samples into memory in query execution. Select some of the series"},
		"slow":                {serve(503, `{"status":"error","errorType":"timeout","error":"query timed out"}`), "does not work: server error: 503"},
		"a refused matcher":   {serve(400, `{"status":"error","errorType":"bad_data","error":"unexpected character"}`), "refuses the query: unexpected character. Check --match"},
		"no metric":           {serve(200, `{"status":"success","data":{"resultType":"matrix","result":[]}}`), "has no sample of cardquota_card_seconds_total in this time: check whether it scrapes the operator"},
		"no such cluster":     {on("--match", `cluster="none"`), "has no sample of cardquota_card_seconds_total"},
		"a matcher":           {on("--match", `queue="x"`), "--tenant selects a tenant"},
		"by what":             {on("--by", "team"), "--by: write tenant, project or queue"},
		"backwards":           {on("--from", "2026-11-02", "--to", "2026-11-01"), "the time is empty"},
		"to come":             {on("--month", "2027-01"), "lies in the future"},
		"no prices":           {on("--prices", "missing.yaml"), "read --prices: open missing.yaml"},
		"wrong prices":        {on("--prices", broken), "field price not found"},
		"no such format":      {on("-o", "xml"), "write table, wide, json, yaml or csv"},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, nil, interceptor.Funcs{}, append([]string{"report"}, tc.args...)...)
			check.That(t, r.code == exitError && r.out == "", "exit code %d: %s", r.code, r.out)
			check.Contains(t, "error", strings.Join(strings.Fields(r.errOut), " "), tc.want)
			checkColumns(t, strings.ReplaceAll(r.errOut, working, ""))
		})
	}
}

// TestReportThroughTheAPIServer: the queries are GET requests to the proxy of the Service, and a refusal
// names the right.
func TestReportThroughTheAPIServer(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	const path = "/api/v1/namespaces/monitoring/services/https:prometheus:web/proxy"
	prometheus := usedCards()
	var refusal *metav1.Status
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		check.That(t, r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, path+"/api/v1/query_range"), "%s %s", r.Method, r.URL.Path)
		check.Equal(t, "token", "Bearer mine", r.Header.Get("Authorization"))
		if refusal == nil {
			prometheus.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(refusal.Code))
		check.NoError(t, json.NewEncoder(w).Encode(refusal))
	}))
	defer server.Close()
	report := func() result {
		return execute(t, nil, interceptor.Funcs{}, "report", "--server", server.URL, "--insecure-skip-tls-verify", "--token", "mine", "--service", "monitoring/https:prometheus:web", "--from", "2026-11-20", "--to", "2026-11-21")
	}
	check.Contains(t, "report", report().out, "228.000")
	for _, tc := range []struct {
		code          int32
		message, want string
	}{
		{403, `services "https:prometheus:web" is forbidden: User "tina" cannot get resource "services/proxy" in API group "" in the namespace "monitoring"`, `user "tina" may not get services/proxy in the namespace "monitoring": a Role with the verb get on services/proxy lets you, or kubectl port-forward and --prometheus`},
		{404, `services "prometheus" not found`, `the API server does not reach Service monitoring/https:prometheus:web: services "prometheus" not found`},
		{503, `no endpoints available for service "prometheus"`, `no endpoints available`},
		{401, "Unauthorized", "the API server does not accept your credentials"},
	} {
		refusal = &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Code: tc.code, Message: tc.message, Status: metav1.StatusFailure}
		check.Contains(t, "error", strings.Join(strings.Fields(report().errOut), " "), tc.want)
	}
}

// TestTheTokenStaysWithPrometheus: a redirect must not lead it elsewhere.
func TestTheTokenStaysWithPrometheus(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	check.NoError(t, os.WriteFile(token, []byte("secret\n"), 0o600))
	elsewhere := fakeprometheus.Start(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a redirect was followed, with Authorization %q", r.Header.Get("Authorization"))
	}))
	seen := ""
	server := fakeprometheus.Start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Get("Authorization")
		http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
	}))
	r := execute(t, nil, interceptor.Funcs{}, "report", "--prometheus", server, "--prometheus-token-file", token)
	check.That(t, r.code == exitError && seen == "Bearer secret", "exit code %d, Authorization %q", r.code, seen)
	check.That(t, !strings.Contains(r.errOut, "secret"), "the token is shown: %s", r.errOut)
	r = execute(t, nil, interceptor.Funcs{}, "report", "--prometheus", "http://me:secret@127.0.0.1:1")
	check.That(t, r.code == exitError && !strings.Contains(r.errOut, "secret"), "the password is shown: %s", r.errOut)
}

// TestReportOverTLS: the certificate is checked against an authority, and the token is sent.
func TestReportOverTLS(t *testing.T) {
	seen, prometheus := "", usedCards()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Get("Authorization")
		prometheus.ServeHTTP(w, r)
	}))
	defer server.Close()
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	token, authority := filepath.Join(t.TempDir(), "token"), filepath.Join(t.TempDir(), "ca.pem")
	check.NoError(t, os.WriteFile(token, []byte("secret\n"), 0o600))
	check.NoError(t, os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"an unknown authority": {nil, "does not answer: x509: certificate signed by unknown authority"},
		"its authority":        {[]string{"--prometheus-ca-file", authority}, ""},
		"not checked":          {[]string{"--prometheus-insecure-tls"}, ""},
	} {
		seen = ""
		r := execute(t, nil, interceptor.Funcs{}, append([]string{"report", "--prometheus", server.URL, "--prometheus-token-file", token, "--from", "2026-11-20", "--to", "2026-11-21"}, tc.args...)...)
		check.Contains(t, name, strings.Join(strings.Fields(r.errOut), " "), tc.want)
		check.That(t, (r.code == exitOK) == (tc.want == "") && (seen == "Bearer secret") == (tc.want == ""), "%s: exit code %d, Authorization %q: %s", name, r.code, seen, r.errOut)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	body := &boundedBody{io.NopCloser(strings.NewReader(strings.Repeat("x", 100))), 99}
	_, err := io.ReadAll(body)
	check.That(t, err == errAnswerTooLarge, "error %v", err) //nolint:errorlint // it is not wrapped
	all, err := io.ReadAll(&boundedBody{io.NopCloser(strings.NewReader("ten bytes.")), 10})
	check.That(t, err == nil && len(all) == 10, "%d bytes, %v", len(all), err)
	source := &prometheusSource{connection: &prometheusConnection{name: "Prometheus at http://p"}}
	check.Contains(t, "error", source.explain(errAnswerTooLarge).Error(), "more than 256 MiB", smallerQuestion)
}

func TestReportCompletion(t *testing.T) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "monitoring", Name: "prometheus-k8s"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 9090}, {Port: 8080}}}}
	other := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "monitoring", Name: "grafana"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 3000}}}}
	objects := []client.Object{service, other, builder.CardQuota("a").Tenant("lab").Obj(), builder.CardQuota("b").Tenant("lab").Obj()}
	for flag, want := range map[string]string{
		"--by": "tenant project queue", "--service": "monitoring/prometheus-k8s:9090 monitoring/prometheus-k8s:8080", "--tenant": "lab", "-o": "table wide json yaml csv",
		"--month": "2026-11 2026-10 2026-09 2026-08 2026-07 2026-06 2026-05 2026-04 2026-03 2026-02 2026-01 2025-12",
	} {
		r := execute(t, objects, interceptor.Funcs{}, "__complete", "report", flag, "")
		words, _, _ := strings.Cut(r.out, "\n:")
		check.Equal(t, "completions of "+flag, want, strings.Join(strings.Fields(words), " "))
	}
}
