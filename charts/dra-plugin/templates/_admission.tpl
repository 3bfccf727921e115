{{- /* The policies that restrict the rights of the account. */ -}}
{{- define "dra-plugin.admission" -}}
{{- if .Values.admissionPolicy.create -}}
# A token stolen from one node must not change what other nodes advertise.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ include "outrigger.rbacName" . }}
  labels:
    {{- include "outrigger.labels" . | nindent 4 }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: [resource.k8s.io]
        apiVersions: [v1]
        operations: [CREATE, UPDATE, DELETE]
        resources: [resourceslices]
  {{- include "outrigger.policySubject" (dict "root" $ "account" (include "outrigger.serviceAccountName" .)) | nindent 2 }}
  variables:
    {{- include "outrigger.policyNode" . | nindent 4 }}
    - name: slice
      expression: "request.operation == 'DELETE' ? oldObject : object"
    - name: new
      expression: dyn(variables.slice)
  validations:
    {{- include "outrigger.policyBound" . | nindent 4 }}
    - expression: variables.slice.spec.driver == 'gpu.nvidia.com'
      message: the agent writes only ResourceSlices of the driver gpu.nvidia.com
    - expression: variables.slice.spec.?nodeName.orValue('') == variables.node
      messageExpression: "'the agent on node ' + variables.node + ' does not write ResourceSlices of other nodes'"
    # The scheduler uses the newest generation of a pool, whichever node publishes it.
    - expression: variables.slice.spec.pool.name == variables.node
      messageExpression: "'the agent on node ' + variables.node + ' does not write ResourceSlices of the pool ' + variables.slice.spec.pool.name"
    # The API server limits the size of the spec.
    - expression: >-
        request.operation == 'DELETE' ||
        object.metadata.?annotations.orValue({}).size() == 0 && object.metadata.?labels.orValue({}).size() == 0
      message: the agent writes ResourceSlices without labels and annotations
    {{- include "outrigger.policyOwners" (dict "managers" 4 "parts" 2 "fields" 8 "leaves" "8" "key" 64) | nindent 4 }}
    {{- include "outrigger.policyShortReferences" . | nindent 4 }}
    {{- include "outrigger.policyNoFinalizer" . | nindent 4 }}
---
{{ include "outrigger.policyBinding" (dict "name" (include "outrigger.rbacName" .) "labels" (include "outrigger.labels" .)) }}
{{- end }}
{{- end -}}

{{- /* The RBAC objects of the account. */ -}}
{{- define "dra-plugin.bindings" -}}
{{- if .Values.rbac.create -}}
{{ include "outrigger.roleBinding" (dict "root" . "kind" "ClusterRole" "name" (include "outrigger.rbacName" .)
  "labels" (include "outrigger.labels" .) "account" (include "outrigger.serviceAccountName" .)) }}
{{- end -}}
{{- end -}}
