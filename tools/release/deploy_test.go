package main

import (
	"bytes"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const deploy = "../../deploy"

// TestUnit: systemd understands the unit, and nothing but its file says how the server runs.
func TestUnit(t *testing.T) {
	unit := string(read(t, filepath.Join(deploy, "systemd", "kymogram.service")))
	for line := range strings.Lines(unit) {
		if command, is := strings.CutPrefix(line, "ExecStart="); is && strings.TrimSpace(command) != "/usr/local/bin/kymogram serve --config /etc/kymogram/config.yaml" {
			t.Errorf("a flag would override the file: %s", command)
		}
		if strings.HasPrefix(line, "Environment=") && strings.Contains(line, "KYMOGRAM_") {
			t.Errorf("a variable would override the file: %s", line)
		}
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("there is no systemd-analyze to verify the unit")
	}
	folder := t.TempDir()
	path := filepath.Join(folder, "kymogram.service")
	unit = strings.ReplaceAll(unit, "/usr/local/bin/kymogram", program(t)) // systemd looks whether it is there
	unit = strings.NewReplacer("User=kymogram", "User=root", "Group=kymogram", "Group=root").Replace(unit)
	do(t, os.WriteFile(path, []byte(unit), 0o600))
	if said := command(t, folder, "systemd-analyze", "verify", "--man=no", path); strings.Contains(said, "kymogram") {
		t.Error(said)
	}
}

// TestUnitsConfiguration: the server reads the file of the unit.
func TestUnitsConfiguration(t *testing.T) {
	file := filepath.Join(deploy, "systemd", "config.yaml")
	command(t, "", program(t), "config", "check", "--config", file)
	shown := command(t, "", program(t), "config", "show", "--config", file)
	for _, want := range []string{"/var/lib/kymogram/data", "127.0.0.1:7070"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the configuration lacks %s:\n%s", want, shown)
		}
	}
}

func TestCompose(t *testing.T) {
	options, err := cli.NewProjectOptions([]string{filepath.Join(deploy, "compose", "compose.yaml")}, cli.WithEnv([]string{"KYMOGRAM_HOSTS=kymogram.example.org"}))
	do(t, err)
	project, err := options.LoadProject(t.Context()) // checks it against the schema
	do(t, err)
	service, err := project.GetService("kymogram")
	do(t, err)
	if len(project.Services) != 1 || service.HealthCheck == nil || !slices.Equal(service.HealthCheck.Test, new(release).settings().Healthcheck.Test) {
		t.Errorf("%d services, health check %+v", len(project.Services), service.HealthCheck)
	}
	if len(service.Ports) != 1 || service.Ports[0].HostIP != "127.0.0.1" || *service.Environment["KYMOGRAM_HOSTS"] != "kymogram.example.org" {
		t.Errorf("ports %+v, environment %v", service.Ports, service.Environment)
	}
	if len(service.Volumes) != 1 || service.Volumes[0].Target != "/data" || service.Volumes[0].Type != "volume" {
		t.Errorf("volumes %+v", service.Volumes)
	}
}

