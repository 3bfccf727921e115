{{- define "device-plugin.fullname" -}}
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

{{- define "device-plugin.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{- define "device-plugin.selectorLabels" -}}
{{- if .Values.selectorLabelsOverride -}}
{{- toYaml .Values.selectorLabelsOverride -}}
{{- else -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- end -}}

{{- define "device-plugin.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: device-plugin
app.kubernetes.io/part-of: outrigger
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "device-plugin.selectorLabels" . }}
{{- end -}}

{{- define "device-plugin.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "device-plugin.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "device-plugin.image" -}}
{{- $tag := default (printf "%s-%s" .Chart.AppVersion (index .Chart.Annotations "outrigger.dev/os-base")) .Values.image.tag -}}
{{- if hasPrefix "sha256:" $tag -}}
{{- printf "%s@%s" .Values.image.repository $tag -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository $tag -}}
{{- end -}}
{{- end -}}

{{- /* A driver root below /run/nvidia comes and goes with the driver's container;
the agent sees it through /run/nvidia, which stays. */ -}}
{{- define "device-plugin.driverInRun" -}}
{{- if hasPrefix "/run/nvidia/" (printf "%s/" (trimSuffix "/" .Values.nvidiaDriverRoot)) }}true{{ end -}}
{{- end -}}

{{- define "device-plugin.driverRootCtrPath" -}}
{{- if include "device-plugin.driverInRun" . -}}
{{- .Values.nvidiaDriverRoot -}}
{{- else -}}
/driver-root
{{- end -}}
{{- end -}}

{{- define "device-plugin.devicePluginsDir" -}}
{{- printf "%s/device-plugins" (trimSuffix "/" .Values.kubeletRootDir) -}}
{{- end -}}

{{- /* Values that earlier plugins had and that cannot be honoured: said, not ignored. */ -}}
{{- define "device-plugin.refuse" -}}
{{- if .Values.legacyDaemonsetAPI -}}
{{- fail "legacyDaemonsetAPI: the API extensions/v1beta1 for DaemonSets is gone since Kubernetes 1.16, and this chart needs 1.26: remove the value" -}}
{{- end -}}
{{- end -}}
