{{- /* The policies that restrict the rights of the account. */ -}}
{{- define "mig-manager.admission" -}}
{{- if and .Values.rbac.create .Values.admissionPolicy.create -}}
{{- $account := include "outrigger.serviceAccountName" . }}
{{- $name := include "outrigger.rbacName" . }}
{{- $labels := include "outrigger.labels" . }}
# A token stolen from one node must not cordon other nodes, nor change more on its own node than
# a change of MIG layouts does.
{{ include "outrigger.nodePolicy" (dict "root" $ "name" $name "labels" $labels "account" $account "manager" "mig-manager"
  "own" "k == 'nvidia.com/mig.config.state'"
  "annotations" (list "outrigger.dev/mig-config-cause" "outrigger.dev/mig-config-cordoned") "cordon" true) }}
---
{{ include "outrigger.policyBinding" (dict "name" $name "labels" $labels) }}
{{- if eq .Values.gpuPods "evict" }}
---
{{ include "outrigger.evictionPolicy" (dict "root" $ "account" $account "spared" "kube-system") }}
{{- end }}
---
{{ include "outrigger.eventPolicy" (dict "root" $ "account" $account "agent" "mig-manager") }}
{{- end }}
{{- end -}}
