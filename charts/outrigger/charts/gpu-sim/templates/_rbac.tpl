{{- define "gpu-sim.rbac" -}}
{{- if .Values.rbac.create }}
{{- $labels := include "outrigger.labels" . }}
# The agent reads the labels of its own Node, and the annotations of the pods on it. It changes none.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ include "outrigger.rbacName" . }}
  labels:
    {{- $labels | nindent 4 }}
rules:
  - apiGroups: [""]
    resources: [nodes, pods]
    verbs: [list, watch]
---
# The agent only checks whether its own DaemonSet is deleted, or no longer selects the node. Then it
# removes the simulated GPUs. Otherwise, for example for an update, it keeps them. Helm deletes these rights
# together with the DaemonSet, but a watch still reports the deletion.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ include "outrigger.fullname" . }}
  namespace: {{ include "outrigger.namespace" . }}
  labels:
    {{- $labels | nindent 4 }}
rules:
  - apiGroups: [apps]
    resources: [daemonsets]
    resourceNames: [{{ include "outrigger.fullname" . }}]
    verbs: [get, list, watch]
---
{{ include "outrigger.eventRights" . }}
---
{{ include "outrigger.inOrder" (dict "name" (include "outrigger.rbacName" .)
  "objects" (list (include "gpu-sim.admission" .) (include "gpu-sim.bindings" .))) }}
{{- end }}
{{- end -}}

{{- define "gpu-sim.bindings" -}}
{{- $labels := include "outrigger.labels" . -}}
{{- $account := include "outrigger.serviceAccountName" . -}}
{{ include "outrigger.roleBinding" (dict "root" . "kind" "ClusterRole" "name" (include "outrigger.rbacName" .) "labels" $labels "account" $account) }}
---
{{ include "outrigger.roleBinding" (dict "root" . "kind" "Role" "name" (include "outrigger.fullname" .) "namespace" (include "outrigger.namespace" .)
  "labels" $labels "account" $account) }}
---
{{ include "outrigger.eventBinding" . }}
{{- end -}}

{{- /* The policy that restricts the rights of the account. */ -}}
{{- define "gpu-sim.admission" -}}
{{- if and .Values.admissionPolicy.create (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version) -}}
{{ include "outrigger.eventPolicy" (dict "root" $ "account" (include "outrigger.serviceAccountName" .) "agent" "gpu-sim-node") }}
{{- end -}}
{{- end -}}
