{{- /* The policies that restrict the rights of the account. */ -}}
{{- define "mig-manager.admission" -}}
{{- if and .Values.rbac.create .Values.admissionPolicy.create -}}
{{- $account := include "outrigger.serviceAccountName" . }}
{{- $name := include "outrigger.rbacName" . }}
{{- $labels := include "outrigger.labels" . }}
# A token stolen from one node must not cordon other nodes, nor change more on its own node than
# a change of MIG layouts does.
{{ include "outrigger.nodePolicy" (dict "root" $ "name" $name "labels" $labels "account" $account "manager" "mig-manager"
  "own" (include "outrigger.pausedLabels" (dict "root" $ "own" "nvidia.com/mig.config.state"))
  "annotations" (list "outrigger.dev/mig-config-cause" "outrigger.dev/mig-config-cordoned" "outrigger.dev/mig-config-paused") "cordon" true) }}
---
{{ include "outrigger.policyBinding" (dict "name" $name "labels" $labels) }}
{{- if eq .Values.gpuPods "evict" }}
---
{{ include "outrigger.evictionPolicy" (dict "root" $ "account" $account "spared" "kube-system") }}
{{- end }}
{{- if (default dict .Values.config).publish }}
---
{{ include "mig-manager.publishPolicy" (dict "root" $ "account" $account) }}
{{- end }}
---
{{ include "outrigger.eventPolicy" (dict "root" $ "account" $account "agent" "mig-manager") }}
{{- end }}
{{- end -}}

{{- define "mig-manager.publishPolicy" -}}
{{- $name := printf "configs.%s" (include "outrigger.rbacName" .root) -}}
{{- $labels := include "outrigger.labels" .root -}}
# A token stolen from one node must not change the ConfigMaps that configure agents and other programs.
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
        operations: [CREATE, UPDATE]
        resources: [configmaps]
  {{- include "outrigger.policySubject" . | nindent 2 }}
  variables:
    {{- include "outrigger.policyNode" . | nindent 4 }}
    - name: new
      expression: dyn(object)
  validations:
    {{- include "outrigger.policyBound" . | nindent 4 }}
    - expression: >-
        object.metadata.name == variables.node + '-mig-config' &&
        (oldObject == null || oldObject.metadata.?labels[?'app.kubernetes.io/component'].orValue('') == 'nvidia-mig-manager')
      messageExpression: "'the agent on node ' + variables.node + ' writes the ConfigMap ' + variables.node + '-mig-config only'"
    # The configs of a node with several products have some kilobytes.
    - expression: >-
        !has(object.binaryData) && object.?data.orValue({}).all(k, k == 'config.yaml' && object.data[k].size() <= 65536) &&
        variables.new.metadata.?annotations.orValue({}).size() == 0 && variables.new.metadata.?ownerReferences.orValue([]).size() <= 1 &&
        variables.new.metadata.?labels.orValue({}).all(k, k in ['app.kubernetes.io/component', 'nvidia.com/node-name'])
      message: the agent writes config.yaml of at most 65536 characters, two labels and one owner
    {{- include "outrigger.policyNoFinalizer" . | nindent 4 }}
---
{{ include "outrigger.policyBinding" (dict "name" $name "labels" $labels) }}
{{- end -}}
