{{- define "mig-manager.podResources" -}}
{{ include "outrigger.kubeletRootDir" . }}/pod-resources
{{- end -}}

{{- /* The root context for the templates of the driver. They read the driver root from config, the
config of the device plugin. In this chart, config has the MIG layouts. */ -}}
{{- define "mig-manager.driver" -}}
{{- $root := dict "Chart" .root.Chart "Release" .root.Release "Capabilities" .root.Capabilities "Values" (omit .root.Values "config") -}}
{{- include .template $root -}}
{{- end -}}

{{- /* Whether the agent talks to the host's systemd: to stop units, or to reboot. As in NVIDIA's
GPU Operator, env may also enable the reboot. */ -}}
{{- define "mig-manager.systemd" -}}
{{- if or .Values.reboot (default dict .Values.gpuClientsConfig).name }}true{{ end -}}
{{- range default list .Values.env }}{{ if and (eq .name "WITH_REBOOT") (eq "true" (toString .value)) }}true{{ end }}{{ end -}}
{{- end -}}

{{- /* Rejects a default that names neither a config of the values nor a config that the agent generates. The chart cannot
read an existing ConfigMap. Argument: (dict "root" $ "configs" the configs of the values, if there are any). */ -}}
{{- define "mig-manager.checkDefault" -}}
{{- $config := default dict .root.Values.config -}}
{{- $generated := regexMatch `^all-(disabled|enabled|balanced|([0-9]+c\.)?[0-9]+g\.[0-9]+gb([.+-].+)?)$` (toString $config.default) -}}
{{- if and $config.default (not $generated) -}}
{{- $problem := dict "root" .root "path" "config.default" "set" (dict "config.default" "all-disabled") -}}
{{- $others := "the agent generates all-disabled, all-enabled, all-balanced and all-PROFILE, such as all-1g.10gb" -}}
{{- if not $config.name -}}
{{- include "outrigger.problem" (merge (dict "reason" (printf "%q names no config: %s" $config.default $others)
  "instead" "write one of these names, or set config.name to a ConfigMap that has it") $problem) -}}
{{- else if and $config.create (not (hasKey .configs $config.default)) -}}
{{- include "outrigger.problem" (merge (dict "reason" (printf "%q is not in config.data, which has %s" $config.default (keys .configs | sortAlpha | join ", "))
  "instead" (printf "write one of these names: %s too" $others)) $problem) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Rejects values that the agent cannot follow. */ -}}
{{- define "mig-manager.check" -}}
{{- include "mig-manager.driver" (dict "root" . "template" "outrigger.checkDevRoot") -}}
{{- include "outrigger.checkCreate" . -}}
{{- $config := default dict .Values.config -}}
{{- $configs := dict -}}
{{- if and $config.create $config.data -}}
{{- if not (hasKey $config.data "config.yaml") -}}
{{- include "outrigger.problem" (dict "root" . "path" "config.data" "instead" "rename it"
  "reason" (printf "the agent reads the key config.yaml, and there is only %s" (keys $config.data | sortAlpha | join ", "))) -}}
{{- else -}}
{{- $read := fromYaml (index $config.data "config.yaml") -}}
{{- with $read.Error -}}
{{- include "outrigger.problem" (dict "root" $ "path" "config.data" "reason" (printf "config.yaml: %s" .) "instead" "correct the YAML") -}}
{{- end -}}
{{- $configs = get $read "mig-configs" | default dict -}}
{{- end -}}
{{- end -}}
{{- include "mig-manager.checkDefault" (dict "root" . "configs" $configs) -}}
{{- if and .Values.rbac.create .Values.admissionPolicy.create (semverCompare "<1.30.0-0" .Capabilities.KubeVersion.Version) -}}
{{- include "outrigger.noPolicies" . -}}
{{- end -}}
{{- if dig "rollingUpdate" "maxSurge" "" (include "outrigger.updateStrategy" . | fromYaml) -}}
{{- include "outrigger.problem" (dict "root" . "path" "updateStrategy.rollingUpdate.maxSurge" "reason" "one agent of a node changes its GPUs at a time"
  "instead" "use maxUnavailable" "remove" (list "updateStrategy.rollingUpdate.maxSurge")) -}}
{{- end -}}
{{- end -}}
