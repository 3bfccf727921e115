{{- /* The service account to which a policy applies, of (dict "root" $ "account" …). */ -}}
{{- define "outrigger.policySubject" -}}
matchConditions:
  - name: is-the-agent
    expression: request.userInfo.username == 'system:serviceaccount:{{ include "outrigger.namespace" .root }}:{{ .account }}'
{{- end -}}

{{- define "outrigger.policyNode" -}}
# Kubernetes writes the node into the token of a pod.
- name: node
  expression: request.userInfo.?extra[?'authentication.kubernetes.io/node-name'][0].orValue('')
{{- end -}}

{{- define "outrigger.policyBound" -}}
- expression: variables.node != ''
  message: this token is bound to no node, and the agent only writes what is of its own
{{- end -}}

{{- /* A finalizer would block the deletion of the object and of its namespace. */ -}}
{{- define "outrigger.policyNoFinalizer" -}}
- expression: >-
    request.operation == 'DELETE' || object.metadata.?finalizers.orValue([]).all(f,
      oldObject != null && f in oldObject.metadata.?finalizers.orValue([]))
  message: the agent puts no finalizer on what it writes
{{- end -}}

{{- /* Binds a policy, of (dict "name" … "labels" …). */ -}}
{{- define "outrigger.policyBinding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels:
    {{- .labels | nindent 4 }}
spec:
  policyName: {{ .name }}
  validationActions: [Deny]
{{- end -}}
