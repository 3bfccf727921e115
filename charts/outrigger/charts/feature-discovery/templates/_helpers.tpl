{{- /* The links of the condition GPUReady, separated by commas: the links in the chart's values,
else the links that the parent chart installs, else driver. */ -}}
{{- define "feature-discovery.readyChain" -}}
{{- $links := .Values.readyChain -}}
{{- if kindIs "invalid" $links }}{{ $links = default (list "driver") (default dict .Values.global).readyChain }}{{ end -}}
{{- join "," $links -}}
{{- end -}}

{{- define "feature-discovery.presenceName" -}}
{{- include "outrigger.nameWith" (dict "root" . "suffix" "presence") -}}
{{- end -}}

{{- define "feature-discovery.presenceLabels" -}}
{{ include "outrigger.versionLabels" . }}
{{ include "outrigger.partLabels" (dict "root" . "part" "feature-discovery-presence") }}
{{- end -}}

{{- define "feature-discovery.presenceServiceAccountName" -}}
{{- include "outrigger.accountName" (dict "values" .Values.presence.serviceAccount "name" (include "feature-discovery.presenceName" .)) -}}
{{- end -}}

{{- define "feature-discovery.presenceRBACName" -}}
{{- printf "%s.%s" (include "feature-discovery.presenceName" .) (include "outrigger.namespace" .) -}}
{{- end -}}

{{- define "feature-discovery.machineTypeFile" -}}
/host/sys/class/dmi/id/product_name
{{- end -}}

{{- /* True if the agent writes labels or the condition to its Node. */ -}}
{{- define "feature-discovery.writesNode" -}}
{{- if or (eq .Values.publish "node") (include "feature-discovery.readyChain" .) }}true{{ end -}}
{{- end -}}

{{- /* True if the agent reads its Node, to write there or to find its config. */ -}}
{{- define "feature-discovery.readsNode" -}}
{{- if or (include "feature-discovery.writesNode" .) (include "outrigger.configMapName" .) }}true{{ end -}}
{{- end -}}

{{- define "feature-discovery.usesAPI" -}}
{{- if or (include "feature-discovery.readsNode" .) (eq .Values.publish "nodefeature") .Values.events.enabled }}true{{ end -}}
{{- end -}}

{{- /* True if there are admission policies, for parts that write to the API server. */ -}}
{{- define "feature-discovery.policies" -}}
{{- if and .Values.admissionPolicy.create (or .Values.presence.enabled (include "feature-discovery.writesNode" .) (eq .Values.publish "nodefeature")) }}true{{ end -}}
{{- end -}}

{{- /* The taint that the agent removes, with the condition; empty for none. */ -}}
{{- define "feature-discovery.taint" -}}
{{- if include "feature-discovery.readyChain" . }}{{ include "outrigger.startupTaint" . }}{{ end -}}
{{- end -}}

{{- define "feature-discovery.hostNetwork" -}}
{{- if or .Values.enableHostNetwork .Values.hostNetwork (get (default dict .Values.gfd) "enableHostNetwork") }}true{{ end -}}
{{- end -}}
