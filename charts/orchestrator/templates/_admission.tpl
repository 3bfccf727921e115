{{- /* A policy, because a ClusterRole cannot express "the namespace of the agents", and a Role
needs this namespace before the orchestrator creates it. */ -}}
{{- define "orchestrator.admission" -}}
{{- if and .Values.admissionPolicy.create (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version) -}}
{{- $labels := include "outrigger.labels" . -}}
# An account that can create DaemonSets in kube-system controls the cluster.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ include "outrigger.rbacName" . }}
  labels:
    {{- $labels | nindent 4 }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: ["*"]
        apiVersions: ["*"]
        operations: [CREATE, UPDATE, DELETE]
        resources: {{ include "orchestrator.namespaced" . }}
      - apiGroups: [""]
        apiVersions: [v1]
        operations: [CREATE, UPDATE, DELETE]
        resources: [namespaces]
  matchConditions:
    {{- include "orchestrator.itself" . | nindent 4 }}
  validations:
    # The agents' right to send Events about Nodes is in the namespace default.
    - expression: >-
        request.namespace in ['', '{{ include "orchestrator.agents" . }}', '{{ include "outrigger.namespace" . }}'] ||
        request.namespace == 'default' && request.resource.resource in ['roles', 'rolebindings', 'events']
      messageExpression: >-
        'the orchestrator writes to the namespaces {{ include "orchestrator.agents" . }} and {{ include "outrigger.namespace" . }} only, not to '
        + request.namespace + ': set global.namespace in the values of its Helm release'
    - expression: >-
        request.resource.resource != 'namespaces' || request.name == '{{ include "orchestrator.agents" . }}'
      message: 'the orchestrator writes only the Namespace {{ include "orchestrator.agents" . }}: set global.namespace in the values of its Helm release'
---
{{ include "outrigger.policyBinding" (dict "name" (include "outrigger.rbacName" .) "labels" $labels) }}
---
{{- $given := printf "given.%s" (include "outrigger.rbacName" .) }}
# Kubernetes does not let an account grant rights that it lacks. The orchestrator needs these rights
# only to grant them.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ $given }}
  labels:
    {{- $labels | nindent 4 }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      {{- include "orchestrator.given" . | trim | nindent 6 }}
      # A role cannot limit create to the name of the orchestrator's Lease.
      - apiGroups: [coordination.k8s.io]
        apiVersions: ["*"]
        operations: [CREATE, UPDATE]
        resources: [leases]
  matchConditions:
    {{- include "orchestrator.itself" . | nindent 4 }}
  validations:
    # The orchestrator's Lease is in the namespace default.
    - expression: request.resource.resource == 'leases' && request.namespace == 'default' && request.name == 'outrigger'
      messageExpression: >-
        'the orchestrator has the right to write ' + request.resource.resource
        + (has(request.subResource) ? '/' + request.subResource : '')
        + ' only to give it to agents: find out who else uses the token of its ServiceAccount'
---
{{ include "outrigger.policyBinding" (dict "name" $given "labels" $labels) }}
{{- end -}}
{{- end -}}

{{- define "orchestrator.itself" -}}
- name: is-the-orchestrator
  expression: request.userInfo.username == 'system:serviceaccount:{{ include "outrigger.namespace" . }}:{{ include "outrigger.serviceAccountName" . }}'
{{- end -}}

{{- define "orchestrator.bindings" -}}
{{- if .Values.rbac.create -}}
{{- $labels := include "outrigger.labels" . -}}
{{- $account := include "outrigger.serviceAccountName" . -}}
{{ include "outrigger.roleBinding" (dict "root" . "kind" "ClusterRole" "name" (include "outrigger.rbacName" .) "labels" $labels "account" $account) }}
---
{{ include "outrigger.roleBinding" (dict "root" . "kind" "Role" "name" (include "outrigger.rbacName" .)
  "namespace" "default" "labels" $labels "account" $account) }}
{{- end -}}
{{- end -}}

{{- /* The orchestrator that holds this Lease works, out of all orchestrators in the cluster. The
Lease therefore has the same name and namespace for all of them. Because it is an object of the
release, Helm deletes it with the release, and rejects a second release. */ -}}
{{- define "orchestrator.lease" -}}
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata:
  name: outrigger
  namespace: default
  labels:
    {{- include "outrigger.labels" . | nindent 4 }}
{{- end -}}