// TestComposeCluster: the file of the whole is one, its parts name one another rightly, and the
// server reads what it would be given.
func TestComposeCluster(t *testing.T) {
	given := []string{"PGPASSWORD=a", "CLICKHOUSE_PASSWORD=b", "AWS_ACCESS_KEY_ID=c", "AWS_SECRET_ACCESS_KEY=d", "KYMOGRAM_ADMIN_KEY=" + strings.Repeat("0f", 20)}
	load := func(env []string) (*types.Project, error) {
		options, err := cli.NewProjectOptions([]string{filepath.Join(deploy, "compose", "cluster.yaml")}, cli.WithEnv(env))
		do(t, err)
		return options.LoadProject(t.Context()) // checks it against the schema
	}
	for i := range given {
		if _, err := load(slices.Delete(slices.Clone(given), i, i+1)); err == nil {
			t.Errorf("it starts without %s", given[i])
		}
	}
	project, err := load(given)
	do(t, err)
	for _, name := range []string{"kymogram-1", "kymogram-2"} {
		s := project.Services[name]
		if !slices.Equal(s.HealthCheck.Test, new(release).settings().Healthcheck.Test) || s.Volumes[0].Source != name {
			t.Errorf("%s: %+v", name, s)
		}
		checkEnvironment(t, s)
		for _, part := range []string{"KYMOGRAM_STORE", "KYMOGRAM_CATALOG", "KYMOGRAM_BLOB"} {
			checkHosts(t, project, *s.Environment[part])
		}
		if !strings.Contains(project.Configs["haproxy"].Content, "server "+name+" "+name+":7070") {
			t.Errorf("the balancer does not know %s", name)
		}
	}
	if ports := project.Services["balancer"].Ports; len(ports) != 1 || ports[0].HostIP != "127.0.0.1" {
		t.Errorf("ports %+v", ports)
	}
	for name, s := range project.Services {
		if name != "balancer" && len(s.Ports) > 0 {
			t.Errorf("%s is open to others", name)
		}
	}
	if haproxy, err := exec.LookPath("haproxy"); err == nil {
		file := filepath.Join(t.TempDir(), "haproxy.cfg")
		text := strings.NewReplacer("kymogram-1:", "127.0.0.1:", "kymogram-2:", "127.0.0.1:").Replace(project.Configs["haproxy"].Content) // it looks names up
		do(t, os.WriteFile(file, []byte(text), 0o600))
		command(t, "", haproxy, "-c", "-f", file)
	}
}

// checkHosts: an address names services.
func checkHosts(t *testing.T, project *types.Project, address string) {
	t.Helper()
	u, err := url.Parse(address)
	do(t, err)
	hosts := u.Host
	if at := u.Query().Get("endpoint"); at != "" {
		of, err := url.Parse(at)
		do(t, err)
		hosts = of.Host
	}
	for host := range strings.SplitSeq(hosts, ",") {
		name, _, _ := strings.Cut(host, ":")
		if _, is := project.Services[name]; !is {
			t.Errorf("%s: there is no service %s", address, name)
		}
	}
}

// checkEnvironment: the server understands the variables of a service.
func checkEnvironment(t *testing.T, s types.ServiceConfig) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program(t), "config", "check")
	cmd.Env = []string{"HOME=" + t.TempDir()}
	for name, value := range s.Environment {
		cmd.Env = append(cmd.Env, name+"="+*value)
	}
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, said)
	}
}

// render is the chart's files with some values.
func render(values string) (map[string]string, error) {
	chart, err := loader.Load(filepath.Join(deploy, "helm", "kymogram"))
	if err != nil {
		return nil, err
	}
	given, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		return nil, err
	}
	all, err := chartutil.ToRenderValues(chart, given, chartutil.ReleaseOptions{Name: "lab", Namespace: "metrics"}, nil)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
}

// rendered are the objects of the chart with some values, each checked against the types of
// Kubernetes: an unknown field is an error.
func rendered(t *testing.T, values string) map[string]any {
	t.Helper()
	texts, err := render(values)
	do(t, err)
	out := map[string]any{}
	for name, text := range texts {
		if strings.HasPrefix(filepath.Base(name), "_") || strings.TrimSpace(text) == "" {
			continue
		}
		var head struct{ APIVersion, Kind string }
		do(t, yaml.Unmarshal([]byte(text), &head))
		to := map[string]any{
			"apps/v1 StatefulSet": &apps.StatefulSet{}, "v1 Service": &core.Service{}, "v1 Secret": &core.Secret{},
			"v1 ConfigMap": &core.ConfigMap{}, "networking.k8s.io/v1 Ingress": &networking.Ingress{},
			"policy/v1 PodDisruptionBudget": &policy.PodDisruptionBudget{}, "monitoring.coreos.com/v1 ServiceMonitor": &serviceMonitor{},
		}[head.APIVersion+" "+head.Kind]
		if to == nil {
			t.Fatalf("%s is a %s of %s", name, head.Kind, head.APIVersion)
		}
		data, err := yaml.YAMLToJSONStrict([]byte(text))
		do(t, err)
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(to); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		if out[head.Kind] != nil {
			t.Errorf("two objects of the kind %s", head.Kind)
		}
		out[head.Kind] = to
	}
	return out
}

