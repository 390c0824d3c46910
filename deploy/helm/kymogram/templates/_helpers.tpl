{{- define "kymogram.name" -}}
{{- if contains "kymogram" .Release.Name -}}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{- else -}}{{ printf "%s-kymogram" .Release.Name | trunc 52 | trimSuffix "-" }}{{- end -}}
{{- end }}

{{- define "kymogram.selector" -}}
app.kubernetes.io/name: kymogram
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "kymogram.labels" -}}
{{ include "kymogram.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "kymogram.secret" -}}
{{- if .Values.adminKey.existingSecret -}}{{ .Values.adminKey.existingSecret }}{{- else if .Values.adminKey.value -}}{{ include "kymogram.name" . }}{{- end -}}
{{- end }}

{{- /* The user's keys, with the ingress' host among the names of the server. */ -}}
{{- define "kymogram.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if .Values.ingress.enabled -}}
{{- $_ := set $config "hosts" (uniq (append (default list $config.hosts) .Values.ingress.host)) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end }}
