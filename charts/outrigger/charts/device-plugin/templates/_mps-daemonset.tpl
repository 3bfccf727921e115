{{- define "device-plugin.mps-daemonset" -}}
{{- if include "device-plugin.mps" . -}}
{{- $part := dict "root" $ "part" "mps-control-daemon" -}}
{{- $env := include "device-plugin.env" (dict "root" $ "port" .Values.mps.port "hostNetwork" .Values.mps.enableHostNetwork "own" list) -}}
# A separate DaemonSet, so that an update of the plugin does not stop the daemons and the containers
# that use them. The labels have no version, so that a new version of the chart does not change
# these pods.
{{ include "outrigger.daemonset" (dict "root" $ "name" (include "device-plugin.mpsName" .) "labels" (include "outrigger.partLabels" $part)
  "selector" (include "outrigger.partSelectorLabels" $part) "updateStrategy" .Values.mps.updateStrategy) }}
    spec:
      # Each daemon has five seconds to stop.
      {{- include "outrigger.pod" (dict "root" $ "account" (include "outrigger.serviceAccountName" .)
        "api" (include "outrigger.configMapName" .) "grace" 30) | nindent 6 }}
      {{- with include "outrigger.podRuntime" . }}{{ nindent 6 . }}{{ end }}
      {{- if .Values.mps.enableHostPID }}
      hostPID: true
      {{- end }}
      {{- if .Values.mps.enableHostNetwork }}
      hostNetwork: true
      {{- end }}
      containers:
        - {{ include "outrigger.container" (dict "root" $ "name" "mps-control-daemon" "args" (include "outrigger.args" . | fromYamlArray) "env" $env "resources" .Values.mps.resources) | nindent 10 | trim }}
          command:
            - /usr/bin/mps-control-daemon
          # The container mounts the daemons' shared memory, and opens the GPUs' device nodes.
          securityContext:
            privileged: true
            readOnlyRootFilesystem: true
          {{- if .Values.metrics.port }}
          # No liveness probe, because a restart ends all containers that use a daemon. The agent
          # restarts only the daemon that does not answer.
          {{- include "outrigger.readinessProbe" (dict "root" $ "port" .Values.mps.port "hostNetwork" .Values.mps.enableHostNetwork "program" "mps-control-daemon") | nindent 10 }}
          {{- end }}
          volumeMounts:
            {{- include "device-plugin.mpsMounts" . | nindent 12 }}
      volumes:
        {{- include "device-plugin.mpsVolumes" . | nindent 8 }}
      {{- with include "outrigger.placement" (dict "nodeSelector" (merge dict (default dict .Values.mps.nodeSelector) (default dict .Values.nodeSelector))
        "affinity" .Values.affinity "tolerations" (include "outrigger.tolerations" (dict "root" $ "taint" (include "outrigger.startupTaint" .)) | fromYamlArray)) }}{{ nindent 6 . }}{{ end }}
{{- end }}
{{- end -}}