func TestChart(t *testing.T) {
	for name, one := range map[string]struct {
		values string
		kinds  []string
	}{
		"defaults": {"", []string{"ConfigMap", "Service", "StatefulSet"}},
		"a key":    {"adminKey: {value: " + strings.Repeat("ab", 20) + "}", []string{"ConfigMap", "Secret", "Service", "StatefulSet"}},
		"a secret": {"adminKey: {existingSecret: mine, secretKey: k}", []string{"ConfigMap", "Service", "StatefulSet"}},
		"all": {`
image: {repository: r/k, tag: "9"}
imagePullSecrets: [{name: pull}]
config: {retention: {age: 2160h}, hosts: [a.example.org]}
persistence: {size: 1Gi, storageClass: fast, accessModes: [ReadWriteOncePod]}
service: {type: LoadBalancer, port: 80, annotations: {a: b}}
ingress: {enabled: true, className: nginx, host: a.example.org, tlsSecret: tls, annotations: {c: d}}
nodeSelector: {disk: ssd}
tolerations: [{key: k, operator: Exists}]
affinity: {nodeAffinity: {}}
podAnnotations: {p: q}`, []string{"ConfigMap", "Ingress", "Service", "StatefulSet"}},
		"several servers": {`
replicas: 3
config: {store: "clickhouse://kymogram@ch:9000/kymogram?cluster=main", catalog: postgres://kymogram@db/kymogram, blob: s3://files/team}
envSecrets: [engines, bucket]
serviceMonitor: {enabled: true, keySecret: reader, labels: {release: prometheus}}
persistence: {size: 5Gi}`, []string{"ConfigMap", "PodDisruptionBudget", "Service", "ServiceMonitor", "StatefulSet"}},
	} {
		objects := rendered(t, one.values)
		var kinds []string
		for kind := range objects {
			kinds = append(kinds, kind)
		}
		if slices.Sort(kinds); !slices.Equal(kinds, one.kinds) {
			t.Errorf("%s: %q, want %q", name, kinds, one.kinds)
			continue
		}
		checkSet(t, name, objects)
	}
	if _, err := render("replicas: 2\nconfig: {catalog: postgres://db/kymogram}"); err == nil || !strings.Contains(err.Error(), "config.store") {
		t.Errorf("replicas that share nothing: %v", err)
	}
	if _, err := render("serviceMonitor: {enabled: true}"); err == nil || !strings.Contains(err.Error(), "keySecret") {
		t.Errorf("a scrape without a key: %v", err)
	}
}

// serviceMonitor is as much of the type of Prometheus' operator as the chart uses.
type serviceMonitor struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		Selector  meta.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port, Path, Interval string
			Authorization        struct {
				Credentials core.SecretKeySelector `json:"credentials"`
			} `json:"authorization"`
			Relabelings []struct{ TargetLabel, Replacement string } `json:"relabelings"`
		} `json:"endpoints"`
	} `json:"spec"`
}

