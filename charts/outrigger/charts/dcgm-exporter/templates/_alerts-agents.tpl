{{- /* Alerts on the metrics of the other agents. Prometheus must scrape them as well. Their ports
have the names of the values metrics.port of their charts. */ -}}
{{- define "dcgm-exporter.alertsOfAgents" -}}
- name: outrigger-agents
  rules:
    - alert: GPUNodeNotReady
      expr: outrigger_feature_discovery_gpu_ready == 0
      for: 15m
      labels: {severity: warning}
      annotations:
        summary: Pods cannot use the GPUs of the node at [[ $labels.instance ]] ([[ $labels.reason ]])
        description: The condition GPUReady of the Node has the cause and the fix.
    - alert: GPUConfigRefused
      expr: '{__name__=~"outrigger_.+_config_refused"} == 1'
      for: 5m
      labels: {severity: warning}
      annotations:
        summary: The agent at [[ $labels.instance ]] rejects its newest config ([[ $labels.reason ]])
        description: The previous config stays in effect. The Event ConfigRefused of the Node and the log name the mistake.
    - alert: GPUDeviceUnhealthy
      expr: '{__name__=~"outrigger_(device|dra)_plugin_device_health"} == 0'
      for: 5m
      labels: {severity: critical}
      annotations:
        summary: Device [[ $labels.index ]] of the node at [[ $labels.instance ]] is not given to pods ([[ $labels.reason ]])
        description: The device plugin, or the DRA plugin, advertises [[ $labels.device ]] ([[ $labels.resource ]]) as unhealthy. Its log and the Event of the Node have the cause; recovery means that the driver requests a reset or a reboot.
    - alert: GPUNotAdvertised
      expr: '{__name__=~"outrigger_(device|dra)_plugin_unlisted_gpu"} == 1'
      for: 15m
      labels: {severity: warning}
      annotations:
        summary: GPU [[ $labels.index ]] of the node at [[ $labels.instance ]] is not advertised ([[ $labels.reason ]])
        description: No pod can request it. The log of the device plugin, or of the DRA plugin, says which setting or fault is the cause.
    - alert: GPUDevicePluginWaiting
      expr: '{__name__=~"outrigger_(device|dra)_plugin_waiting"} == 1'
      for: 15m
      labels: {severity: warning}
      annotations:
        summary: The device plugin or DRA plugin at [[ $labels.instance ]] waits ([[ $labels.reason ]])
        description: It advertises no GPU of the node meanwhile. Its readiness and its log say for what it waits.
    - alert: GPUPluginNotRegistered
      expr: increase(outrigger_device_plugin_registrations_total{result="error"}[15m]) > 0
      for: 15m
      labels: {severity: warning}
      annotations:
        summary: The device plugin at [[ $labels.instance ]] cannot register [[ $labels.resource ]]
        description: The kubelet rejects it or does not answer, and pods cannot request the resource on this node. The log of the device plugin has the kubelet's error.
    - alert: GPUAllocationFailing
      expr: increase({__name__=~"outrigger_(device|dra)_plugin_allocations_total", result="error"}[15m]) > 0
      labels: {severity: warning}
      annotations:
        summary: Pods do not get [[ $labels.resource ]] of the node at [[ $labels.instance ]]
        description: The plugin has rejected what the kubelet wanted to give a container. The Events of the pods and the log of the plugin have the cause.
    - alert: GPUToolkitNotReady
      expr: outrigger_container_toolkit_part_ready == 0
      for: 15m
      labels: {severity: warning}
      annotations:
        summary: The part [[ $labels.part ]] of the container toolkit at [[ $labels.instance ]] is not ready
        description: New containers may not get their GPUs. The readiness and the log of its pod name the cause.
    - alert: GPUDriverNotReady
      expr: outrigger_driver_loader_ready == 0
      for: 30m
      labels: {severity: critical}
      annotations:
        summary: The node at [[ $labels.instance ]] has no working driver
        description: The metric outrigger_driver_loader_causes has the codes of what is in the way, and the log of the driver loader the fixes.
    - alert: GPUVirtualGPUUnlicensed
      expr: outrigger_driver_loader_vgpu_licensed == 0
      for: 15m
      labels: {severity: warning}
      annotations:
        summary: Virtual GPU [[ $labels.gpu ]] of the node at [[ $labels.instance ]] has no license ([[ $labels.product ]])
        description: The driver slows such a GPU down after a while. The log of the driver loader has what the license client reports; check its token, and whether the node reaches the license server.
    - alert: GPUDriverUpgradeFailed
      expr: outrigger_driver_loader_upgrade_state{state="upgrade-failed"} == 1
      labels: {severity: critical}
      annotations:
        summary: The upgrade of the driver of the node at [[ $labels.instance ]] has failed
        description: The node has its previous driver again, and takes pods. The metric outrigger_driver_loader_upgrade_cause has the code of the cause, and docs/driver-loader-troubleshooting.md what to do.
    - alert: GPUDriverUpgradeStuck
      expr: |-
        time() - outrigger_driver_loader_upgrade_state_timestamp_seconds > 3600
        and on (instance) outrigger_driver_loader_upgrade_state{state!~"upgrade-required|upgrade-done|upgrade-failed"} == 1
      for: 5m
      labels: {severity: warning}
      annotations:
        summary: The upgrade of the driver of the node at [[ $labels.instance ]] has not moved for [[ $value | humanizeDuration ]]
        description: The node may be cordoned meanwhile. The metric outrigger_driver_loader_upgrade_cause has the code of what it waits for, such as a PodDisruptionBudget.
    - alert: GPUMIGConfigFailed
      expr: outrigger_mig_manager_config_state{state="failed"} == 1
      for: 10m
      labels: {severity: critical}
      annotations:
        summary: The GPUs of the node at [[ $labels.instance ]] do not have the MIG layout that is asked for
        description: The annotation outrigger.dev/mig-config-cause of the Node has the cause. The GPUs have their previous layouts, and the MIG manager tries again.
    - alert: GPUMIGConfigWaiting
      expr: outrigger_mig_manager_config_state{state="pending"} == 1
      for: 1h
      labels: {severity: warning}
      annotations:
        summary: A change of the MIG layout of the node at [[ $labels.instance ]] has been waiting for an hour
        description: The annotation outrigger.dev/mig-config-cause of the Node names the pods that hold what has to go. End them, or set gpuPods=evict for the chart of the MIG manager.
{{- end -}}
