{{- /* The policies that restrict the rights of the chart's accounts. */ -}}
{{- define "driver-loader.admission" -}}
{{- if and .Values.rbac.create .Values.admissionPolicy.create -}}
{{- $account := include "outrigger.serviceAccountName" . }}
{{- $name := include "outrigger.rbacName" . }}
{{- $labels := include "outrigger.labels" . }}
# A token stolen from one node must not cordon other nodes, nor change more on its own node than
# an upgrade does. It must not permit an upgrade.
{{ include "outrigger.nodePolicy" (dict "root" $ "name" $name "labels" $labels "account" $account "manager" "driver-loader"
  "own" (include "outrigger.pausedLabels" (dict "root" $ "own" "nvidia.com/gpu-driver-upgrade-state")) "annotations" (include "driver-loader.annotations" . | fromYamlArray) "cordon" true
  "condition" "GPUOptionalModulesLoaded") }}
---
{{ include "outrigger.policyBinding" (dict "name" $name "labels" $labels) }}
---
{{ include "driver-loader.upgradesPolicy" . }}
---
{{ include "outrigger.evictionPolicy" (dict "root" $ "account" $account) }}
---
{{ include "outrigger.eventPolicy" (dict "root" $ "account" $account "agent" "driver-loader") }}
{{- end }}
{{- end -}}

{{- /* The annotations of an upgrade. */ -}}
{{- define "driver-loader.annotations" -}}
- nvidia.com/gpu-driver-upgrade-requested
- nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable
- nvidia.com/gpu-driver-upgrade-wait-for-pod-completion-start-time
- nvidia.com/gpu-driver-upgrade-validation-start-time
- outrigger.dev/driver-upgrade-cordoned
- outrigger.dev/driver-upgrade-paused
- outrigger.dev/driver-upgrade-cause
- outrigger.dev/driver-upgrade-driver
- outrigger.dev/driver-upgrade-failed
- outrigger.dev/driver-upgrade-daemonset
{{- end -}}

{{- define "driver-loader.bindings" -}}
{{- if .Values.rbac.create -}}
{{- $labels := include "outrigger.labels" . -}}
{{- $account := include "outrigger.serviceAccountName" . -}}
{{ include "outrigger.roleBinding" (dict "root" . "kind" "ClusterRole" "name" (include "outrigger.rbacName" .) "labels" $labels "account" $account) }}
---
{{ include "outrigger.roleBinding" (dict "root" . "kind" "Role" "name" (include "outrigger.fullname" .) "namespace" (include "outrigger.namespace" .)
  "labels" $labels "account" $account) }}
---
{{ include "outrigger.eventBinding" . }}
---
{{ include "driver-loader.upgradesBindings" . }}
{{- end -}}
{{- end -}}
