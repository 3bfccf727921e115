{{- define "dra-plugin.fullname" -}}
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

{{- define "dra-plugin.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{- define "dra-plugin.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "dra-plugin.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: dra-plugin
app.kubernetes.io/part-of: outrigger
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "dra-plugin.selectorLabels" . }}
{{- end -}}

{{- define "dra-plugin.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "dra-plugin.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "dra-plugin.image" -}}
{{- $tag := default (printf "%s-%s" .Chart.AppVersion (index .Chart.Annotations "outrigger.dev/os-base")) .Values.image.tag -}}
{{- if hasPrefix "sha256:" $tag -}}
{{- printf "%s@%s" .Values.image.repository $tag -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository $tag -}}
{{- end -}}
{{- end -}}

{{- define "dra-plugin.driverRoot" -}}
{{- default "/" .Values.nvidiaDriverRoot -}}
{{- end -}}

{{- /* Reports whether a path is in a folder, of (list folder path). */ -}}
{{- define "dra-plugin.inFolder" -}}
{{- if hasPrefix (printf "%s/" (trimSuffix "/" (first .))) (printf "%s/" (trimSuffix "/" (last .))) }}true{{ end -}}
{{- end -}}

{{- /* A driver root below /run/nvidia comes and goes with the driver's container;
the agent sees it through /run/nvidia, which stays. */ -}}
{{- define "dra-plugin.driverInRun" -}}
{{- include "dra-plugin.inFolder" (list "/run/nvidia" (include "dra-plugin.driverRoot" .)) -}}
{{- end -}}

{{- define "dra-plugin.driverRootCtrPath" -}}
{{- if include "dra-plugin.driverInRun" . -}}
{{- include "dra-plugin.driverRoot" . -}}
{{- else -}}
/driver-root
{{- end -}}
{{- end -}}

{{- /* Names of objects that are in no namespace, or in another one than the
release: two releases of one name do not meet there. */ -}}
{{- define "dra-plugin.rbacName" -}}
{{- printf "%s.%s" (include "dra-plugin.fullname" .) (include "dra-plugin.namespace" .) -}}
{{- end -}}

{{- define "dra-plugin.kubeletDir" -}}
{{- trimSuffix "/" .Values.kubeletRootDir -}}
{{- end -}}

{{- /* What cannot be honoured is said here, not ignored. */ -}}
{{- define "dra-plugin.refuse" -}}
{{- $root := include "dra-plugin.driverRoot" . -}}
{{- with .Values.nvidiaDevRoot -}}
{{- if not (or (eq . "/") (include "dra-plugin.inFolder" (list $root .))) -}}
{{- fail (printf "nvidiaDevRoot: %q must be / or in nvidiaDriverRoot, which is %q: the agent sees no other folder of the host" . $root) -}}
{{- end -}}
{{- end -}}
{{- if (default dict .Values.updateStrategy.rollingUpdate).maxSurge -}}
{{- fail "updateStrategy.rollingUpdate.maxSurge: the pod that goes and the one that comes would both keep the file of prepared claims: use maxUnavailable" -}}
{{- end -}}
{{- with .Values.deviceClasses.extendedResourceName -}}
{{- if not (regexMatch `^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$` .) -}}
{{- fail (printf "deviceClasses.extendedResourceName: %q must be a name with a domain, like nvidia.com/gpu, or empty" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
