{{- /* The start of a DaemonSet, up to the spec of its pods. Argument: (dict "root" $ "name" …
"labels" … "selector" … "updateStrategy" …). */ -}}
{{- define "outrigger.daemonset" -}}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ .name }}
  namespace: {{ include "outrigger.namespace" .root }}
  labels:
    {{- .labels | nindent 4 }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  selector:
    matchLabels:
      {{- .selector | nindent 6 }}
  updateStrategy:
    {{- toYaml .updateStrategy | nindent 4 }}
  template:
    metadata:
      labels:
        {{- mergeOverwrite (include "outrigger.ofDaemonSets" (dict "root" .root "key" "labels") | fromYaml) (deepCopy (default dict .root.Values.podLabels)) (fromYaml .labels) | toYaml | nindent 8 }}
      {{- with mergeOverwrite (include "outrigger.ofDaemonSets" (dict "root" .root "key" "annotations") | fromYaml) (deepCopy (default dict .root.Values.podAnnotations)) }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- end -}}

{{- /* A value for all DaemonSets of a parent chart, as YAML. Argument: (dict "root" $ "key" its
path below global.daemonsets). */ -}}
{{- define "outrigger.ofDaemonSets" -}}
{{- with get (default dict (default dict .root.Values.global).daemonsets) .key }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{- /* The update strategy of an agent's first DaemonSet. In NVIDIA's operator, daemonsets.updateStrategy is its type. */ -}}
{{- define "outrigger.updateStrategy" -}}
{{- $type := include "outrigger.ofDaemonSets" (dict "root" . "key" "updateStrategy") | default "RollingUpdate" -}}
{{- $strategy := dict "type" $type -}}
{{- $rolling := dict -}}
{{- range $key, $value := include "outrigger.ofDaemonSets" (dict "root" . "key" "rollingUpdate") | fromYaml -}}
{{- $_ := set $rolling $key (regexMatch `^[0-9]+$` (toString $value) | ternary (int $value) $value) -}}
{{- end -}}
{{- if and $rolling (eq $type "RollingUpdate") }}{{ $_ := set $strategy "rollingUpdate" $rolling }}{{ end -}}
{{- default $strategy .Values.updateStrategy | toYaml -}}
{{- end -}}

{{- define "outrigger.priorityClass" -}}
{{- $own := .Values.priorityClassName -}}
{{- if kindIs "invalid" $own -}}
{{- include "outrigger.ofDaemonSets" (dict "root" . "key" "priorityClassName") | default "system-node-critical" -}}
{{- else -}}
{{- $own -}}
{{- end -}}
{{- end -}}

{{- /* The additional flags, from extraArgs and from args of NVIDIA's operator. */ -}}
{{- define "outrigger.args" -}}
{{- concat (default list .Values.extraArgs) (default list .Values.args) | toYaml -}}
{{- end -}}

{{- define "outrigger.kubeletRootDir" -}}
{{- include "outrigger.setting" (dict "root" . "name" "kubeletRootDir") | default (include "outrigger.setting" (dict "root" . "name" "hostPaths.kubeletRootDir")) | default "/var/lib/kubelet" | trimSuffix "/" -}}
{{- end -}}

