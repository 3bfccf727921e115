{{- /* The Service for the port, if the values ask for it, or for a ServiceMonitor, which selects it. */ -}}
{{- define "outrigger.service" -}}
{{- $key := dig "serviceMonitor" "enabled" false .Values.metrics | ternary "serviceMonitor" "service" -}}
{{- if (get .Values.metrics $key).enabled -}}
{{- $off := dict "root" . "path" (printf "metrics.%s.enabled" $key) "set" (dict (printf "metrics.%s.enabled" $key) false) -}}
{{- if not .Values.metrics.port -}}
{{- include "outrigger.problem" (merge (dict "reason" "the Service has no port, because metrics.port is 0"
  "instead" (printf "set a port, or disable the %s" (title $key))) $off) -}}
{{- else if include "outrigger.localhost" . -}}
{{- include "outrigger.problem" (merge (dict "reason" "nobody reaches the port of the Service, because of metrics.localhost"
  "instead" (printf "set metrics.localhost to false, or disable the %s" (title $key))) $off) -}}
{{- end -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "outrigger.fullname" . }}
  namespace: {{ include "outrigger.namespace" . }}
  labels:
    {{- mergeOverwrite (deepCopy (default dict .Values.metrics.service.labels)) (include "outrigger.labels" . | fromYaml) | toYaml | nindent 4 }}
  {{- with .Values.metrics.service.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  clusterIP: None
  selector:
    {{- include "outrigger.selectorLabels" . | nindent 4 }}
  ports:
    - name: metrics
      port: {{ .Values.metrics.port }}
      targetPort: metrics
{{- end -}}
{{- end -}}

{{- /* A service account, if the values create it. Argument: (dict "root" $ "values" the value
serviceAccount "name" … "labels" …). */ -}}
{{- define "outrigger.serviceAccount" -}}
{{- if .values.create -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name }}
  namespace: {{ include "outrigger.namespace" .root }}
  labels:
    {{- .labels | nindent 4 }}
  {{- with .values.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end -}}
{{- end -}}

{{- define "outrigger.configMap" -}}
{{- $config := include "outrigger.config" . | fromYaml -}}
{{- if and $config.parent (include "outrigger.parentRenders" .) }}{{ $config = dict }}{{ end -}}
{{- with $config.map -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "outrigger.configMapName" $ }}
  namespace: {{ include "outrigger.namespace" $ }}
  labels:
    {{- include "outrigger.labels" $ | nindent 4 }}
data:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{- /* Binds a role to an account. The binding has the name of the role. Argument: (dict "root" $
"kind" the kind of the role "name" … "namespace" the namespace of a Role "labels" … "account" …). */ -}}
{{- define "outrigger.roleBinding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- .labels | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ .account }}
    namespace: {{ include "outrigger.namespace" .root }}
{{- end -}}

{{- /* One List with objects in a fixed order. Helm creates kinds that it does not know last, such
as policies, but keeps the order within a List. The policies that restrict an account therefore
exist before its rights. Go's Render splits the List, so the form of its text matters. Argument:
(dict "name" … "objects" a list of texts with objects). */ -}}
{{- define "outrigger.inOrder" -}}
{{- $items := list -}}
{{- range .objects -}}
{{- range regexSplit `(?m)^---$` . -1 -}}
{{- with trim . }}{{ $items = append $items . }}{{ end -}}
{{- end -}}
{{- end -}}
{{- if $items -}}
apiVersion: v1
kind: List
metadata:
  name: {{ .name }}
items:
{{- range $items }}
  - {{ indent 4 . | trim }}
{{- end }}
{{- end -}}
{{- end -}}

{{- /* The right to create Events about the agent's Node. */ -}}
{{- define "outrigger.eventRights" -}}
# Events about Nodes, which have no namespace, are in this namespace.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ include "outrigger.rbacName" . }}
  namespace: default
  labels:
    {{- include "outrigger.labels" . | nindent 4 }}
rules:
  - apiGroups: [""]
    resources: [events]
    verbs: [create]
{{- end -}}

{{- define "outrigger.eventBinding" -}}
{{ include "outrigger.roleBinding" (dict "root" . "kind" "Role" "name" (include "outrigger.rbacName" .) "namespace" "default"
  "labels" (include "outrigger.labels" .) "account" (include "outrigger.serviceAccountName" .)) }}
{{- end -}}

{{- /* The NetworkPolicy for connections to pods. The kubelet's probes come from the node, which
Kubernetes always allows. Argument: (dict "root" $ "name" … "labels" … "selector" … "port" …
"hostNetwork" whether the pods use the host's network). */ -}}
{{- define "outrigger.networkPolicy" -}}
{{- $v := .root.Values -}}
{{- if .hostNetwork -}}
{{- include "outrigger.problem" (dict "root" .root "path" "networkPolicy.enabled" "reason" "a NetworkPolicy does not apply to pods on the host's network"
  "instead" "disable one of the two" "set" (dict "networkPolicy.enabled" false)) -}}
{{- end -}}
{{- if and $v.networkPolicy.from (include "outrigger.localhost" .root) -}}
{{- include "outrigger.problem" (dict "root" .root "path" "networkPolicy.from" "reason" "nobody reaches the port, because of metrics.localhost"
  "instead" "set metrics.localhost to false, or remove networkPolicy.from" "remove" (list "networkPolicy.from")) -}}
{{- end -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ .name }}
  namespace: {{ include "outrigger.namespace" .root }}
  labels:
    {{- .labels | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- .selector | nindent 6 }}
  policyTypes: [Ingress]
  {{- if and $v.metrics.port $v.networkPolicy.from }}
  ingress:
    - from:
        {{- toYaml $v.networkPolicy.from | nindent 8 }}
      ports:
        - port: {{ .port }}
          protocol: TCP
  {{- else }}
  ingress: []
  {{- end }}
{{- end -}}

{{- /* The path and the settings of an endpoint that Prometheus reads. Argument: (dict "root" $ "values" the values of the
monitor). */ -}}
{{- define "outrigger.monitoredEndpoint" -}}
path: /metrics
{{- with .values.interval }}
interval: {{ . }}
{{- end }}
{{- with .values.scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
honorLabels: {{ default false .values.honorLabels }}
{{- if include "outrigger.tlsSecret" .root }}
scheme: https
{{- with .values.tlsConfig }}
tlsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with .values.relabelings }}
relabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
