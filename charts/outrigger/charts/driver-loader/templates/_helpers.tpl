{{- /* The mount path of the agent in the container of the driver's image. */ -}}
{{- define "driver-loader.programs" -}}/opt/outrigger{{- end -}}

{{- define "driver-loader.moduleConfigDir" -}}/etc/outrigger/modules{{- end -}}

{{- /* The driver's image, from repository, image and version. Empty for none. */ -}}
{{- define "driver-loader.image" -}}
{{- if or .Values.repository .Values.image .Values.version -}}
{{- $path := include "outrigger.path" . -}}
{{- if regexMatch `(^|/)k8s-driver-manager$` (printf "%s/%s" (default "" .Values.repository) (default "driver" .Values.image)) -}}
{{- include "outrigger.problem" (dict "root" . "path" "image" "reason" "k8s-driver-manager has no driver, and this chart does not need it"
  "instead" (printf "set %[1]simage to the name of a driver image, such as driver, or remove %[1]srepository, %[1]simage and %[1]sversion" $path)
  "remove" (list "repository" "image" "version")) -}}
{{- end -}}
{{- include "driver-loader.imageOf" (dict "root" . "values" .Values "at" "" "name" "driver" "repository" "nvcr.io/nvidia"
  "version" "the tag of the driver's image, such as 580.95.05 or 580.95.05-ubuntu22.04, or a digest") -}}
{{- end -}}
{{- end -}}

{{- /* An image of NVIDIA, from the values at "at". If it lacks its repository or its version, the image is empty. Argument: (dict
"root" $ "values" … "at" … "name" the default name "repository" NVIDIA's repository "version" what a version is). */ -}}
{{- define "driver-loader.imageOf" -}}
{{- $version := toString (default "" .values.version) -}}
{{- if not $version -}}
{{- include "outrigger.problem" (dict "root" .root "path" (printf "%sversion" .at) "reason" "the image needs a version" "instead" (printf "set it to %s" .version)) -}}
{{- end -}}
{{- $repository := include "outrigger.noScheme" (dict "root" .root "value" .values.repository "path" (printf "%s%srepository" (include "outrigger.path" .root) .at)) -}}
{{- if not $repository -}}
{{- $path := printf "%srepository" .at -}}
{{- include "outrigger.problem" (dict "root" .root "path" $path "reason" "the image needs a repository, which has no default here"
  "set" (dict $path .repository)) -}}
{{- end -}}
{{- printf "%s/%s%s%s" (default "missing" $repository) (default .name .values.image) (hasPrefix "sha256:" $version | ternary "@" ":") (default "missing" $version) -}}
{{- end -}}

{{- /* The image with the sources of an optional module, from the values at "at". "name" is its default name. Empty for none. */ -}}
{{- define "driver-loader.sources" -}}
{{- $values := index .root.Values .at -}}
{{- if and $values.enabled (or $values.repository $values.image $values.version) -}}
{{- $keys := list -}}
{{- range list "repository" "image" "version" }}{{ $keys = append $keys (printf "%s.%s" $.at .) }}{{ end -}}
{{- if not (include "driver-loader.image" .root) -}}
{{- include "outrigger.problem" (dict "root" .root "path" (printf "%s.image" .at) "reason" "its build needs a compiler, which is in the driver's image"
  "instead" (printf "set repository, image and version of the driver, or remove repository, image and version of %s" .at) "remove" $keys) -}}
{{- end -}}
{{- include "driver-loader.imageOf" (dict "root" .root "values" $values "at" (printf "%s." .at) "name" .name "repository" "nvcr.io/nvidia/cloud-native"
  "version" "the tag of the image, or a digest") -}}
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
{{- include "outrigger.problem" (dict "root" . "path" "payload" "reason" "the driver comes from the image already"
  "instead" "remove payload, or repository, image and version" "remove" (list "payload")) -}}
{{- end -}}
{{- include "driver-loader.checkNodes" . -}}
{{- if dig "enabled" false (default dict .Values.nvidiaDriverCRD) -}}
{{- include "outrigger.problem" (dict "root" . "path" "nvidiaDriverCRD.enabled" "reason" "this release has no objects of the kind NVIDIADriver"
  "instead" "set it to false, and use pools of the chart outrigger where nodes need different drivers" "set" (dict "nvidiaDriverCRD.enabled" false)) -}}
{{- end -}}
{{- if .Values.secretEnv -}}
{{- include "outrigger.problem" (dict "root" . "path" "secretEnv" "reason" "the pods take no variables from a whole Secret"
  "instead" "remove it, and name the variables in env" "remove" (list "secretEnv")) -}}
{{- end -}}
{{- if dig "config" "" (default dict .Values.virtualTopology) -}}
{{- include "outrigger.problem" (dict "root" . "path" "virtualTopology.config" "reason" "this release does not start the topology daemon of vGPUs"
  "remove" (list "virtualTopology.config")) -}}
{{- end -}}
{{- if and .Values.rbac.create .Values.admissionPolicy.create (semverCompare "<1.30.0-0" .Capabilities.KubeVersion.Version) -}}
{{- include "outrigger.noPolicies" . -}}
{{- end -}}
{{- with .Values.repoConfig -}}
{{- if and .configMapName (not .destinationDir) -}}
{{- include "outrigger.problem" (dict "root" $ "path" "repoConfig.destinationDir" "reason" "the repositories of repoConfig.configMapName need a folder"
  "instead" "set it to /etc/apt/sources.list.d, or to /etc/yum.repos.d for the family of Red Hat" "set" (dict "repoConfig.destinationDir" "/etc/apt/sources.list.d")) -}}
{{- end -}}
{{- end -}}
{{- $license := .Values.licensingConfig -}}
{{- if and $license.configMapName $license.secretName -}}
{{- include "outrigger.problem" (dict "root" . "path" "licensingConfig" "reason" "configMapName and secretName are both set, and both have gridd.conf"
  "instead" "remove one of them" "remove" (list "licensingConfig.configMapName")) -}}
{{- end -}}
{{- if not (hasPrefix "/run/nvidia/" (include "driver-loader.installDir" .)) -}}
{{- $path := include "outrigger.settingPath" (dict "root" . "name" "hostPaths.driverInstallDir") -}}
{{- include "outrigger.problem" (dict "root" . "full" true "path" $path "reason" (printf "%q is not a folder in /run/nvidia, which the agents share" (include "driver-loader.installDir" .))
  "set" (dict $path "/run/nvidia/driver")) -}}
{{- end -}}
{{- if dig "rollingUpdate" "maxSurge" "" (include "driver-loader.updateStrategy" . | fromYaml) -}}
{{- include "outrigger.problem" (dict "root" . "path" "updateStrategy.rollingUpdate.maxSurge" "reason" "one agent of a node changes its driver at a time"
  "instead" "use maxUnavailable" "remove" (list "updateStrategy.rollingUpdate.maxSurge")) -}}
{{- end -}}
{{- end -}}