{{- /* The settings of pods that do not depend on the driver. Argument: (dict "root" $ "account" the
service account "api" whether they use the API server "grace" the seconds that they need to stop).
*/ -}}
{{- define "outrigger.pod" -}}
serviceAccountName: {{ .account }}
{{- if .api }}
# See "Privileges and why" in the chart's README.md.
automountServiceAccountToken: true
{{- else }}
# The agent does not use the API server.
automountServiceAccountToken: false
{{- end }}
enableServiceLinks: false
terminationGracePeriodSeconds: {{ .grace }}
{{- with include "outrigger.pullSecrets" .root }}
{{ . }}
{{- end }}
{{- with include "outrigger.priorityClass" .root }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{- /* The runtime settings of pods that use the driver. */ -}}
{{- define "outrigger.podRuntime" -}}
{{- with .Values.runtimeClassName -}}
runtimeClassName: {{ . }}
{{ end -}}
{{- with default (include "outrigger.ofDaemonSets" (dict "root" . "key" "podSecurityContext") | fromYaml) .Values.podSecurityContext -}}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{- /* The start of a container. Argument: (dict "root" $ "name" … "args" … "env" … "resources" …
and, if they differ from the chart's, "image" … "command" …). */ -}}
{{- define "outrigger.container" -}}
name: {{ .name }}
image: {{ if .image }}{{ .image }}{{ else }}{{ include "outrigger.image" .root }}{{ end }}
imagePullPolicy: {{ include "outrigger.pullPolicy" .root }}
{{- with .command }}
command:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .args }}
args:
  {{- toYaml . | nindent 2 }}
{{- end }}
env:
  {{- .env | nindent 2 }}
{{- with .resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
# Not below /dev, which can be the host's.
terminationMessagePath: /run/termination-log
terminationMessagePolicy: FallbackToLogsOnError
{{- end -}}

{{- /* The address of a container's probes. It is a separate port, so that scrapes cannot block it.
Unless other pods have to reach it, it is open only inside the pod or the node. Argument: (dict
"root" $ "port" the port of the container "hostNetwork" whether the pod uses the host's network). */ -}}
{{- define "outrigger.probeHost" -}}
{{- if or .hostNetwork (include "outrigger.localhost" .root) }}127.0.0.1{{ end -}}
{{- end -}}

{{- define "outrigger.probePort" -}}
{{- gt (int .port) 64535 | ternary (sub .port 1000) (add .port 1000) -}}
{{- end -}}

{{- /* The readiness probe of a container, and its port. Argument: (dict "root" $ "port" the port of
the container "hostNetwork" whether the pod uses the host's network "program" its program, if it
does not have the name of the chart "path" the path of the program, if it is not in /usr/bin). */ -}}
{{- define "outrigger.readinessProbe" -}}
{{- if not (include "outrigger.localhost" .root) -}}
ports:
  - name: metrics
    containerPort: {{ .port }}
{{ end -}}
readinessProbe:
  {{- include "outrigger.probe" (merge (dict "page" "readyz" "period" 5) .) | nindent 2 }}
{{- end -}}

{{- /* A probe. Argument: the same dict, with "page" "healthz" or "readyz" "period" in seconds. The
kubelet cannot reach a port inside the pod. Then the probe is a process that asks the program, half
as often, because each probe starts a process. */ -}}
{{- define "outrigger.probe" -}}
{{- if and (include "outrigger.localhost" .root) (not .hostNetwork) -}}
exec:
  command: [{{ .path | default (printf "/usr/bin/%s" (default .root.Chart.Name .program)) }}, probe, {{ .page }}]
periodSeconds: {{ mul 2 .period }}
{{- else -}}
httpGet:
  {{- with include "outrigger.probeHost" . }}
  host: {{ . }}
  {{- end }}
  path: /{{ .page }}
  port: {{ include "outrigger.probePort" . }}
periodSeconds: {{ .period }}
{{- end }}
timeoutSeconds: 5
{{- end -}}

{{- /* The ports and probes of a container. Argument: the same dict. */ -}}
{{- define "outrigger.probes" -}}
{{ include "outrigger.readinessProbe" . }}
livenessProbe:
  {{- include "outrigger.probe" (merge (dict "page" "healthz" "period" 20) .) | nindent 2 }}
  failureThreshold: 3
{{- end -}}

{{- /* The Secret with the certificate of the port; empty for HTTP. */ -}}
{{- define "outrigger.tlsSecret" -}}
{{- dig "tls" "secretName" "" .Values.metrics -}}
{{- end -}}

{{- /* The mount of the port's certificate. It is a folder, because the kubelet replaces the files.
*/ -}}
{{- define "outrigger.tlsMount" -}}
{{- if include "outrigger.tlsSecret" . -}}
- name: tls
  mountPath: /tls
  readOnly: true
{{- end -}}
{{- end -}}

{{- define "outrigger.tlsVolume" -}}
{{- with include "outrigger.tlsSecret" . -}}
- name: tls
  secret:
    secretName: {{ . }}
{{- end -}}
{{- end -}}

{{- /* The placement of pods. Argument: values with nodeSelector, affinity and tolerations. */ -}}
{{- define "outrigger.placement" -}}
{{- $where := dict -}}
{{- range $key := list "nodeSelector" "affinity" "tolerations" -}}
{{- with get $ $key }}{{ $_ := set $where $key . }}{{ end -}}
{{- end -}}
{{- with $where }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{- /* The start-up taint as key:effect. Feature discovery removes it, and all agents tolerate it.
It is the chart's taint, the parent chart's taint, or the default. Empty for none. */ -}}
{{- define "outrigger.startupTaint" -}}
{{- $taint := .Values.startupTaint -}}
{{- $global := default dict .Values.global -}}
{{- if and (kindIs "invalid" $taint) (hasKey $global "startupTaint") }}{{ $taint = $global.startupTaint }}{{ end -}}
{{- kindIs "invalid" $taint | ternary "outrigger.dev/gpu-not-ready:NoSchedule" $taint -}}
{{- end -}}

{{- /* The tolerations, including a toleration of the start-up taint: otherwise pods that make a
node ready would wait for themselves. Argument: (dict "root" $ "taint" "key:effect" or empty). */ -}}
{{- define "outrigger.tolerations" -}}
{{- $all := concat (default list .root.Values.tolerations) (include "outrigger.ofDaemonSets" (dict "root" .root "key" "tolerations") | fromYamlArray) | uniq -}}
{{- if .taint -}}
{{- $key := splitList ":" .taint | first -}}
{{- $tolerated := false -}}
{{- range $all }}{{ if has (default "" .key) (list "" $key) }}{{ $tolerated = true }}{{ end }}{{ end -}}
{{- if not $tolerated }}{{ $all = append $all (dict "key" $key "operator" "Exists") }}{{ end -}}
{{- end -}}
{{- toYaml $all -}}
{{- end -}}
