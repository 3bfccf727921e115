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

{{- define "device-plugin.driverRoot" -}}
{{- default "/" .Values.nvidiaDriverRoot -}}
{{- end -}}

{{- /* Reports whether a path is in a folder, of (list folder path). */ -}}
{{- define "device-plugin.inFolder" -}}
{{- if hasPrefix (printf "%s/" (trimSuffix "/" (first .))) (printf "%s/" (trimSuffix "/" (last .))) }}true{{ end -}}
{{- end -}}

{{- /* A driver root below /run/nvidia comes and goes with the driver's container;
the agent sees it through /run/nvidia, which stays. */ -}}
{{- define "device-plugin.driverInRun" -}}
{{- include "device-plugin.inFolder" (list "/run/nvidia" (include "device-plugin.driverRoot" .)) -}}
{{- end -}}

{{- define "device-plugin.driverRootCtrPath" -}}
{{- if include "device-plugin.driverInRun" . -}}
{{- include "device-plugin.driverRoot" . -}}
{{- else -}}
/driver-root
{{- end -}}
{{- end -}}

{{- define "device-plugin.devicePluginsDir" -}}
{{- printf "%s/device-plugins" (trimSuffix "/" .Values.kubeletRootDir) -}}
{{- end -}}

{{- /* The ConfigMap with the config files; empty where there is none. */ -}}
{{- define "device-plugin.configMapName" -}}
{{- if .Values.config.name -}}
{{- .Values.config.name -}}
{{- else if .Values.config.map -}}
{{- include "device-plugin.fullname" . | trunc 55 | trimSuffix "-" }}-configs
{{- end -}}
{{- end -}}

{{- /* Where NVIDIA's chart mounts them too. */ -}}
{{- define "device-plugin.configDir" -}}
/available-configs
{{- end -}}

{{- /* What a config file says at a path, as JSON, of (dict "text" … "path" (list …));
empty where it says nothing. */ -}}
{{- define "device-plugin.configValue" -}}
{{- $at := fromYaml .text -}}
{{- range .path -}}
{{- $at = kindIs "map" $at | ternary $at dict | dig . "" -}}
{{- end -}}
{{- with $at }}{{ toJson . }}{{ end -}}
{{- end -}}

{{- /* The daemons of MPS run where they are asked for, or where a config file
shares GPUs by MPS. */ -}}
{{- define "device-plugin.mps" -}}
{{- if kindIs "bool" .Values.mps.enabled -}}
{{- if .Values.mps.enabled }}true{{ end -}}
{{- else -}}
{{- $texts := values .Values.config.map -}}
{{- $shared := "" -}}
{{- range $texts -}}
{{- $shared = include "device-plugin.configValue" (dict "text" . "path" (list "sharing" "mps")) | default $shared -}}
{{- end -}}
{{- if $shared }}true{{ end -}}
{{- end -}}
{{- end -}}

{{- /* MPS pods are not those of the plugin's DaemonSet, nor of its Service. */ -}}
{{- define "device-plugin.mpsSelectorLabels" -}}
app.kubernetes.io/name: mps-control-daemon
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- /* No version among them: these pods stay what they are when the chart changes. */ -}}
{{- define "device-plugin.mpsLabels" -}}
app.kubernetes.io/component: mps-control-daemon
app.kubernetes.io/part-of: outrigger
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "device-plugin.mpsSelectorLabels" . }}
{{- end -}}

{{- define "device-plugin.mpsName" -}}
{{- include "device-plugin.fullname" . | trunc 44 | trimSuffix "-" }}-mps-control-daemon
{{- end -}}

{{- /* Names of objects that are in no namespace, or in another one than the
release: two releases of one name do not meet there. */ -}}
{{- define "device-plugin.rbacName" -}}
{{- printf "%s.%s" (include "device-plugin.fullname" .) (include "device-plugin.namespace" .) -}}
{{- end -}}
