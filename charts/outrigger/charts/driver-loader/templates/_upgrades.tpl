{{- /* The Deployment that decides which nodes may upgrade. Several releases of this chart in a
namespace, such as the pools of the orchestrator, need only one. The label tells the orchestrator
so. */ -}}
{{- define "driver-loader.upgradesName" -}}
{{- include "outrigger.nameWith" (dict "root" . "suffix" "upgrades") -}}
{{- end -}}

{{- define "driver-loader.upgradesRBACName" -}}
{{- printf "%s.%s" (include "driver-loader.upgradesName" .) (include "outrigger.namespace" .) -}}
{{- end -}}

{{- define "driver-loader.upgradesLabels" -}}
{{ include "outrigger.versionLabels" . }}
{{ include "outrigger.partLabels" (dict "root" . "part" "driver-loader-upgrades") }}
outrigger.dev/one-for-all-pools: "true"
{{- end -}}

{{- define "driver-loader.upgrades" -}}
{{- if .Values.rbac.create -}}
{{- $labels := include "driver-loader.upgradesLabels" . -}}
{{- $selector := include "outrigger.partSelectorLabels" (dict "root" $ "part" "driver-loader-upgrades") -}}
{{- $more := list (dict "name" "GRANT_UPGRADES" "value" "true") (dict "name" "NAMESPACE" "value" (include "outrigger.namespace" .)) -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "driver-loader.upgradesName" . }}
  namespace: {{ include "outrigger.namespace" . }}
  labels:
    {{- $labels | nindent 4 }}