// checkMany looks at what several servers need: each alone may go away, and each is scraped.
func checkMany(t *testing.T, objects map[string]any) {
	t.Helper()
	set, service := objects["StatefulSet"].(*apps.StatefulSet), objects["Service"].(*core.Service)
	labels := set.Spec.Template.Labels
	budget := objects["PodDisruptionBudget"].(*policy.PodDisruptionBudget)
	spread := set.Spec.Template.Spec.TopologySpreadConstraints
	if budget.Spec.MaxUnavailable.IntValue() != 1 || !selects(budget.Spec.Selector, labels) {
		t.Errorf("a drain may take %v of %v", budget.Spec.MaxUnavailable, budget.Spec.Selector)
	}
	if len(spread) != 1 || spread[0].TopologyKey != core.LabelHostname || !selects(spread[0].LabelSelector, labels) {
		t.Errorf("servers are spread by %+v", spread)
	}
	if ready := set.Spec.Template.Spec.Containers[0].ReadinessProbe; set.Spec.UpdateStrategy.Type != apps.RollingUpdateStatefulSetStrategyType || ready.HTTPGet.Path != "/readyz" {
		t.Errorf("updates by %+v, ready by %+v", set.Spec.UpdateStrategy, ready)
	}
	monitor := objects["ServiceMonitor"].(*serviceMonitor)
	end := monitor.Spec.Endpoints[0]
	if !selects(&monitor.Spec.Selector, service.Labels) || end.Port != service.Spec.Ports[0].Name || end.Path != "/metrics" || end.Authorization.Credentials.Name != "reader" ||
		end.Relabelings[0].Replacement != "kymogram" || monitor.Labels["release"] != "prometheus" {
		t.Errorf("scraped is %+v", monitor)
	}
}

func selects(by *meta.LabelSelector, labels map[string]string) bool {
	for key, value := range by.MatchLabels {
		if labels[key] != value {
			return false
		}
	}
	return len(by.MatchLabels) > 0
}

// checkSet looks at what ties the objects together.
func checkSet(t *testing.T, name string, objects map[string]any) {
	t.Helper()
	set, service, config := objects["StatefulSet"].(*apps.StatefulSet), objects["Service"].(*core.Service), objects["ConfigMap"].(*core.ConfigMap)
	pod := set.Spec.Template
	for key, value := range service.Spec.Selector {
		if pod.Labels[key] != value || set.Spec.Selector.MatchLabels[key] != value {
			t.Errorf("%s: the service selects %s=%s, the pod has %v", name, key, value, pod.Labels)
		}
	}
	many := strings.HasPrefix(name, "several")
	if (*set.Spec.Replicas > 1) != many || many != (service.Spec.SessionAffinity == core.ServiceAffinityClientIP) || many != (len(pod.Spec.Containers[0].EnvFrom) == 2) {
		t.Errorf("%s: %d replicas, affinity %q, environment %+v", name, *set.Spec.Replicas, service.Spec.SessionAffinity, pod.Spec.Containers[0].EnvFrom)
	}
	if many {
		checkMany(t, objects)
	}
	if set.Spec.ServiceName != service.Name || len(pod.Spec.Containers) != 1 || len(set.Spec.VolumeClaimTemplates) != 1 {
		t.Errorf("%s: %+v", name, set.Spec)
	}
	container := pod.Spec.Containers[0]
	mounts := map[string]string{}
	for _, m := range container.VolumeMounts {
		mounts[m.Name] = m.MountPath
	}
	if mounts[set.Spec.VolumeClaimTemplates[0].Name] != "/data" || !*pod.Spec.SecurityContext.RunAsNonRoot || *pod.Spec.SecurityContext.RunAsUser != user {
		t.Errorf("%s: mounts %v, %+v", name, mounts, pod.Spec.SecurityContext)
	}
	for _, e := range container.Env {
		secret, _ := objects["Secret"].(*core.Secret)
		if from := e.ValueFrom; from != nil && from.SecretKeyRef.Name == "lab-kymogram" && (secret == nil || secret.StringData[from.SecretKeyRef.Key] == "") {
			t.Errorf("%s: there is no secret for %s", name, e.Name)
		}
	}
	// The server itself reads the configuration that it would be given.
	file := filepath.Join(t.TempDir(), "kymogram.yaml")
	do(t, os.WriteFile(file, []byte(config.Data["kymogram.yaml"]), 0o600))
	command(t, "", program(t), "config", "check", "--config", file)
	if ingress, is := objects["Ingress"].(*networking.Ingress); is {
		to := ingress.Spec.Rules[0].HTTP.Paths[0].Backend.Service
		if to.Name != service.Name || to.Port.Name != service.Spec.Ports[0].Name {
			t.Errorf("%s: the ingress leads to %+v", name, to)
		}
	}
}
