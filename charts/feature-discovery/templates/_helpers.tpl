{{- define "feature-discovery.fullname" -}}
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

{{- define "feature-discovery.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{- define "feature-discovery.selectorLabels" -}}
{{- if .Values.selectorLabelsOverride -}}
{{- toYaml .Values.selectorLabelsOverride -}}
{{- else -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- end -}}

{{- define "feature-discovery.commonLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: outrigger
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "feature-discovery.labels" -}}
{{ include "feature-discovery.commonLabels" . }}
app.kubernetes.io/component: feature-discovery
{{ include "feature-discovery.selectorLabels" . }}
{{- end -}}

{{- define "feature-discovery.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "feature-discovery.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "feature-discovery.presenceName" -}}
{{- include "feature-discovery.fullname" . | trunc 54 | trimSuffix "-" }}-presence
{{- end -}}

{{- /* Pods of the presence part are not those of the other DaemonSet, nor of its
Service. */ -}}
{{- define "feature-discovery.presenceSelectorLabels" -}}
app.kubernetes.io/name: feature-discovery-presence
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "feature-discovery.presenceLabels" -}}
{{ include "feature-discovery.commonLabels" . }}
app.kubernetes.io/component: feature-discovery-presence
{{ include "feature-discovery.presenceSelectorLabels" . }}
{{- end -}}

{{- define "feature-discovery.presenceServiceAccountName" -}}
{{- if .Values.presence.serviceAccount.create -}}
{{- default (include "feature-discovery.presenceName" .) .Values.presence.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.presence.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "feature-discovery.image" -}}
{{- $tag := default (printf "%s-%s" .Chart.AppVersion (index .Chart.Annotations "outrigger.dev/os-base")) .Values.image.tag -}}
{{- if hasPrefix "sha256:" $tag -}}
{{- printf "%s@%s" .Values.image.repository $tag -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository $tag -}}
{{- end -}}
{{- end -}}

{{- define "feature-discovery.driverRoot" -}}
{{- default "/" .Values.nvidiaDriverRoot -}}
{{- end -}}

{{- /* Reports whether a path is in a folder, of (list folder path). */ -}}
{{- define "feature-discovery.inFolder" -}}
{{- if hasPrefix (printf "%s/" (trimSuffix "/" (first .))) (printf "%s/" (trimSuffix "/" (last .))) }}true{{ end -}}
{{- end -}}

{{- /* A driver root below /run/nvidia comes and goes with the driver's container;
the agent sees it through /run/nvidia, which stays. */ -}}
{{- define "feature-discovery.driverInRun" -}}
{{- include "feature-discovery.inFolder" (list "/run/nvidia" (include "feature-discovery.driverRoot" .)) -}}
{{- end -}}

{{- define "feature-discovery.driverRootCtrPath" -}}
{{- if include "feature-discovery.driverInRun" . -}}
{{- include "feature-discovery.driverRoot" . -}}
{{- else -}}
/driver-root
{{- end -}}
{{- end -}}

{{- define "feature-discovery.machineTypeFile" -}}
/host/sys/class/dmi/id/product_name
{{- end -}}

{{- /* The ConfigMap with the config files; empty where there is none. */ -}}
{{- define "feature-discovery.configMapName" -}}
{{- if .Values.config.name -}}
{{- .Values.config.name -}}
{{- else if .Values.config.map -}}
{{- include "feature-discovery.fullname" . | trunc 55 | trimSuffix "-" }}-configs
{{- end -}}
{{- end -}}

{{- /* Where NVIDIA's chart mounts them too. */ -}}
{{- define "feature-discovery.configDir" -}}
/available-configs
{{- end -}}

{{- /* What a config file says at a path, as JSON, of (dict "text" … "path" (list …));
empty where it says nothing. */ -}}
{{- define "feature-discovery.configValue" -}}
{{- $at := fromYaml .text -}}
{{- range .path -}}
{{- $at = kindIs "map" $at | ternary $at dict | dig . "" -}}
{{- end -}}
{{- with $at }}{{ toJson . }}{{ end -}}
{{- end -}}

{{- /* Names of objects that are in no namespace, or in another one than the
release: two releases of one name do not meet there. */ -}}
{{- define "feature-discovery.rbacName" -}}
{{- printf "%s.%s" (include "feature-discovery.fullname" .) (include "feature-discovery.namespace" .) -}}
{{- end -}}

{{- define "feature-discovery.presenceRBACName" -}}
{{- printf "%s.%s" (include "feature-discovery.presenceName" .) (include "feature-discovery.namespace" .) -}}
{{- end -}}

{{- /* The agent writes labels or the condition to its Node. */ -}}
{{- define "feature-discovery.writesNode" -}}
{{- if or (eq .Values.publish "node") .Values.readyChain }}true{{ end -}}
{{- end -}}

{{- /* It reads it: before it writes there, or for the label that names its config. */ -}}
{{- define "feature-discovery.readsNode" -}}
{{- if or (include "feature-discovery.writesNode" .) (include "feature-discovery.configMapName" .) }}true{{ end -}}
{{- end -}}

{{- define "feature-discovery.usesAPI" -}}
{{- if or (include "feature-discovery.readsNode" .) (eq .Values.publish "nodefeature") .Values.events.enabled }}true{{ end -}}
{{- end -}}

{{- /* There are admission policies, for parts that write to the API server. */ -}}
{{- define "feature-discovery.policies" -}}
{{- if and .Values.admissionPolicy.create (or .Values.presence.enabled (include "feature-discovery.writesNode" .) (eq .Values.publish "nodefeature")) }}true{{ end -}}
{{- end -}}
