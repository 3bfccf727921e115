{{- define "outrigger.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The name of a second object of a kind. Argument: (dict "root" $ "suffix" …). */ -}}
{{- define "outrigger.nameWith" -}}
{{- $length := sub 62 (len .suffix) | int -}}
{{- printf "%s-%s" (include "outrigger.fullname" .root | trunc $length | trimSuffix "-") .suffix -}}
{{- end -}}

{{- define "outrigger.namespace" -}}
{{- .Values.namespaceOverride | default (default dict .Values.global).namespace | default .Release.Namespace -}}
{{- end -}}

{{- /* The name of an object without a namespace, or in another namespace than the release. It
contains the namespace, so that releases of the same name do not collide. */ -}}
{{- define "outrigger.rbacName" -}}
{{- printf "%s.%s" (include "outrigger.fullname" .) (include "outrigger.namespace" .) -}}
{{- end -}}

{{- define "outrigger.selectorLabels" -}}
{{- if .Values.selectorLabelsOverride -}}
{{- toYaml .Values.selectorLabelsOverride -}}
{{- else -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- end -}}

{{- define "outrigger.versionLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "outrigger.labels" -}}
{{ include "outrigger.versionLabels" . }}
app.kubernetes.io/component: {{ .Chart.Name }}
app.kubernetes.io/part-of: outrigger
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "outrigger.selectorLabels" . }}
{{- end -}}

{{- /* The labels of a second DaemonSet of a chart. They differ from the labels that the first
DaemonSet and the Service select. Argument: (dict "root" $ "part" its name). */ -}}
{{- define "outrigger.partSelectorLabels" -}}
app.kubernetes.io/name: {{ .part }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end -}}

{{- define "outrigger.partLabels" -}}
app.kubernetes.io/component: {{ .part }}
app.kubernetes.io/part-of: outrigger
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{ include "outrigger.partSelectorLabels" . }}
{{- end -}}

{{- /* The name of a service account. Argument: (dict "values" the value serviceAccount "name" the
default name). */ -}}
{{- define "outrigger.accountName" -}}
{{- default (.values.create | ternary .name "default") .values.name -}}
{{- end -}}

{{- define "outrigger.serviceAccountName" -}}
{{- include "outrigger.accountName" (dict "values" .Values.serviceAccount "name" (include "outrigger.fullname" .)) -}}
{{- end -}}
