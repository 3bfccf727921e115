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
read an existing ConfigMap. Argument: the value config. */ -}}
{{- define "mig-manager.checkDefault" -}}
{{- $generated := regexMatch `^all-(disabled|enabled|balanced|([0-9]+c\.)?[0-9]+g\.[0-9]+gb([.+-].+)?)$` (toString .default) -}}
{{- if and .default (not $generated) -}}
{{- $others := "the agent generates all-disabled, all-enabled, all-balanced and all-PROFILE, such as all-1g.10gb" -}}
{{- if not .name -}}
{{- fail (printf "config.default: %q names no config: %s; set config.name to a ConfigMap that has it" .default $others) -}}
{{- else if .create -}}
{{- $configs := get (index .data "config.yaml" | fromYaml) "mig-configs" | default dict -}}
{{- if not (hasKey $configs .default) -}}
{{- fail (printf "config.default: %q is not in config.data, which has %s; %s" .default (keys $configs | sortAlpha | join ", ") $others) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Rejects values that the agent cannot follow. */ -}}
{{- define "mig-manager.check" -}}
{{- include "mig-manager.driver" (dict "root" . "template" "outrigger.checkDevRoot") -}}
{{- $config := default dict .Values.config -}}
{{- if and $config.create (not (and $config.name $config.data)) -}}
{{- fail "config.create: a ConfigMap needs config.name and config.data; set both, or set config.create to false" -}}
{{- end -}}
{{- if and $config.data (not $config.create) -}}
{{- fail "config.data: it has no effect without config.create; set config.create to true, or remove it" -}}
{{- end -}}
{{- if and $config.create (not (hasKey $config.data "config.yaml")) -}}
{{- fail (printf "config.data: the agent reads the key config.yaml, and there is only %s; rename it" (keys $config.data | sortAlpha | join ", ")) -}}
{{- end -}}
{{- if $config.create -}}
{{- with (fromYaml (index $config.data "config.yaml")).Error -}}
{{- fail (printf "config.data: config.yaml: %s" .) -}}
{{- end -}}
{{- end -}}
{{- include "mig-manager.checkDefault" $config -}}
{{- if and .Values.rbac.create .Values.admissionPolicy.create (semverCompare "<1.30.0-0" .Capabilities.KubeVersion.Version) -}}
{{- fail (printf "admissionPolicy.create: Kubernetes %s has no ValidatingAdmissionPolicy v1, which needs 1.30; set it to false, after reading \"Privileges and why\" in README.md" .Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- if dig "rollingUpdate" "maxSurge" "" (include "outrigger.updateStrategy" . | fromYaml) -}}
{{- fail "updateStrategy.rollingUpdate.maxSurge: one agent of a node changes its GPUs at a time; use maxUnavailable" -}}
{{- end -}}
{{- end -}}