spec:
  replicas: 1
  selector:
    matchLabels:
      {{- $selector | nindent 6 }}
  template:
    metadata:
      labels:
        {{- $labels | nindent 8 }}
    spec:
      {{- include "outrigger.pod" (dict "root" $ "account" (include "driver-loader.upgradesName" .) "api" true "grace" 10) | nindent 6 }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        seccompProfile:
          type: RuntimeDefault
      containers:
        - {{ include "outrigger.container" (dict "root" $ "name" "upgrades"
            "image" (include "outrigger.image" (dict "root" $ "values" (merge (dict "own" true) .Values.manager) "at" "manager." "name" $.Chart.Name))
            "env" (include "outrigger.env" (dict "root" $ "port" .Values.metrics.port "more" $more)) "resources" .Values.upgrades.resources) | nindent 10 | trim }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
          {{- if .Values.metrics.port }}
          {{- include "outrigger.probes" (dict "root" $ "port" .Values.metrics.port) | nindent 10 }}
          {{- end }}
          {{- with include "outrigger.tlsMount" . }}
          volumeMounts:
            {{- nindent 12 . }}
          {{- end }}
      {{- with include "outrigger.tlsVolume" . }}
      volumes:
        {{- nindent 8 . }}
      {{- end }}
      {{- /* The first toleration that matches a taint counts. A pod that tolerates all taints would stay
on a dead node forever. */ -}}
      {{- $leaves := list -}}
      {{- range $taint := list "not-ready" "unreachable" -}}
      {{- $leaves = append $leaves (dict "key" (printf "node.kubernetes.io/%s" $taint) "operator" "Exists" "effect" "NoExecute" "tolerationSeconds" 300) -}}
      {{- end -}}
      {{- /* It can run even if all workers are cordoned. */ -}}
      {{- $everywhere := list
        (dict "key" "node-role.kubernetes.io/control-plane" "operator" "Exists" "effect" "NoSchedule")
        (dict "key" "node.kubernetes.io/unschedulable" "operator" "Exists" "effect" "NoSchedule") -}}
      {{- with include "outrigger.placement" (dict "nodeSelector" (dict "kubernetes.io/os" "linux") "tolerations"
        (concat $leaves $everywhere (include "outrigger.tolerations" (dict "root" $ "taint" (include "outrigger.startupTaint" .)) | fromYamlArray) | uniq)) }}{{ nindent 6 . }}{{ end }}
---
{{ include "outrigger.serviceAccount" (dict "root" . "values" (dict "create" true) "name" (include "driver-loader.upgradesName" .) "labels" $labels) }}
{{- end }}
{{- end -}}

{{- define "driver-loader.upgradesRights" -}}
{{- $labels := include "driver-loader.upgradesLabels" . -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ include "driver-loader.upgradesRBACName" . }}
  labels:
    {{- $labels | nindent 4 }}
rules:
  # The program counts the unavailable nodes, and annotates the nodes that may upgrade.
  - apiGroups: [""]
    resources: [nodes]
    verbs: [list, watch, patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ include "driver-loader.upgradesName" . }}
  namespace: {{ include "outrigger.namespace" . }}
  labels:
    {{- $labels | nindent 4 }}
rules:
  # The upgrade policies, and the number of nodes for percentages.
  - apiGroups: [apps]
    resources: [daemonsets]
    verbs: [list, watch]
  # The ConfigMap with the reasons why nodes wait. A rule cannot limit create to a name.
  - apiGroups: [""]
    resources: [configmaps]
    verbs: [create]
  - apiGroups: [""]
    resources: [configmaps]
    resourceNames: [driver-upgrades]
    verbs: [get, patch]
{{- end -}}

{{- define "driver-loader.upgradesBindings" -}}
{{- $labels := include "driver-loader.upgradesLabels" . -}}
{{- $account := include "driver-loader.upgradesName" . -}}
{{ include "outrigger.roleBinding" (dict "root" . "kind" "ClusterRole" "name" (include "driver-loader.upgradesRBACName" .) "labels" $labels "account" $account) }}
---
{{ include "outrigger.roleBinding" (dict "root" . "kind" "Role" "name" $account "namespace" (include "outrigger.namespace" .)
  "labels" $labels "account" $account) }}
{{- end -}}

{{- /* Only this account can write the annotation, and it cannot write anything else. */ -}}
{{- define "driver-loader.upgradesPolicy" -}}
{{- $name := include "driver-loader.upgradesRBACName" . -}}
{{- $labels := include "driver-loader.upgradesLabels" . -}}
{{- $owner := dict "manager" "driver-loader-upgrades" "annotations" (list "outrigger.dev/driver-upgrade-granted") -}}
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
  {{- include "outrigger.policySubject" (dict "root" . "account" (include "driver-loader.upgradesName" .)) | nindent 2 }}
  variables:
    - name: old
      expression: dyn(oldObject)
    - name: new
      expression: dyn(object)
    - name: annotations
      expression: |-
        {{- include "outrigger.changedFields" (list "metadata.?annotations" "'outrigger.dev/driver-upgrade-granted'") | nindent 8 }}
    - name: metadata
      expression: |-
        {{- include "outrigger.changedFields" (list "metadata" "'annotations', 'managedFields', 'resourceVersion', 'generation'") | nindent 8 }}
    - name: ownFields
      expression: "['f:outrigger.dev/driver-upgrade-granted']"
    - name: owners
      expression: variables.new.metadata.?managedFields.orValue([])
    - name: oldOwners
      expression: variables.old.metadata.?managedFields.orValue([])
    - name: newOwners
      expression: |-
        {{- include "outrigger.newOwners" $owner | nindent 8 }}
    - name: robbedOwners
      expression: |-
        {{- include "outrigger.robbedOwners" $owner | nindent 8 }}
  validations:
    - expression: object.metadata.?annotations[?'outrigger.dev/driver-upgrade-granted'].orValue('').size() <= 1024
      message: the program writes an annotation of at most 1024 characters
    - expression: variables.annotations.size() == 0 && variables.metadata.size() == 0
      messageExpression: "'the program changes only the annotation outrigger.dev/driver-upgrade-granted, not ' + (variables.annotations + variables.metadata).join(', ')"
    - expression: variables.new.?spec == variables.old.?spec && variables.new.?status == variables.old.?status
      message: the program changes only the annotation outrigger.dev/driver-upgrade-granted, not the spec or the status of a Node
    - expression: variables.newOwners.size() == 0
      messageExpression: "'the agent writes under the name driver-loader-upgrades, and may not assign fields to ' + variables.newOwners.join(', ')"
    - expression: variables.robbedOwners.size() == 0
      messageExpression: "'the agent takes over only fields that it writes, no other fields of ' + variables.robbedOwners.join(', ')"
    - expression: |-
        {{- include "outrigger.ownsItsOwn" $owner | nindent 8 }}
      message: the agent takes ownership only of fields that it writes
---
{{ include "outrigger.policyBinding" (dict "name" $name "labels" $labels) }}
---
{{- $board := printf "configmaps.%s" $name }}
# The role cannot name the ConfigMap, because the program creates it.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ $board }}
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
  {{- include "outrigger.policySubject" (dict "root" . "account" (include "driver-loader.upgradesName" .)) | nindent 2 }}
  validations:
    - expression: object.metadata.name == 'driver-upgrades'
      message: the program writes only the ConfigMap driver-upgrades
    # The API server limits the size of the data.
    - expression: object.metadata.?annotations.orValue({}).size() == 0
      message: the program writes the ConfigMap without annotations
    {{- include "outrigger.policyNoFinalizer" . | nindent 4 }}
---
{{ include "outrigger.policyBinding" (dict "name" $board "labels" $labels) }}
{{- end -}}
