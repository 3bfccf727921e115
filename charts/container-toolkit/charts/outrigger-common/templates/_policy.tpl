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
  message: this token is not bound to a node, and the agent writes only objects of its own node
{{- end -}}

{{- /* A finalizer would block the deletion of the object and of its namespace. */ -}}
{{- define "outrigger.policyNoFinalizer" -}}
- expression: >-
    request.operation == 'DELETE' || object.metadata.?finalizers.orValue([]).all(f,
      oldObject != null && f in oldObject.metadata.?finalizers.orValue([]))
  message: the agent adds no finalizers
{{- end -}}

{{- /* The names of the fields that a request changes in a part of an object, but
for some, of (list "spec" "'taints'"). The variables old and new are the object, as maps. */ -}}
{{- define "outrigger.changedFields" -}}
{{- $old := printf "variables.old.?%s.orValue({})" (first .) -}}
{{- $new := printf "variables.new.?%s.orValue({})" (first .) -}}
({{ $old }}.filter(f, {{ $new }}[?f] != {{ $old }}[?f]) +
 {{ $new }}.filter(f, !(f in {{ $old }}))).filter(f, !(f in [{{ last . }}]))
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

{{- /* Whether there is a policy for Events: the agent sends them, and the cluster has
policies. */ -}}
{{- define "outrigger.eventPolicies" -}}
{{- $events := default dict .Values.events -}}
{{- if and $events.enabled .Values.admissionPolicy.create (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version) }}true{{ end -}}
{{- end -}}

{{- /* The policy for the Events of an account, with its binding, of (dict "root" $
"account" … "agent" its name in Events). */ -}}
{{- define "outrigger.eventPolicy" -}}
{{- $name := printf "events.%s" (include "outrigger.rbacName" .root) -}}
{{- $labels := include "outrigger.labels" .root -}}
# An Event is a message to people. A token stolen from one node must not send any about
# other objects, or in the name of others.
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
  {{- include "outrigger.policySubject" . | nindent 2 }}
  variables:
    {{- include "outrigger.policyNode" . | nindent 4 }}
    - name: about
      expression: object.involvedObject
  validations:
    {{- include "outrigger.policyBound" . | nindent 4 }}
    - expression: >-
        variables.about.?kind.orValue('') == 'Node' && variables.about.?name.orValue('') == variables.node &&
        variables.about.?namespace.orValue('') == '' && !has(object.related) &&
        object.metadata.namespace == 'default' && object.metadata.name.startsWith(variables.node + '.')
      messageExpression: "'the agent on node ' + variables.node + ' sends Events about its own Node only'"
    - expression: >-
        object.?source.?component.orValue('') == '{{ .agent }}' && object.?source.?host.orValue('') == variables.node &&
        object.?reportingComponent.orValue('') == '{{ .agent }}' && object.?reportingInstance.orValue('') == variables.node
      message: the agent sends Events in its own name, {{ .agent }}, only
    # The API server keeps Events for an hour, and each can have a megabyte.
    - expression: >-
        object.?message.orValue('').size() <= 1024 && object.?reason.orValue('').size() <= 128 && object.?action.orValue('').size() <= 128 &&
        object.metadata.?labels.orValue({}).size() == 0 && object.metadata.?annotations.orValue({}).size() == 0
      message: the agent sends Events of at most 1024 characters, without labels and annotations
    {{- include "outrigger.policyNoFinalizer" . | nindent 4 }}
---
{{ include "outrigger.policyBinding" (dict "name" $name "labels" $labels) }}
{{- end -}}

{{- /* The policy for the evictions of an account, with its binding, of (dict "root" $ "account" …
"spared" a namespace whose pods it does not evict). */ -}}
{{- define "outrigger.evictionPolicy" -}}
{{- $name := printf "evictions.%s" (include "outrigger.rbacName" .root) -}}
{{- $labels := include "outrigger.labels" .root -}}
# A policy does not see the pod that is evicted, and so not its node. The UID keeps a token from
# evicting pods by guessed names: who does not know it has to read the pod first.
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
        operations: [CREATE]
        resources: [pods/eviction]
  {{- include "outrigger.policySubject" (dict "root" .root "account" .account) | nindent 2 }}
  variables:
    {{- include "outrigger.policyNode" .root | nindent 4 }}
    # As a map, because the types of two versions of evictions differ.
    - name: options
      expression: dyn(object).?deleteOptions.orValue({})
  validations:
    {{- include "outrigger.policyBound" .root | nindent 4 }}
    - expression: variables.options.?preconditions.?uid.orValue('') != ''
      message: the agent evicts a pod by its uid only, in deleteOptions.preconditions
    - expression: variables.options.all(f, f in ['apiVersion', 'kind', 'preconditions', 'dryRun'])
      message: the agent evicts pods as they ask for, without a grace period or propagation of its own
    {{- with .spared }}
    - expression: request.namespace != '{{ . }}'
      message: the agent evicts no pod of {{ . }}
    {{- end }}
---
{{ include "outrigger.policyBinding" (dict "name" $name "labels" $labels) }}
{{- end -}}
