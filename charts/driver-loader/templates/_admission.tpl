{{- /* What a token of the agent may change. */ -}}
{{- define "driver-loader.admission" -}}
{{- if and .Values.rbac.create .Values.admissionPolicy.create -}}
{{- $account := include "outrigger.serviceAccountName" . }}
{{- $name := include "outrigger.rbacName" . }}
{{- $labels := include "outrigger.labels" . }}
# A token stolen from one node must not cordon other nodes, nor change more on its own node than
# an upgrade does.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ $name }}
  labels:
    {{- $labels | nindent 4 }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: [""]
        apiVersions: [v1]
        operations: [UPDATE]
        resources: [nodes, nodes/status]
  {{- include "outrigger.policySubject" (dict "root" $ "account" $account) | nindent 2 }}
  variables:
    {{- include "outrigger.policyNode" . | nindent 4 }}
    # As maps, because maps can be listed, including fields that later versions of
    # Kubernetes add.
    - name: old
      expression: dyn(oldObject)
    - name: new
      expression: dyn(object)
    - name: labels
      expression: |-
        {{- include "outrigger.changedFields" (list "metadata.?labels" "'nvidia.com/gpu-driver-upgrade-state'") | nindent 8 }}
    - name: annotations
      expression: |-
        {{- include "outrigger.changedFields" (list "metadata.?annotations" (include "driver-loader.annotations" . | trim)) | nindent 8 }}
    - name: metadata
      expression: |-
        {{- include "outrigger.changedFields" (list "metadata" "'labels', 'annotations', 'managedFields', 'resourceVersion', 'generation'") | nindent 8 }}
    - name: spec
      expression: |-
        {{- include "outrigger.changedFields" (list "spec" "'unschedulable'") | nindent 8 }}
    - name: status
      expression: |-
        {{- include "outrigger.changedFields" (list "status" "") | nindent 8 }}
  validations:
    {{- include "outrigger.policyBound" . | nindent 4 }}
    - expression: object.metadata.name == variables.node
      messageExpression: "'the agent on node ' + variables.node + ' does not write to other Nodes'"
    - expression: variables.labels.size() == 0
      messageExpression: "'the agent may not change these labels: ' + variables.labels.join(', ')"
    - expression: variables.annotations.size() == 0
      messageExpression: "'the agent may not change these annotations: ' + variables.annotations.join(', ')"
    - expression: variables.metadata.size() + variables.spec.size() + variables.status.size() == 0
      messageExpression: "'the agent may not change ' + (variables.metadata + variables.spec + variables.status).join(', ')"
---
{{ include "outrigger.policyBinding" (dict "name" $name "labels" $labels) }}
---
{{ include "outrigger.evictionPolicy" (dict "root" $ "account" $account) }}
---
{{ include "outrigger.eventPolicy" (dict "root" $ "account" $account "agent" "driver-loader") }}
{{- end }}
{{- end -}}

{{- /* The annotations of an upgrade. */ -}}
{{- define "driver-loader.annotations" -}}
'nvidia.com/gpu-driver-upgrade-requested', 'nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable',
'nvidia.com/gpu-driver-upgrade-wait-for-pod-completion-start-time', 'nvidia.com/gpu-driver-upgrade-validation-start-time',
'outrigger.dev/driver-upgrade-cordoned', 'outrigger.dev/driver-upgrade-cause'
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
{{- end -}}
{{- end -}}
