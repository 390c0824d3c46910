package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
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
persistence: {size: 5Gi}`, []string{"ConfigMap", "Service", "StatefulSet"}},
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
