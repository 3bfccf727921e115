{{- /* The policies that restrict the rights of the accounts. */ -}}
{{- define "feature-discovery.admission" -}}
{{- if .Values.admissionPolicy.create -}}
{{- $account := include "outrigger.serviceAccountName" . }}
{{- $name := include "outrigger.rbacName" . }}
{{- $labels := include "outrigger.labels" . }}
{{- if include "feature-discovery.writesNode" . }}
# A token stolen from one node must not change other nodes, nor change more on its
# own node than the agent does.
{{ include "outrigger.nodePolicy" (dict "root" $ "name" $name "labels" $labels "account" $account
  "manager" "feature-discovery" "own" (eq .Values.publish "node" | ternary (include "feature-discovery.ownLabel" .) "false")
  "taint" (include "feature-discovery.taint" .)
  "condition" (include "feature-discovery.readyChain" . | empty | ternary "" "GPUReady")) }}
---
{{ include "outrigger.policyBinding" (dict "name" $name "labels" $labels) }}
{{- end }}
{{- if eq .Values.publish "nodefeature" }}
{{- $name := printf "nodefeatures.%s" $name }}
---
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
      - apiGroups: [nfd.k8s-sigs.io]
        apiVersions: ["*"]
        operations: [CREATE, UPDATE]
        resources: [nodefeatures]
  {{- include "outrigger.policySubject" (dict "root" $ "account" $account) | nindent 2 }}
  variables:
    {{- include "outrigger.policyNode" . | nindent 4 }}
    - name: othersLabels
      expression: |-
        object.spec.?labels.orValue({}).filter(k, !(
        {{- include "feature-discovery.ownLabel" . | nindent 8 }}
        ))
    {{- include "outrigger.policyNew" . | nindent 4 }}
  validations:
    {{- include "outrigger.policyBound" . | nindent 4 }}
    - expression: object.metadata.namespace == '{{ include "outrigger.namespace" . }}'
      message: the agent writes NodeFeatures in the namespace {{ include "outrigger.namespace" . }} only
    # Node Feature Discovery finds the Node by this label.
    - expression: >-
        object.metadata.name == 'nvidia-features-for-' + variables.node &&
        object.metadata.?labels[?'nfd.node.kubernetes.io/node-name'].orValue('') == variables.node
      messageExpression: "'the agent on node ' + variables.node + ' writes the NodeFeature nvidia-features-for-' + variables.node + ' for its own node only'"
    - expression: variables.othersLabels.size() == 0
      message: the agent may not request these labels
      messageExpression: "'the agent may not request these labels: ' + variables.othersLabels.join(', ')"
    # Unlike the labels of a Node, these may have any size.
    - expression: >-
        object.spec.?labels.orValue({}).size() <= 512 &&
        object.spec.?labels.orValue({}).all(k, k.size() <= 317 && object.spec.labels[k].size() <= 63)
      message: the agent requests at most 512 labels, each as long as a label of a Node may be
    - expression: object.metadata.?annotations.orValue({}).size() == 0 && object.metadata.?labels.orValue({}).size() <= 4
      message: the agent writes NodeFeatures without annotations, and with at most 4 labels
    # Rules in the cluster would trust them as features that Node Feature Discovery found.
    - expression: >-
        object.spec.all(part, part in ['labels', 'features']) &&
        object.spec.?features.orValue({}).all(f, object.spec.features[f].size() == 0)
      message: the agent publishes labels, and no features
    {{- include "outrigger.policyOwners" (dict "managers" 3 "parts" 2 "fields" 8
      "leaves" "a == 'f:spec' && b == 'f:labels' ? 513 : 8" "key" 320) | nindent 4 }}
    {{- include "outrigger.policyShortReferences" . | nindent 4 }}
    {{- include "outrigger.policyNoFinalizer" . | nindent 4 }}
---
{{ include "outrigger.policyBinding" (dict "name" $name "labels" $labels) }}
{{- end }}
{{- if .Values.presence.enabled }}
{{- $name := include "feature-discovery.presenceRBACName" . }}
{{- $labels := include "feature-discovery.presenceLabels" . }}
---
{{ include "outrigger.nodePolicy" (dict "root" $ "name" $name "labels" $labels
  "account" (include "feature-discovery.presenceServiceAccountName" .)
  "manager" "feature-discovery-presence" "own" (include "feature-discovery.presenceOwnLabel" .) "taint" "" "condition" "") }}
---
{{ include "outrigger.policyBinding" (dict "name" $name "labels" $labels) }}
{{- end }}
{{- if include "outrigger.eventPolicies" . }}
---
{{ include "outrigger.eventPolicy" (dict "root" $ "account" $account "agent" "feature-discovery") }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* The RBAC objects of the accounts. */ -}}
{{- define "feature-discovery.bindings" -}}
{{- if .Values.rbac.create -}}
{{- $name := include "outrigger.rbacName" . -}}
{{- $labels := include "outrigger.labels" . -}}
{{- $account := include "outrigger.serviceAccountName" . -}}
{{- if include "feature-discovery.usesAPI" . -}}
{{ include "outrigger.roleBinding" (dict "root" . "kind" "ClusterRole" "name" $name "labels" $labels "account" $account) }}
---
{{ include "outrigger.roleBinding" (dict "root" . "kind" "Role" "name" (include "outrigger.fullname" .)
  "namespace" (include "outrigger.namespace" .) "labels" $labels "account" $account) }}
{{- end }}
{{- if .Values.events.enabled }}
---
{{ include "outrigger.eventBinding" . }}
{{- end }}
{{- if .Values.presence.enabled }}
---
{{ include "outrigger.roleBinding" (dict "root" . "kind" "ClusterRole" "name" (include "feature-discovery.presenceRBACName" .)
  "labels" (include "feature-discovery.presenceLabels" .) "account" (include "feature-discovery.presenceServiceAccountName" .)) }}
---
{{ include "outrigger.roleBinding" (dict "root" . "kind" "Role" "name" (include "feature-discovery.presenceName" .)
  "namespace" (include "outrigger.namespace" .) "labels" (include "feature-discovery.presenceLabels" .)
  "account" (include "feature-discovery.presenceServiceAccountName" .)) }}
{{- end }}
{{- end -}}
{{- end -}}
