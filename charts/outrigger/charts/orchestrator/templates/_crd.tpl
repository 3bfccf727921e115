{{- /* The rights to apply the CRD. Server-side apply creates an object under its name, so the name also limits
create. */ -}}
{{- define "orchestrator.applyCRDRules" -}}
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames: [clusterpolicies.outrigger.dev]
  verbs: [get, create, patch]
# If somebody has deleted the CRD, the finalizers of its policies have to go before the Job can create it again.
- apiGroups: [outrigger.dev]
  resources: [clusterpolicies]
  verbs: [list, patch]
{{- end -}}

{{- define "orchestrator.deleteCRDRules" -}}
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames: [clusterpolicies.outrigger.dev]
  verbs: [delete]
- apiGroups: [outrigger.dev]
  resources: [clusterpolicies]
  verbs: [list]
{{- end -}}

{{- /* A hook that changes the CRD, with its own account, because the orchestrator must not be able to do so. Argument:
(dict "root" $ "hook" when it runs "command" the command of the orchestrator "rules" the name of a template). */ -}}
{{- define "orchestrator.crdJob" -}}
{{- $name := include "outrigger.nameWith" (dict "root" .root "suffix" .command) -}}
{{- $namespace := include "outrigger.namespace" .root -}}
{{- $of := dict "root" .root "hook" .hook "part" (printf "orchestrator-%s" .command) -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  namespace: {{ $namespace }}
  {{- include "orchestrator.hookMetadata" (set $of "weight" "-10") | nindent 2 }}
automountServiceAccountToken: false
{{- if .root.Values.rbac.create }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}.{{ $namespace }}
  {{- include "orchestrator.hookMetadata" $of | nindent 2 }}
rules:
  {{- include .rules .root | trim | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $name }}.{{ $namespace }}
  {{- include "orchestrator.hookMetadata" $of | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $name }}.{{ $namespace }}
subjects:
  - kind: ServiceAccount
    name: {{ $name }}
    namespace: {{ $namespace }}
{{- end }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ $name }}
  namespace: {{ $namespace }}
  {{- include "orchestrator.hookMetadata" (set $of "weight" "-5") | nindent 2 }}
spec:
  # The API server may be unavailable for a moment.
  backoffLimit: 3
  activeDeadlineSeconds: 240
  template:
    metadata:
      labels:
        {{- include "outrigger.partLabels" $of | nindent 8 }}
    spec:
      restartPolicy: Never
      {{- include "orchestrator.pod" (dict "root" .root "account" $name) | nindent 6 }}
      containers:
        - {{ include "orchestrator.container" (dict "root" .root "args" (list .command)) | nindent 10 | trim }}
{{- end -}}

{{- define "orchestrator.hookMetadata" -}}
labels:
  {{- include "outrigger.partLabels" . | nindent 2 }}
annotations:
  helm.sh/hook: {{ .hook }}
  helm.sh/hook-weight: {{ .weight | quote }}
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}
