{{- define "llmservice-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "llmservice-operator.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "llmservice-operator.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "llmservice-operator.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "llmservice-operator.selector" -}}
app.kubernetes.io/name: {{ include "llmservice-operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "llmservice-operator.labels" -}}
{{ include "llmservice-operator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "llmservice-operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "llmservice-operator.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "llmservice-operator.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{- define "llmservice-operator.engineImage" -}}
{{- default (printf "ghcr.io/llmservice/llmservice-engine:%s" .Chart.AppVersion) .Values.engine.image }}
{{- end }}

{{- /* What the operator reads as JSON: only what is set. */}}
{{- define "llmservice-operator.engineDefaults" -}}
{{- $set := dict }}
{{- range $key, $value := omit .Values.engine "image" }}
{{- if $value }}
{{- $_ := set $set $key $value }}
{{- end }}
{{- end }}
{{- toJson $set }}
{{- end }}

{{- /* Room for "-metrics-api-auth-reader" in the names of its rights. */}}
{{- define "llmservice-operator.metricsApiName" -}}
{{- printf "%s-metrics-api" (include "llmservice-operator.fullname" . | trunc 39 | trimSuffix "-") }}
{{- end }}

{{- /* Another name than the operator's: its Deployment and its budget select by name and instance. */}}
{{- define "llmservice-operator.metricsApiSelector" -}}
app.kubernetes.io/name: {{ include "llmservice-operator.name" . | trunc 51 | trimSuffix "-" }}-metrics-api
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "llmservice-operator.metricsApiLabels" -}}
{{ include "llmservice-operator.metricsApiSelector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}
