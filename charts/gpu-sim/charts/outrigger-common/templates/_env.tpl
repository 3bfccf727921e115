{{- /* The variables that every agent has. Argument: (dict "root" $ "port" its port "hostNetwork"
whether the pod uses the host's network). */ -}}
{{- define "outrigger.podEnv" -}}
- name: NODE_NAME
  valueFrom:
    fieldRef:
      fieldPath: spec.nodeName
- name: SYS_ROOT
  value: /host/sys
{{- if not .root.Values.runtimeClassName }}
# NVIDIA's runtime, if it is the default, gives GPUs to images that request them, and does not start
# them without a driver.
- name: NVIDIA_VISIBLE_DEVICES
  value: void
{{- end }}
- name: LOG_LEVEL
  value: {{ .root.Values.logLevel }}
- name: LOG_FORMAT
  value: {{ .root.Values.logFormat }}
- name: LISTEN_ADDRESS
  value: {{ .root.Values.metrics.port | empty | ternary "" (printf "%s:%d" (include "outrigger.localhost" .root | empty | ternary "" "127.0.0.1") (int .port)) | quote }}
{{- if .root.Values.metrics.port }}
- name: PROBE_ADDRESS
  value: {{ printf "%s:%s" (include "outrigger.probeHost" .) (include "outrigger.probePort" .) | quote }}
{{- end }}
{{- if include "outrigger.tlsSecret" .root }}
- name: TLS_CERT_FILE
  value: /tls/tls.crt
- name: TLS_PRIVATE_KEY_FILE
  value: /tls/tls.key
{{- end }}
{{- end -}}

{{- /* Whether the port is open only inside the pod. */ -}}
{{- define "outrigger.localhost" -}}
{{- if eq "true" (include "outrigger.setting" (dict "root" . "name" "metrics.localhost")) }}true{{ end -}}
{{- end -}}

{{- /* The variables that the user sets. Argument: a list of (list NAME value). null, an empty text
and an empty list set no variable, so that the config file or the agent's default applies. */ -}}
{{- define "outrigger.choiceEnv" -}}
{{- $env := list -}}
{{- range . -}}
{{- $value := last . -}}
{{- if not (or (kindIs "invalid" $value) (and (kindIs "slice" $value) (empty $value)) (eq "" (toString $value))) -}}
{{- $env = append $env (dict "name" (first .) "value" (kindIs "slice" $value | ternary (join "," $value) (toString $value))) -}}
{{- end -}}
{{- end -}}
{{- toYaml $env -}}
{{- end -}}

{{- /* The other names of variables that a chart sets. A program reads the first name that is set, and
NVIDIA's charts and documents use the others. Only names without an effect on the pod are here. */ -}}
{{- define "outrigger.otherNames" -}}
CDI_ENABLED: [ENABLE_CDI]
DCGM_EXPORTER_INTERVAL: [DCGM_EXPORTER_COLLECT_INTERVAL]
NVIDIA_CDI_HOOK_PATH: [NVIDIA_CTK_PATH]
NVIDIA_RUNTIME_NAME: [CONTAINERD_RUNTIME_CLASS, DOCKER_RUNTIME_NAME]
NVIDIA_RUNTIME_SET_AS_DEFAULT: [CONTAINERD_SET_AS_DEFAULT, DOCKER_SET_AS_DEFAULT]
RUNTIME_CONFIG: [CONTAINERD_CONFIG, DOCKER_CONFIG]
RUNTIME_ENABLE_CDI: [ENABLE_CDI]
RUNTIME_SOCKET: [CONTAINERD_SOCKET, DOCKER_SOCKET]
{{- end -}}

{{- /* The variables of a container. The user's variables replace others of the same name, because
server-side apply rejects duplicates, and others that are another name of them. Argument: (dict "root" $ "port" its port "hostNetwork" whether
the pod uses the host's network "more" its own variables "theirs" the user's variables). */ -}}
{{- define "outrigger.env" -}}
{{- $taken := list -}}
{{- range .theirs }}{{ $taken = append $taken .name }}{{ end -}}
{{- $others := include "outrigger.otherNames" . | fromYaml -}}
{{- $env := list -}}
{{- range $variable := concat (include "outrigger.podEnv" . | fromYamlArray) .more -}}
{{- $free := true -}}
{{- range concat (list .name) (dig .name list $others) }}{{ if has . $taken }}{{ $free = false }}{{ end }}{{ end -}}
{{- if $free }}{{ $env = append $env $variable }}{{ end -}}
{{- end -}}
{{- concat $env (default list .theirs) | toYaml -}}
{{- end -}}
