{{- /* The right to apply the workloads of agents, and the policy that limits it. Only the chart outrigger renders
them, because they follow from the objects of its agents. Argument: (dict "root" the context of this chart
"all" the result of outrigger.collected "kinds" the resources of kinds). */ -}}
{{- define "orchestrator.work" -}}
{{- include "orchestrator.names" .root -}}
{{- $root := .root -}}
{{- $all := .all -}}
{{- $kinds := .kinds -}}
{{- $name := include "outrigger.rbacName" $root -}}
{{- $labels := include "outrigger.labels" $root -}}
{{- $texts := list -}}
{{- if and $root.Values.admissionPolicy.create (semverCompare ">=1.30.0-0" $root.Capabilities.KubeVersion.Version) -}}
{{- $texts = append $texts (include "orchestrator.workPolicy" (dict "root" $root "all" $all "kinds" $kinds "name" (printf "workloads.%s" $name) "labels" $labels)) -}}
{{- end -}}
{{- if $root.Values.rbac.create -}}
{{- range $namespace, $names := $all.names -}}
{{- $texts = append $texts (include "orchestrator.workRole" (dict "name" $name "namespace" $namespace "labels" $labels "names" $names "kinds" $kinds)) -}}
{{- $texts = append $texts (include "outrigger.roleBinding" (dict "root" $root "kind" "Role" "name" $name "namespace" $namespace "labels" $labels
  "account" (include "outrigger.serviceAccountName" $root))) -}}
{{- end -}}
{{- end -}}
{{- include "outrigger.inOrder" (dict "name" (printf "workloads.%s" $name) "objects" $texts) -}}
{{- end -}}

{{- define "orchestrator.workRole" -}}
{{- $names := .names -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels:
    {{- .labels | nindent 4 }}
rules:
  {{- range $kind, $of := .kinds }}
  {{- with get $names $kind }}
  {{- $open := include "orchestrator.openNames" . }}
  {{- if $open }}
  # Some names follow from the nodes. The policy of the workloads limits the names.
  {{- else }}
  # Server-side apply creates an object under its name, so this limits create as well.
  {{- end }}
  - apiGroups: [{{ quote $of.group }}]
    resources: [{{ $of.resource }}]
    {{- if not $open }}
    resourceNames: {{ keys . | sortAlpha | toJson }}
    {{- end }}
    verbs: [get, create, patch]
  {{- end }}
  # An object that the values no longer have is deleted, also under a name that is not known here.
  - apiGroups: [{{ quote $of.group }}]
    resources: [{{ $of.resource }}]
    verbs: [list, watch, delete]
  {{- end }}
  # The pods of agents, and of validations.
  - apiGroups: [""]
    resources: [pods]
    verbs: [get, list, watch, create, delete]
{{- end -}}

{{- /* "true" if some names end with "*". Argument: the names of a kind, as keys. */ -}}
{{- define "orchestrator.openNames" -}}
{{- range keys . }}{{ if hasSuffix "*" . }}true{{ end }}{{ end -}}
{{- end -}}

{{- /* Argument: (dict "root" … "all" … "kinds" … "name" … "labels" …). */ -}}
{{- define "orchestrator.workPolicy" -}}
# A pod with the account of another program has the rights of that program, and a pod with other images or
# folders of the host does other work than the agents.
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
      - apiGroups: [""]
        apiVersions: ["*"]
        operations: [CREATE, UPDATE, DELETE]
        resources: [pods]
      {{- range .kinds }}
      - apiGroups: [{{ quote .group }}]
        apiVersions: ["*"]
        operations: [CREATE, UPDATE, DELETE]
        resources: [{{ .resource }}]
      {{- end }}
  matchConditions:
    {{- include "orchestrator.itself" .root | nindent 4 }}
  variables:
    - name: deletes
      expression: request.operation == 'DELETE'
    - name: spec
      expression: >-
        variables.deletes || !(request.resource.resource in ['pods', 'daemonsets', 'deployments']) ? dyn({}) :
        request.resource.resource == 'pods' ? dyn(object).spec : dyn(object).spec.template.spec
    - name: images
      expression: >-
        (variables.spec.?containers.orValue([]) + variables.spec.?initContainers.orValue([])).map(c, c.?image.orValue('')).filter(i,
        !{{ .all.images | keys | sortAlpha | toJson }}.exists(a, i == a || i.startsWith(a + ':') || i.startsWith(a + '@')))
    - name: folders
      expression: >-
        variables.spec.?volumes.orValue([]).filter(v, has(v.hostPath)).map(v, v.hostPath.path).filter(p,
        !(p in {{ .all.hostPaths | keys | sortAlpha | toJson }}))
    - name: account
      expression: variables.spec.?serviceAccountName.orValue('')
  validations:
    - expression: variables.images.size() == 0
      messageExpression: "'the Helm release does not have these images: ' + variables.images.join(', ') + '; run helm upgrade with these values'"
    - expression: variables.folders.size() == 0
      messageExpression: "'the Helm release does not have these folders of the host: ' + variables.folders.join(', ') + '; run helm upgrade with these values'"
    - expression: >-
        variables.account in {{ .all.accounts | keys | sortAlpha | toJson }} ||
        variables.account in ['', 'default'] && variables.spec.?automountServiceAccountToken.orValue(false) == false
      messageExpression: "'the Helm release does not have the account ' + variables.account + ' with its rights; run helm upgrade with these values'"
    {{- range $namespace, $names := .all.names }}
    {{- range $kind, $of := $.kinds }}
    {{- $known := get $names $kind | default dict }}
    {{- if include "orchestrator.openNames" $known }}
    {{- $prefixes := list }}
    {{- range keys $known | sortAlpha }}{{ if hasSuffix "*" . }}{{ $prefixes = append $prefixes (trimSuffix "*" .) }}{{ $known = omit $known . }}{{ end }}{{ end }}
    - expression: >-
        variables.deletes || request.resource.resource != '{{ $of.resource }}' || request.namespace != '{{ $namespace }}' ||
        request.name in {{ keys $known | sortAlpha | toJson }} || {{ $prefixes | toJson }}.exists(p, request.name.startsWith(p))
      messageExpression: "'the Helm release has no {{ $kind }} ' + request.name + '; run helm upgrade with these values'"
    {{- end }}
    {{- end }}
    {{- end }}
    - expression: >-
        !variables.deletes || dyn(oldObject).metadata.?labels[?'app.kubernetes.io/managed-by'].orValue('') == 'outrigger'
      message: the orchestrator deletes only objects that it has applied
    {{- include "outrigger.policyNoFinalizer" .root | nindent 4 }}
---
{{ include "outrigger.policyBinding" (dict "name" .name "labels" .labels) }}
{{- end -}}
