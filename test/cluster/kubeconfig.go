package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
)

// tokenLifetime is longer than any test, and than a demonstration over a weekend.
const tokenLifetime = 7 * 24 * time.Hour

const adminKubeconfig = "kubeconfig"

// Kubeconfig returns the path of the administrator's kubeconfig file.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.dir.path, adminKubeconfig) }

// KubeconfigFor writes a kubeconfig file for a ServiceAccount and returns its path. It uses a
// token of the TokenRequest API that is valid for seven days, and has only the rights that RBAC
// grants the ServiceAccount, which must exist.
func (c *Cluster) KubeconfigFor(ctx context.Context, namespace, serviceAccount string) (string, error) {
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(tokenLifetime.Seconds()))},
	}
	token, err := c.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, serviceAccount, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("token of ServiceAccount %s/%s: %w", namespace, serviceAccount, err)
	}
	return c.writeKubeconfig(c.serverURL, namespace+"."+serviceAccount+".kubeconfig", &clientcmdapi.AuthInfo{Token: token.Status.Token})
}

// componentKubeconfig writes a kubeconfig file with a client certificate for a user in groups,
// and returns its path: <component>.kubeconfig.
func (c *Cluster) componentKubeconfig(server, component, user string, groups ...string) (string, error) {
	pair, err := c.ca.issueClientCert(component, user, groups...)
	if err != nil {
		return "", err
	}
	name := component + ".kubeconfig"
	if component == adminKubeconfig {
		name = component
	}
	return c.writeKubeconfig(server, name, &clientcmdapi.AuthInfo{ClientCertificate: pair.cert, ClientKey: pair.key})
}

func (c *Cluster) writeKubeconfig(server, name string, user *clientcmdapi.AuthInfo) (string, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters["local"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: c.ca.pem}
	config.AuthInfos["user"] = user
	config.Contexts["local"] = &clientcmdapi.Context{Cluster: "local", AuthInfo: "user"}
	config.CurrentContext = "local"
	content, err := clientcmd.Write(*config)
	if err != nil {
		return "", fmt.Errorf("kubeconfig %s: %w", name, err)
	}
	return c.writeFile(name, content)
}

func (c *Cluster) adminConfig() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	config.QPS = 5000
	config.Burst = 10000
	return config, nil
}

// Kubectl runs the kubectl of the cluster's version as administrator and returns its stdout.
// Its stderr is part of the error.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.binaryPath("kubectl"), args...)
	cmd.Env = append(childEnvironment(c.dir.path), "KUBECONFIG="+c.Kubeconfig())
	var stdout, stderr bytes.Buffer
	cmd.Stdout = &stdout
	cmd.Stderr = &stderr

	err := startChild(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w", strings.Join(args, " "),
			errors.Join(err, errors.New(strings.TrimSpace(stderr.String()))))
	}

	return stdout.String(), nil
}
