{{- /* What a token of the agent may change. */ -}}
{{- define "driver-loader.admission" -}}
{{- if and .Values.rbac.create .Values.admissionPolicy.create -}}
{{- $account := include "outrigger.serviceAccountName" . }}
{{- $name := include "outrigger.rbacName" . }}
{{- $labels := include "outrigger.labels" . }}
# A token stolen from one node must not cordon other nodes, nor change more on its own node than
# an upgrade does.
{{ include "outrigger.nodePolicy" (dict "root" $ "name" $name "labels" $labels "account" $account "manager" "driver-loader"
  "own" "k == 'nvidia.com/gpu-driver-upgrade-state'" "annotations" (include "driver-loader.annotations" . | fromYamlArray) "cordon" true) }}
---
{{ include "outrigger.policyBinding" (dict "name" $name "labels" $labels) }}
---
{{ include "driver-loader.slotPolicy" (dict "root" $ "name" (printf "leases.%s" $name) "labels" $labels "account" $account) }}
---
{{ include "outrigger.evictionPolicy" (dict "root" $ "account" $account) }}
---
{{ include "outrigger.eventPolicy" (dict "root" $ "account" $account "agent" "driver-loader") }}
{{- end }}
{{- end -}}

{{- /* The policy for the upgrade slots, with its binding, of (dict "root" $ "name" … "labels" … "account" …). */ -}}
{{- define "driver-loader.slotPolicy" -}}
# The role cannot name the Leases, because it creates them. Others in the namespace are those of
# other programs.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ .name }}
  labels:
    {{- .labels | nindent 4 }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: [coordination.k8s.io]
        apiVersions: ["*"]
        operations: [CREATE, UPDATE]
        resources: [leases]
  {{- include "outrigger.policySubject" . | nindent 2 }}
  variables:
    {{- include "outrigger.policyNode" . | nindent 4 }}
    - name: holder
      expression: object.?spec.?holderIdentity.orValue('')
    - name: oldHolder
      expression: "oldObject == null ? '' : oldObject.?spec.?holderIdentity.orValue('')"
    - name: annotations
      expression: object.metadata.?annotations.orValue({})
  validations:
    {{- include "outrigger.policyBound" . | nindent 4 }}
    - expression: object.metadata.name.matches('^driver-upgrade-[0-9]+$')
      message: the agent writes only the Leases driver-upgrade-0, driver-upgrade-1, …
    - expression: >-
        variables.holder == variables.oldHolder || variables.holder == variables.node ||
        variables.holder == '' && variables.oldHolder == variables.node
      messageExpression: "'the agent on node ' + variables.node + ' takes and gives back slots for its own node only'"
    - expression: >-
        variables.annotations.all(k, k == 'outrigger.dev/driver-upgrade-failures' && variables.annotations[k].size() <= 65536 ||
          oldObject != null && oldObject.metadata.?annotations[?k].orValue('') == variables.annotations[k])
      message: the agent annotates a slot with the failures of upgrades only
    {{- include "outrigger.policyNoFinalizer" . | nindent 4 }}
---
{{ include "outrigger.policyBinding" (dict "name" .name "labels" .labels) }}
{{- end -}}

{{- /* The annotations of an upgrade. */ -}}
{{- define "driver-loader.annotations" -}}
- nvidia.com/gpu-driver-upgrade-requested
- nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable
- nvidia.com/gpu-driver-upgrade-wait-for-pod-completion-start-time
- nvidia.com/gpu-driver-upgrade-validation-start-time
- outrigger.dev/driver-upgrade-cordoned
- outrigger.dev/driver-upgrade-cause
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
