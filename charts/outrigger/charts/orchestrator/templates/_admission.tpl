{{- /* An Event is a message to people, and can have a megabyte. */ -}}
{{- define "orchestrator.admission" -}}
{{- if and .Values.admissionPolicy.create (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version) -}}
{{- $name := printf "events.%s" (include "outrigger.rbacName" .) -}}
{{- $labels := include "outrigger.labels" . -}}
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
        resources: [events]
  matchConditions:
    {{- include "orchestrator.itself" . | nindent 4 }}
  variables:
    - name: about
      expression: object.involvedObject
    {{- include "outrigger.policyNew" . | nindent 4 }}
  validations:
    - expression: >-
        variables.about.?kind.orValue('') == 'ClusterPolicy' && variables.about.?apiVersion.orValue('').startsWith('outrigger.dev/') &&
        variables.about.?name.orValue('').size() <= 253 && variables.about.?namespace.orValue('') == '' && !has(object.related)
      message: the orchestrator sends Events about ClusterPolicies only
    - expression: >-
        object.?source.?component.orValue('') == 'outrigger' && object.?source.?host.orValue('') == '' &&
        object.?reportingComponent.orValue('') in ['', 'outrigger'] && object.?reportingInstance.orValue('') == ''
      message: the orchestrator sends Events in its own name, outrigger, only
    {{- include "outrigger.policyEventSize" . | nindent 4 }}
---
{{ include "outrigger.policyBinding" (dict "name" $name "labels" $labels) }}
---
{{ include "orchestrator.keysPolicy" . }}
{{- end -}}
{{- end -}}

{{- /* Rejects unknown keys in the spec of a ClusterPolicy: the API server keeps them, and a typo would have no effect.
A policy of another version, which Helm is about to install or has just replaced, can have other keys. */ -}}
{{- define "orchestrator.keysPolicy" -}}
{{- $name := printf "keys.%s" (include "outrigger.rbacName" .) -}}
{{- $labels := include "outrigger.labels" . -}}
{{- $version := .Chart.AppVersion -}}
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
      - apiGroups: [outrigger.dev]
        apiVersions: ["*"]
        operations: [CREATE, UPDATE]
        resources: [clusterpolicies]
  matchConditions:
    - name: the-spec-changes
      expression: request.operation == 'CREATE' || dyn(object).?spec != dyn(oldObject).?spec
    - name: of-this-version
      expression: dyn(object).metadata.?labels[?'app.kubernetes.io/version'].orValue('{{ $version }}') == '{{ $version }}'
  variables:
    {{- include "orchestrator.keys" . | nindent 4 }}
  validations:
    - expression: variables.unknown.size() == 0
      messageExpression: "'unknown keys in spec: ' + variables.unknown.join(', ') + '; kubectl explain gpupolicy.spec describes the known keys'"
---
{{ include "outrigger.policyBinding" (dict "name" $name "labels" $labels) }}
{{- end -}}

{{- /* A Role. Argument: (dict "root" $ "name" … "namespace" … "rules" the name of a template). */ -}}
{{- define "orchestrator.role" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels:
    {{- include "outrigger.labels" .root | nindent 4 }}
rules:
  {{- include .rules .root | trim | nindent 2 }}
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
---
{{ include "outrigger.roleBinding" (dict "root" . "kind" "Role" "name" (include "outrigger.fullname" .)
  "namespace" (include "outrigger.namespace" .) "labels" $labels "account" $account) }}
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
