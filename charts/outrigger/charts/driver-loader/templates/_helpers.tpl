{{- /* The mount path of the agent in the container of the driver's image. */ -}}
{{- define "driver-loader.programs" -}}/opt/outrigger{{- end -}}

{{- define "driver-loader.moduleConfigDir" -}}/etc/outrigger/modules{{- end -}}

{{- /* The driver's image, from repository, image and version. Empty for none. */ -}}
{{- define "driver-loader.image" -}}
{{- if or .Values.repository .Values.image .Values.version -}}
{{- if regexMatch `(^|/)k8s-driver-manager$` (printf "%s/%s" (default "" .Values.repository) (default "driver" .Values.image)) -}}
{{- fail (printf "%[1]simage: k8s-driver-manager has no driver, and this chart does not need it; set %[1]simage to the name of a driver image, such as driver, or remove %[1]simage" (include "outrigger.path" .)) -}}
{{- end -}}
{{- $version := toString (required (printf "%sversion: the driver's image needs it: the whole tag, such as 580.95.05-ubuntu22.04, or a digest" (include "outrigger.path" .)) .Values.version) -}}
{{- $repository := required "repository: the driver's image needs it, such as nvcr.io/nvidia" (include "outrigger.noScheme" (dict "value" .Values.repository "in" "repository")) -}}
{{- printf "%s/%s%s%s" $repository (default "driver" .Values.image) (hasPrefix "sha256:" $version | ternary "@" ":") $version -}}
{{- end -}}
{{- end -}}

{{- /* The image with the sources of an optional module, from the values at "at". "name" is its default name. Empty for none. */ -}}
{{- define "driver-loader.sources" -}}
{{- $values := index .root.Values .at -}}
{{- if and $values.enabled (or $values.repository $values.image $values.version) -}}
{{- $path := printf "%s%s." (include "outrigger.path" .root) .at -}}
{{- if not (include "driver-loader.image" .root) -}}
{{- fail (printf "%simage: its build needs a compiler, which is in the driver's image; set repository, image and version of the driver, or remove %simage" $path $path) -}}
{{- end -}}
{{- $version := toString (required (printf "%sversion: the image needs it: the whole tag, or a digest" $path) $values.version) -}}
{{- $repository := required (printf "%srepository: the image needs it, such as nvcr.io/nvidia/cloud-native" $path) (include "outrigger.noScheme" (dict "value" $values.repository "in" (printf "%srepository" $path))) -}}
{{- printf "%s/%s%s%s" $repository (default .name $values.image) (hasPrefix "sha256:" $version | ternary "@" ":") $version -}}
{{- end -}}
{{- end -}}

{{- define "driver-loader.installDir" -}}
{{- include "outrigger.setting" (dict "root" . "name" "hostPaths.driverInstallDir") | default "/run/nvidia/driver" | trimSuffix "/" -}}
{{- end -}}

{{- /* The type of the kernel modules. In earlier versions of NVIDIA's operator, useOpenKernelModules chose it. */ -}}
{{- define "driver-loader.moduleType" -}}
{{- if .Values.kernelModuleType -}}
{{- .Values.kernelModuleType -}}
{{- else if kindIs "bool" .Values.useOpenKernelModules -}}
{{- .Values.useOpenKernelModules | ternary "open" "proprietary" -}}
{{- else -}}
auto
{{- end -}}
{{- end -}}

{{- /* The update strategy of the agent's DaemonSet. In NVIDIA's operator, rollingUpdate.maxUnavailable of the
driver is a part of it. */ -}}
{{- define "driver-loader.updateStrategy" -}}
{{- $strategy := include "outrigger.updateStrategy" . | fromYaml -}}
{{- $value := dig "maxUnavailable" "" (default dict .Values.rollingUpdate) | toString -}}
{{- if and $value (eq $strategy.type "RollingUpdate") -}}
{{- $_ := set $strategy "rollingUpdate" (dict "maxUnavailable" (regexMatch `^[0-9]+$` $value | ternary (int $value) $value)) -}}
{{- end -}}
{{- toYaml $strategy -}}
{{- end -}}

{{- /* Rejects values that the agent cannot follow. */ -}}
{{- define "driver-loader.check" -}}
{{- $image := include "driver-loader.image" . -}}
{{- if and $image .Values.payload -}}
{{- fail "payload: the driver comes from the image already; remove payload, or repository, image and version" -}}
{{- end -}}
{{- include "driver-loader.checkNodes" . -}}
{{- if dig "enabled" false (default dict .Values.nvidiaDriverCRD) -}}
{{- fail "nvidiaDriverCRD.enabled: this release has no objects of the kind NVIDIADriver; set it to false, and use pools of the chart outrigger where nodes need different drivers" -}}
{{- end -}}
{{- if dig "config" "" (default dict .Values.virtualTopology) -}}
{{- fail "virtualTopology.config: this release does not start the topology daemon of vGPUs; remove it" -}}
{{- end -}}
{{- if and .Values.rbac.create .Values.admissionPolicy.create (semverCompare "<1.30.0-0" .Capabilities.KubeVersion.Version) -}}
{{- fail (printf "admissionPolicy.create: Kubernetes %s has no ValidatingAdmissionPolicy v1, which needs 1.30; set it to false, after reading \"Privileges and why\" in README.md" .Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- with .Values.repoConfig -}}
{{- if and .configMapName (not .destinationDir) -}}
{{- fail "repoConfig.destinationDir: set it to /etc/apt/sources.list.d, or to /etc/yum.repos.d for the family of Red Hat" -}}
{{- end -}}
{{- end -}}
{{- $license := .Values.licensingConfig -}}
{{- if and $license.configMapName $license.secretName -}}
{{- fail "licensingConfig: configMapName and secretName are both set: both have gridd.conf; remove one of them" -}}
{{- end -}}
{{- if not (hasPrefix "/run/nvidia/" (include "driver-loader.installDir" .)) -}}
{{- fail (printf "hostPaths.driverInstallDir: %q must be a folder in /run/nvidia, which the agents share" (include "driver-loader.installDir" .)) -}}
{{- end -}}
{{- if dig "rollingUpdate" "maxSurge" "" (include "driver-loader.updateStrategy" . | fromYaml) -}}
{{- fail "updateStrategy.rollingUpdate.maxSurge: one agent of a node changes its driver at a time; use maxUnavailable" -}}
{{- end -}}
{{- end -}}
