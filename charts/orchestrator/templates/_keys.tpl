{{- /* Written by: go test ./... -update, from the schemas of all charts: the keys of a ClusterPolicy, in CEL. */ -}}
{{- define "orchestrator.keys" -}}
- name: spec
  expression: >-
    dyn(object)[?'spec'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_cdi
  expression: >-
    variables.spec[?'cdi'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_daemonsets
  expression: >-
    variables.spec[?'daemonsets'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_daemonsets_rollingUpdate
  expression: >-
    variables.spec_daemonsets[?'rollingUpdate'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_dcgmExporter
  expression: >-
    variables.spec[?'dcgmExporter'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_dcgmExporter_config
  expression: >-
    variables.spec_dcgmExporter[?'config'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_dcgmExporter_dashboards
  expression: >-
    variables.spec_dcgmExporter[?'dashboards'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_dcgmExporter_hpcJobMapping
  expression: >-
    variables.spec_dcgmExporter[?'hpcJobMapping'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_dcgmExporter_image
  expression: >-
    variables.spec_dcgmExporter[?'image'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_dcgmExporter_metrics
  expression: >-
    variables.spec_dcgmExporter[?'metrics'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_dcgmExporter_metrics_tls
  expression: >-
    variables.spec_dcgmExporter_metrics[?'tls'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_dcgmExporter_networkPolicy
  expression: >-
    variables.spec_dcgmExporter[?'networkPolicy'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_dcgmExporter_podMetrics
  expression: >-
    variables.spec_dcgmExporter[?'podMetrics'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_dcgmExporter_podMonitor
  expression: >-
    variables.spec_dcgmExporter[?'podMonitor'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_dcgmExporter_prometheusRule
  expression: >-
    variables.spec_dcgmExporter[?'prometheusRule'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_dcgmExporter_rbac
  expression: >-
    variables.spec_dcgmExporter[?'rbac'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_dcgmExporter_service
  expression: >-
    variables.spec_dcgmExporter[?'service'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_dcgmExporter_serviceAccount
  expression: >-
    variables.spec_dcgmExporter[?'serviceAccount'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_dcgmExporter_serviceMonitor
  expression: >-
    variables.spec_dcgmExporter[?'serviceMonitor'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_devicePlugin
  expression: >-
    variables.spec[?'devicePlugin'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_devicePlugin_admissionPolicy
  expression: >-
    variables.spec_devicePlugin[?'admissionPolicy'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_devicePlugin_cdi
  expression: >-
    variables.spec_devicePlugin[?'cdi'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_devicePlugin_config
  expression: >-
    variables.spec_devicePlugin[?'config'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_devicePlugin_devicePlugin
  expression: >-
    variables.spec_devicePlugin[?'devicePlugin'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_devicePlugin_events
  expression: >-
    variables.spec_devicePlugin[?'events'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_devicePlugin_image
  expression: >-
    variables.spec_devicePlugin[?'image'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_devicePlugin_imex
  expression: >-
    variables.spec_devicePlugin[?'imex'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_devicePlugin_metrics
  expression: >-
    variables.spec_devicePlugin[?'metrics'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_devicePlugin_metrics_service
  expression: >-
    variables.spec_devicePlugin_metrics[?'service'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_devicePlugin_metrics_tls
  expression: >-
    variables.spec_devicePlugin_metrics[?'tls'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_devicePlugin_mps
  expression: >-
    variables.spec_devicePlugin[?'mps'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_devicePlugin_networkPolicy
  expression: >-
    variables.spec_devicePlugin[?'networkPolicy'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_devicePlugin_rbac
  expression: >-
    variables.spec_devicePlugin[?'rbac'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_devicePlugin_serviceAccount
  expression: >-
    variables.spec_devicePlugin[?'serviceAccount'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_devicePlugin_test
  expression: >-
    variables.spec_devicePlugin[?'test'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_devicePlugin_test_image
  expression: >-
    variables.spec_devicePlugin_test[?'image'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_devicePlugin_toolkit
  expression: >-
    variables.spec_devicePlugin[?'toolkit'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_draDriver
  expression: >-
    variables.spec[?'draDriver'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_draDriver_gpus
  expression: >-
    variables.spec_draDriver[?'gpus'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_draDriver_gpus_kubeletPlugin
  expression: >-
    variables.spec_draDriver_gpus[?'kubeletPlugin'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_draPlugin
  expression: >-
    variables.spec[?'draPlugin'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_draPlugin_admissionPolicy
  expression: >-
    variables.spec_draPlugin[?'admissionPolicy'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_draPlugin_cdi
  expression: >-
    variables.spec_draPlugin[?'cdi'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_draPlugin_deviceClasses
  expression: >-
    variables.spec_draPlugin[?'deviceClasses'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_draPlugin_devices
  expression: >-
    variables.spec_draPlugin[?'devices'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_draPlugin_image
  expression: >-
    variables.spec_draPlugin[?'image'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_draPlugin_metrics
  expression: >-
    variables.spec_draPlugin[?'metrics'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_draPlugin_metrics_service
  expression: >-
    variables.spec_draPlugin_metrics[?'service'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_draPlugin_metrics_tls
  expression: >-
    variables.spec_draPlugin_metrics[?'tls'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_draPlugin_networkPolicy
  expression: >-
    variables.spec_draPlugin[?'networkPolicy'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_draPlugin_rbac
  expression: >-
    variables.spec_draPlugin[?'rbac'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_draPlugin_serviceAccount
  expression: >-
    variables.spec_draPlugin[?'serviceAccount'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_draPlugin_toolkit
  expression: >-
    variables.spec_draPlugin[?'toolkit'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_driver
  expression: >-
    variables.spec[?'driver'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_driver_admissionPolicy
  expression: >-
    variables.spec_driver[?'admissionPolicy'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_driver_certConfig
  expression: >-
    variables.spec_driver[?'certConfig'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_driver_gdrcopy
  expression: >-
    variables.spec_driver[?'gdrcopy'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_driver_gds
  expression: >-
    variables.spec_driver[?'gds'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_driver_kernelModuleConfig
  expression: >-
    variables.spec_driver[?'kernelModuleConfig'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_driver_licensingConfig
  expression: >-
    variables.spec_driver[?'licensingConfig'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_driver_manager
  expression: >-
    variables.spec_driver[?'manager'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_driver_metrics
  expression: >-
    variables.spec_driver[?'metrics'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_driver_metrics_service
  expression: >-
    variables.spec_driver_metrics[?'service'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_driver_metrics_tls
  expression: >-
    variables.spec_driver_metrics[?'tls'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_driver_networkPolicy
  expression: >-
    variables.spec_driver[?'networkPolicy'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_driver_rbac
  expression: >-
    variables.spec_driver[?'rbac'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_driver_rdma
  expression: >-
    variables.spec_driver[?'rdma'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_driver_repoConfig
  expression: >-
    variables.spec_driver[?'repoConfig'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_driver_rollingUpdate
  expression: >-
    variables.spec_driver[?'rollingUpdate'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_driver_serviceAccount
  expression: >-
    variables.spec_driver[?'serviceAccount'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_driver_signing
  expression: >-
    variables.spec_driver[?'signing'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_driver_upgradePolicy
  expression: >-
    variables.spec_driver[?'upgradePolicy'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_driver_upgradePolicy_drain
  expression: >-
    variables.spec_driver_upgradePolicy[?'drain'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_driver_upgradePolicy_gpuPodDeletion
  expression: >-
    variables.spec_driver_upgradePolicy[?'gpuPodDeletion'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_driver_upgradePolicy_waitForCompletion
  expression: >-
    variables.spec_driver_upgradePolicy[?'waitForCompletion'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_driver_upgrades
  expression: >-
    variables.spec_driver[?'upgrades'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_gfd
  expression: >-
    variables.spec[?'gfd'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_gfd_admissionPolicy
  expression: >-
    variables.spec_gfd[?'admissionPolicy'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_gfd_config
  expression: >-
    variables.spec_gfd[?'config'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_gfd_events
  expression: >-
    variables.spec_gfd[?'events'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_gfd_image
  expression: >-
    variables.spec_gfd[?'image'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_gfd_metrics
  expression: >-
    variables.spec_gfd[?'metrics'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_gfd_metrics_service
  expression: >-
    variables.spec_gfd_metrics[?'service'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_gfd_metrics_tls
  expression: >-
    variables.spec_gfd_metrics[?'tls'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_gfd_networkPolicy
  expression: >-
    variables.spec_gfd[?'networkPolicy'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_gfd_presence
  expression: >-
    variables.spec_gfd[?'presence'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_gfd_presence_serviceAccount
  expression: >-
    variables.spec_gfd_presence[?'serviceAccount'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_gfd_rbac
  expression: >-
    variables.spec_gfd[?'rbac'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_gfd_serviceAccount
  expression: >-
    variables.spec_gfd[?'serviceAccount'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_global
  expression: >-
    variables.spec[?'global'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_global_config
  expression: >-
    variables.spec_global[?'config'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_global_metrics
  expression: >-
    variables.spec_global[?'metrics'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_hostPaths
  expression: >-
    variables.spec[?'hostPaths'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_mig
  expression: >-
    variables.spec[?'mig'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_migManager
  expression: >-
    variables.spec[?'migManager'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_migManager_admissionPolicy
  expression: >-
    variables.spec_migManager[?'admissionPolicy'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_migManager_config
  expression: >-
    variables.spec_migManager[?'config'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_migManager_gpuClientsConfig
  expression: >-
    variables.spec_migManager[?'gpuClientsConfig'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_migManager_image
  expression: >-
    variables.spec_migManager[?'image'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_migManager_metrics
  expression: >-
    variables.spec_migManager[?'metrics'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_migManager_metrics_service
  expression: >-
    variables.spec_migManager_metrics[?'service'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_migManager_metrics_tls
  expression: >-
    variables.spec_migManager_metrics[?'tls'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_migManager_networkPolicy
  expression: >-
    variables.spec_migManager[?'networkPolicy'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_migManager_rbac
  expression: >-
    variables.spec_migManager[?'rbac'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_migManager_serviceAccount
  expression: >-
    variables.spec_migManager[?'serviceAccount'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_namespace
  expression: >-
    variables.spec[?'namespace'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_nfd
  expression: >-
    variables.spec[?'nfd'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_operator
  expression: >-
    variables.spec[?'operator'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_operator_admissionPolicy
  expression: >-
    variables.spec_operator[?'admissionPolicy'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_operator_cleanup
  expression: >-
    variables.spec_operator[?'cleanup'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_operator_image
  expression: >-
    variables.spec_operator[?'image'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_operator_logging
  expression: >-
    variables.spec_operator[?'logging'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_operator_metrics
  expression: >-
    variables.spec_operator[?'metrics'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_operator_metrics_service
  expression: >-
    variables.spec_operator_metrics[?'service'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_operator_metrics_serviceMonitor
  expression: >-
    variables.spec_operator_metrics[?'serviceMonitor'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_operator_metrics_tls
  expression: >-
    variables.spec_operator_metrics[?'tls'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_operator_networkPolicy
  expression: >-
    variables.spec_operator[?'networkPolicy'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_operator_rbac
  expression: >-
    variables.spec_operator[?'rbac'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_operator_serviceAccount
  expression: >-
    variables.spec_operator[?'serviceAccount'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_orchestrator
  expression: >-
    variables.spec[?'orchestrator'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_platform
  expression: >-
    variables.spec[?'platform'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_psa
  expression: >-
    variables.spec[?'psa'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_sim
  expression: >-
    variables.spec[?'sim'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_sim_admissionPolicy
  expression: >-
    variables.spec_sim[?'admissionPolicy'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_sim_image
  expression: >-
    variables.spec_sim[?'image'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_sim_metrics
  expression: >-
    variables.spec_sim[?'metrics'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_sim_metrics_service
  expression: >-
    variables.spec_sim_metrics[?'service'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_sim_metrics_tls
  expression: >-
    variables.spec_sim_metrics[?'tls'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_sim_networkPolicy
  expression: >-
    variables.spec_sim[?'networkPolicy'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_sim_nri
  expression: >-
    variables.spec_sim[?'nri'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_sim_rbac
  expression: >-
    variables.spec_sim[?'rbac'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_sim_serviceAccount
  expression: >-
    variables.spec_sim[?'serviceAccount'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_tags
  expression: >-
    variables.spec[?'tags'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_toolkit
  expression: >-
    variables.spec[?'toolkit'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_toolkit_cdi
  expression: >-
    variables.spec_toolkit[?'cdi'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_toolkit_image
  expression: >-
    variables.spec_toolkit[?'image'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_toolkit_metrics
  expression: >-
    variables.spec_toolkit[?'metrics'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_toolkit_metrics_service
  expression: >-
    variables.spec_toolkit_metrics[?'service'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_toolkit_metrics_tls
  expression: >-
    variables.spec_toolkit_metrics[?'tls'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_toolkit_networkPolicy
  expression: >-
    variables.spec_toolkit[?'networkPolicy'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_toolkit_rbac
  expression: >-
    variables.spec_toolkit[?'rbac'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_toolkit_runtime
  expression: >-
    variables.spec_toolkit[?'runtime'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_toolkit_runtimeClass
  expression: >-
    variables.spec_toolkit[?'runtimeClass'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_toolkit_serviceAccount
  expression: >-
    variables.spec_toolkit[?'serviceAccount'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_validator
  expression: >-
    variables.spec[?'validator'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_validator_driver
  expression: >-
    variables.spec_validator[?'driver'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_validator_image
  expression: >-
    variables.spec_validator[?'image'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: spec_validator_plugin
  expression: >-
    variables.spec_validator[?'plugin'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))
- name: unknown
  expression: >-
    [variables.spec.filter(k, !(k in ['ccManager','cdi','clusterPolicy','daemonsets','dcgm','dcgmExporter','devicePlugin','draDriver','draPlugin','driver','extraObjects','fabricManager','gdrcopy','gds','gfd','global','gpuCluster','hostPaths','kataManager','kataSandboxDevicePlugin','mig','migManager','namespace','nfd','node-feature-discovery','nodeStatusExporter','operator','orchestrator','outrigger-common','platform','pools','psa','psp','sandboxDevicePlugin','sandboxWorkloads','sim','tags','toolkit','validator','vfioManager','vgpuDeviceManager','vgpuManager'])).map(k, '' + k),
    variables.spec_cdi.filter(k, !(k in ['default','enabled','nriPluginEnabled'])).map(k, 'cdi.' + k),
    variables.spec_daemonsets.filter(k, !(k in ['annotations','labels','nodeSelector','podSecurityContext','priorityClassName','rollingUpdate','tolerations','updateStrategy'])).map(k, 'daemonsets.' + k),
    variables.spec_daemonsets_rollingUpdate.filter(k, !(k in ['maxSurge','maxUnavailable'])).map(k, 'daemonsets.rollingUpdate.' + k),
    variables.spec_dcgmExporter.filter(k, !(k in ['affinity','annotations','args','collectInterval','config','customMetrics','dashboards','enablePodLabels','enablePodUID','enabled','env','extraArgs','fullnameOverride','global','hostNetwork','hostPID','hostnameLabel','hpcJobMapping','image','imagePullPolicy','imagePullSecrets','kubeletRootDir','logFormat','logLevel','metricNames','metrics','migGPUMetrics','nameOverride','namespaceOverride','networkPolicy','nodeSelector','nvidiaDevRoot','nvidiaDriverRoot','outrigger-common','podAnnotations','podLabelAllowlistRegex','podLabels','podMetrics','podMonitor','podSecurityContext','priorityClassName','procRoot','prometheusRule','rbac','repository','resources','runtimeClassName','securityContext','service','serviceAccount','serviceMonitor','startupTaint','sysRoot','tolerations','updateStrategy','version'])).map(k, 'dcgmExporter.' + k),
    variables.spec_dcgmExporter_config.filter(k, !(k in ['create','data','key','name'])).map(k, 'dcgmExporter.config.' + k),
    variables.spec_dcgmExporter_dashboards.filter(k, !(k in ['annotations','enabled','labels'])).map(k, 'dcgmExporter.dashboards.' + k),
    variables.spec_dcgmExporter_hpcJobMapping.filter(k, !(k in ['directory','enabled'])).map(k, 'dcgmExporter.hpcJobMapping.' + k),
    variables.spec_dcgmExporter_image.filter(k, !(k in ['pullPolicy','repository','tag'])).map(k, 'dcgmExporter.image.' + k),
    variables.spec_dcgmExporter[?'imagePullSecrets'].optMap(l, type(l) == list ? l : dyn([])).orValue(dyn([])).filter(i, type(i) == map).map(i, i.filter(k, !(k in ['name'])).map(k, 'dcgmExporter.imagePullSecrets[].' + k).join(', ')).filter(s, s != ''),
    variables.spec_dcgmExporter_metrics.filter(k, !(k in ['localhost','port','tls'])).map(k, 'dcgmExporter.metrics.' + k),
    variables.spec_dcgmExporter_metrics_tls.filter(k, !(k in ['secretName'])).map(k, 'dcgmExporter.metrics.tls.' + k),
    variables.spec_dcgmExporter_networkPolicy.filter(k, !(k in ['enabled','from'])).map(k, 'dcgmExporter.networkPolicy.' + k),
    variables.spec_dcgmExporter_podMetrics.filter(k, !(k in ['enablePodLabels'])).map(k, 'dcgmExporter.podMetrics.' + k),
    variables.spec_dcgmExporter_podMonitor.filter(k, !(k in ['additionalLabels','enabled','honorLabels','interval','metricRelabelings','relabelings','scrapeTimeout','tlsConfig'])).map(k, 'dcgmExporter.podMonitor.' + k),
    variables.spec_dcgmExporter_prometheusRule.filter(k, !(k in ['additionalLabels','agents','enabled'])).map(k, 'dcgmExporter.prometheusRule.' + k),
    variables.spec_dcgmExporter_rbac.filter(k, !(k in ['create'])).map(k, 'dcgmExporter.rbac.' + k),
    variables.spec_dcgmExporter_service.filter(k, !(k in ['annotations','enabled','internalTrafficPolicy','labels','type'])).map(k, 'dcgmExporter.service.' + k),
    variables.spec_dcgmExporter_serviceAccount.filter(k, !(k in ['annotations','create','name'])).map(k, 'dcgmExporter.serviceAccount.' + k),
    variables.spec_dcgmExporter_serviceMonitor.filter(k, !(k in ['additionalLabels','enabled','honorLabels','interval','metricRelabelings','relabelings','scrapeTimeout','tlsConfig'])).map(k, 'dcgmExporter.serviceMonitor.' + k),
    variables.spec_devicePlugin.filter(k, !(k in ['admissionPolicy','affinity','allowDefaultNamespace','args','cdi','compatWithCPUManager','componentSelectorLabels','config','configManager','deviceDiscoveryStrategy','deviceIDStrategy','deviceListStrategy','devicePlugin','enabled','env','events','extraArgs','failOnInitError','fullnameOverride','gdrcopyEnabled','gdsEnabled','gfd','global','hostNetwork','image','imagePullPolicy','imagePullSecrets','imex','kubeletRootDir','legacyDaemonsetAPI','logFormat','logLevel','logVerbosity','metrics','migStrategy','mofedEnabled','mps','nameOverride','namespaceOverride','networkPolicy','nfd','nodeSelector','nvidiaDevRoot','nvidiaDriverCapabilities','nvidiaDriverRoot','outrigger-common','podAnnotations','podLabels','podSecurityContext','priorityClassName','procRoot','rbac','repository','resourceConfig','resources','runtimeClassName','securityContext','selectorLabelsOverride','serviceAccount','sharedDevicesAllocationPolicy','startupTaint','sysRoot','test','tolerations','toolkit','updateStrategy','version'])).map(k, 'devicePlugin.' + k),
    variables.spec_devicePlugin_admissionPolicy.filter(k, !(k in ['create'])).map(k, 'devicePlugin.admissionPolicy.' + k),
    variables.spec_devicePlugin_cdi.filter(k, !(k in ['disableHooks','featureFlags','nvidiaHookPath'])).map(k, 'devicePlugin.cdi.' + k),
    variables.spec_devicePlugin_config.filter(k, !(k in ['create','data','default','fallbackStrategies','map','name'])).map(k, 'devicePlugin.config.' + k),
    variables.spec_devicePlugin_devicePlugin.filter(k, !(k in ['containers','enableHostNetwork','enabled','resources'])).map(k, 'devicePlugin.devicePlugin.' + k),
    variables.spec_devicePlugin_events.filter(k, !(k in ['enabled'])).map(k, 'devicePlugin.events.' + k),
    variables.spec_devicePlugin_image.filter(k, !(k in ['pullPolicy','repository','tag'])).map(k, 'devicePlugin.image.' + k),
    variables.spec_devicePlugin[?'imagePullSecrets'].optMap(l, type(l) == list ? l : dyn([])).orValue(dyn([])).filter(i, type(i) == map).map(i, i.filter(k, !(k in ['name'])).map(k, 'devicePlugin.imagePullSecrets[].' + k).join(', ')).filter(s, s != ''),
    variables.spec_devicePlugin_imex.filter(k, !(k in ['channelIDs','required'])).map(k, 'devicePlugin.imex.' + k),
    variables.spec_devicePlugin_metrics.filter(k, !(k in ['localhost','port','service','tls'])).map(k, 'devicePlugin.metrics.' + k),
    variables.spec_devicePlugin_metrics_service.filter(k, !(k in ['annotations','enabled','labels'])).map(k, 'devicePlugin.metrics.service.' + k),
    variables.spec_devicePlugin_metrics_tls.filter(k, !(k in ['secretName'])).map(k, 'devicePlugin.metrics.tls.' + k),
    variables.spec_devicePlugin_mps.filter(k, !(k in ['enableHostNetwork','enableHostPID','enabled','nodeSelector','port','resources','root','updateStrategy'])).map(k, 'devicePlugin.mps.' + k),
    variables.spec_devicePlugin_networkPolicy.filter(k, !(k in ['enabled','from'])).map(k, 'devicePlugin.networkPolicy.' + k),
    variables.spec_devicePlugin_rbac.filter(k, !(k in ['create'])).map(k, 'devicePlugin.rbac.' + k),
    variables.spec_devicePlugin_serviceAccount.filter(k, !(k in ['annotations','create','name'])).map(k, 'devicePlugin.serviceAccount.' + k),
    variables.spec_devicePlugin_test.filter(k, !(k in ['image','resource','runtimeClassName'])).map(k, 'devicePlugin.test.' + k),
    variables.spec_devicePlugin_test_image.filter(k, !(k in ['repository','tag'])).map(k, 'devicePlugin.test.image.' + k),
    variables.spec_devicePlugin_toolkit.filter(k, !(k in ['installDir'])).map(k, 'devicePlugin.toolkit.' + k),
    variables.spec_draDriver.filter(k, !(k in ['computeDomains','enabled','featureGates','gpus','image','imagePullPolicy','imagePullSecrets','repository','version'])).map(k, 'draDriver.' + k),
    variables.spec_draDriver_gpus.filter(k, !(k in ['enabled','kubeletPlugin'])).map(k, 'draDriver.gpus.' + k),
    variables.spec_draDriver_gpus_kubeletPlugin.filter(k, !(k in ['affinity','env','healthcheck','nodeSelector','priorityClassName','resources','tolerations'])).map(k, 'draDriver.gpus.kubeletPlugin.' + k),
    variables.spec_draDriver[?'imagePullSecrets'].optMap(l, type(l) == list ? l : dyn([])).orValue(dyn([])).filter(i, type(i) == map).map(i, i.filter(k, !(k in ['name'])).map(k, 'draDriver.imagePullSecrets[].' + k).join(', ')).filter(s, s != ''),
    variables.spec_draPlugin.filter(k, !(k in ['admissionPolicy','affinity','args','cdi','deviceClasses','devices','enableHostNetwork','enabled','env','extraArgs','fullnameOverride','global','hostNetwork','image','imagePullPolicy','imagePullSecrets','kubeletRootDir','logFormat','logLevel','metrics','nameOverride','namespaceOverride','networkPolicy','nodeSelector','nvidiaDevRoot','nvidiaDriverRoot','outrigger-common','podAnnotations','podLabels','podSecurityContext','priorityClassName','procRoot','rbac','repository','resources','securityContext','serviceAccount','startupTaint','sysRoot','tolerations','toolkit','updateStrategy','version'])).map(k, 'draPlugin.' + k),
    variables.spec_draPlugin_admissionPolicy.filter(k, !(k in ['create'])).map(k, 'draPlugin.admissionPolicy.' + k),
    variables.spec_draPlugin_cdi.filter(k, !(k in ['nvidiaHookPath'])).map(k, 'draPlugin.cdi.' + k),
    variables.spec_draPlugin_deviceClasses.filter(k, !(k in ['create','extendedResourceName'])).map(k, 'draPlugin.deviceClasses.' + k),
    variables.spec_draPlugin_devices.filter(k, !(k in ['exclude','include'])).map(k, 'draPlugin.devices.' + k),
    variables.spec_draPlugin_image.filter(k, !(k in ['pullPolicy','repository','tag'])).map(k, 'draPlugin.image.' + k),
    variables.spec_draPlugin[?'imagePullSecrets'].optMap(l, type(l) == list ? l : dyn([])).orValue(dyn([])).filter(i, type(i) == map).map(i, i.filter(k, !(k in ['name'])).map(k, 'draPlugin.imagePullSecrets[].' + k).join(', ')).filter(s, s != ''),
    variables.spec_draPlugin_metrics.filter(k, !(k in ['localhost','port','service','tls'])).map(k, 'draPlugin.metrics.' + k),
    variables.spec_draPlugin_metrics_service.filter(k, !(k in ['annotations','enabled','labels'])).map(k, 'draPlugin.metrics.service.' + k),
    variables.spec_draPlugin_metrics_tls.filter(k, !(k in ['secretName'])).map(k, 'draPlugin.metrics.tls.' + k),
    variables.spec_draPlugin_networkPolicy.filter(k, !(k in ['enabled','from'])).map(k, 'draPlugin.networkPolicy.' + k),
    variables.spec_draPlugin_rbac.filter(k, !(k in ['create'])).map(k, 'draPlugin.rbac.' + k),
    variables.spec_draPlugin_serviceAccount.filter(k, !(k in ['annotations','create','name'])).map(k, 'draPlugin.serviceAccount.' + k),
    variables.spec_draPlugin_toolkit.filter(k, !(k in ['installDir'])).map(k, 'draPlugin.toolkit.' + k),
    variables.spec_driver.filter(k, !(k in ['admissionPolicy','affinity','args','certConfig','driverVersion','enabled','env','extraArgs','fullnameOverride','gdrcopy','gds','global','hostNetwork','image','imagePullPolicy','imagePullSecrets','kernelModuleConfig','kernelModuleType','licensingConfig','livenessProbe','logFormat','logLevel','manager','maxThreads','metrics','nameOverride','namespaceOverride','networkPolicy','nodeSelector','nvidiaDriverCRD','outrigger-common','payload','podAnnotations','podLabels','podSecurityContext','priorityClassName','rbac','rdma','readinessProbe','replaceForeignDriver','repoConfig','repository','resources','rollingUpdate','secretEnv','securityContext','serviceAccount','signing','startupProbe','startupTaint','store','tolerations','updateStrategy','upgradePolicy','upgrades','useHostMounts','useOpenKernelModules','usePrecompiled','version','virtualTopology'])).map(k, 'driver.' + k),
    variables.spec_driver_admissionPolicy.filter(k, !(k in ['create'])).map(k, 'driver.admissionPolicy.' + k),
    variables.spec_driver_certConfig.filter(k, !(k in ['name'])).map(k, 'driver.certConfig.' + k),
    variables.spec_driver_gdrcopy.filter(k, !(k in ['enabled','image','repository','version'])).map(k, 'driver.gdrcopy.' + k),
    variables.spec_driver_gds.filter(k, !(k in ['enabled','image','repository','version'])).map(k, 'driver.gds.' + k),
    variables.spec_driver[?'imagePullSecrets'].optMap(l, type(l) == list ? l : dyn([])).orValue(dyn([])).filter(i, type(i) == map).map(i, i.filter(k, !(k in ['name'])).map(k, 'driver.imagePullSecrets[].' + k).join(', ')).filter(s, s != ''),
    variables.spec_driver_kernelModuleConfig.filter(k, !(k in ['name'])).map(k, 'driver.kernelModuleConfig.' + k),
    variables.spec_driver_licensingConfig.filter(k, !(k in ['configMapName','nlsEnabled','secretName'])).map(k, 'driver.licensingConfig.' + k),
    variables.spec_driver_manager.filter(k, !(k in ['env','image','imagePullPolicy','repository','version'])).map(k, 'driver.manager.' + k),
    variables.spec_driver_metrics.filter(k, !(k in ['localhost','port','service','tls'])).map(k, 'driver.metrics.' + k),
    variables.spec_driver_metrics_service.filter(k, !(k in ['annotations','enabled','labels'])).map(k, 'driver.metrics.service.' + k),
    variables.spec_driver_metrics_tls.filter(k, !(k in ['secretName'])).map(k, 'driver.metrics.tls.' + k),
    variables.spec_driver_networkPolicy.filter(k, !(k in ['enabled','from'])).map(k, 'driver.networkPolicy.' + k),
    variables.spec_driver_rbac.filter(k, !(k in ['create'])).map(k, 'driver.rbac.' + k),
    variables.spec_driver_rdma.filter(k, !(k in ['enabled','useHostMofed'])).map(k, 'driver.rdma.' + k),
    variables.spec_driver_repoConfig.filter(k, !(k in ['configMapName','destinationDir'])).map(k, 'driver.repoConfig.' + k),
    variables.spec_driver_rollingUpdate.filter(k, !(k in ['maxUnavailable'])).map(k, 'driver.rollingUpdate.' + k),
    variables.spec_driver_serviceAccount.filter(k, !(k in ['annotations','create','name'])).map(k, 'driver.serviceAccount.' + k),
    variables.spec_driver_signing.filter(k, !(k in ['secretName'])).map(k, 'driver.signing.' + k),
    variables.spec_driver_upgradePolicy.filter(k, !(k in ['autoUpgrade','drain','gpuPodDeletion','maxFailures','maxParallelUpgrades','maxUnavailable','skipCordoned','waitForCompletion'])).map(k, 'driver.upgradePolicy.' + k),
    variables.spec_driver_upgradePolicy_drain.filter(k, !(k in ['deleteEmptyDir','enable','force','podSelector','timeoutSeconds'])).map(k, 'driver.upgradePolicy.drain.' + k),
    variables.spec_driver_upgradePolicy_gpuPodDeletion.filter(k, !(k in ['deleteEmptyDir','force','timeoutSeconds'])).map(k, 'driver.upgradePolicy.gpuPodDeletion.' + k),
    variables.spec_driver_upgradePolicy_waitForCompletion.filter(k, !(k in ['podSelector','timeoutSeconds'])).map(k, 'driver.upgradePolicy.waitForCompletion.' + k),
    variables.spec_driver_upgrades.filter(k, !(k in ['resources'])).map(k, 'driver.upgrades.' + k),
    variables.spec_gfd.filter(k, !(k in ['admissionPolicy','affinity','allowDefaultNamespace','args','cdi','compatWithCPUManager','componentSelectorLabels','config','configManager','deviceDiscoveryStrategy','deviceIDStrategy','deviceListStrategy','devicePlugin','enableHostNetwork','enabled','env','events','extraArgs','failOnInitError','fullnameOverride','gdrcopyEnabled','gdsEnabled','gfd','global','hostNetwork','image','imagePullPolicy','imagePullSecrets','legacyDaemonsetAPI','logFormat','logLevel','logVerbosity','metrics','migStrategy','mofedEnabled','mps','nameOverride','namespaceOverride','networkPolicy','nfd','noTimestamp','nodeSelector','nvidiaDevRoot','nvidiaDriverCapabilities','nvidiaDriverRoot','outputFile','outrigger-common','podAnnotations','podLabels','podSecurityContext','presence','priorityClassName','procRoot','publish','rbac','readyChain','repository','resourceConfig','resources','runtimeClassName','securityContext','selectorLabelsOverride','serviceAccount','sleepInterval','startupTaint','sysRoot','tolerations','updateStrategy','version'])).map(k, 'gfd.' + k),
    variables.spec_gfd_admissionPolicy.filter(k, !(k in ['create'])).map(k, 'gfd.admissionPolicy.' + k),
    variables.spec_gfd_config.filter(k, !(k in ['create','data','default','fallbackStrategies','map','name'])).map(k, 'gfd.config.' + k),
    variables.spec_gfd_events.filter(k, !(k in ['enabled'])).map(k, 'gfd.events.' + k),
    variables.spec_gfd_image.filter(k, !(k in ['pullPolicy','repository','tag'])).map(k, 'gfd.image.' + k),
    variables.spec_gfd[?'imagePullSecrets'].optMap(l, type(l) == list ? l : dyn([])).orValue(dyn([])).filter(i, type(i) == map).map(i, i.filter(k, !(k in ['name'])).map(k, 'gfd.imagePullSecrets[].' + k).join(', ')).filter(s, s != ''),
    variables.spec_gfd_metrics.filter(k, !(k in ['localhost','port','service','tls'])).map(k, 'gfd.metrics.' + k),
    variables.spec_gfd_metrics_service.filter(k, !(k in ['annotations','enabled','labels'])).map(k, 'gfd.metrics.service.' + k),
    variables.spec_gfd_metrics_tls.filter(k, !(k in ['secretName'])).map(k, 'gfd.metrics.tls.' + k),
    variables.spec_gfd_networkPolicy.filter(k, !(k in ['enabled','from'])).map(k, 'gfd.networkPolicy.' + k),
    variables.spec_gfd_presence.filter(k, !(k in ['affinity','enabled','env','extraArgs','nodeSelector','osRelease','port','resources','serviceAccount','tolerations','updateStrategy'])).map(k, 'gfd.presence.' + k),
    variables.spec_gfd_presence_serviceAccount.filter(k, !(k in ['annotations','create','name'])).map(k, 'gfd.presence.serviceAccount.' + k),
    variables.spec_gfd_rbac.filter(k, !(k in ['create'])).map(k, 'gfd.rbac.' + k),
    variables.spec_gfd_serviceAccount.filter(k, !(k in ['annotations','create','name'])).map(k, 'gfd.serviceAccount.' + k),
    variables.spec_global.filter(k, !(k in ['config','imagePullPolicy','imagePullSecrets','metrics','migStrategy','namespace','nvidiaDevRoot','nvidiaDriverRoot','registry','resourceConfig','startupTaint'])).map(k, 'global.' + k),
    variables.spec_global_config.filter(k, !(k in ['default','fallbackStrategies','map','name'])).map(k, 'global.config.' + k),
    variables.spec_global[?'imagePullSecrets'].optMap(l, type(l) == list ? l : dyn([])).orValue(dyn([])).filter(i, type(i) == map).map(i, i.filter(k, !(k in ['name'])).map(k, 'global.imagePullSecrets[].' + k).join(', ')).filter(s, s != ''),
    variables.spec_global_metrics.filter(k, !(k in ['localhost'])).map(k, 'global.metrics.' + k),
    variables.spec_hostPaths.filter(k, !(k in ['driverInstallDir','kubeletRootDir','rootFS'])).map(k, 'hostPaths.' + k),
    variables.spec_mig.filter(k, !(k in ['strategy'])).map(k, 'mig.' + k),
    variables.spec_migManager.filter(k, !(k in ['admissionPolicy','affinity','args','config','cordon','enabled','env','extraArgs','fullnameOverride','global','gpuClientsConfig','gpuPods','hostNetwork','image','imagePullPolicy','imagePullSecrets','kubeletRootDir','logFormat','logLevel','metrics','nameOverride','namespaceOverride','networkPolicy','nodeSelector','nvidiaDevRoot','nvidiaDriverRoot','outrigger-common','podAnnotations','podLabels','podSecurityContext','priorityClassName','procRoot','rbac','reboot','repository','resources','runtimeClassName','securityContext','serviceAccount','startupTaint','stateDir','sysRoot','tolerations','updateStrategy','version'])).map(k, 'migManager.' + k),
    variables.spec_migManager_admissionPolicy.filter(k, !(k in ['create'])).map(k, 'migManager.admissionPolicy.' + k),
    variables.spec_migManager_config.filter(k, !(k in ['create','data','default','name','publish'])).map(k, 'migManager.config.' + k),
    variables.spec_migManager_gpuClientsConfig.filter(k, !(k in ['name'])).map(k, 'migManager.gpuClientsConfig.' + k),
    variables.spec_migManager_image.filter(k, !(k in ['pullPolicy','repository','tag'])).map(k, 'migManager.image.' + k),
    variables.spec_migManager[?'imagePullSecrets'].optMap(l, type(l) == list ? l : dyn([])).orValue(dyn([])).filter(i, type(i) == map).map(i, i.filter(k, !(k in ['name'])).map(k, 'migManager.imagePullSecrets[].' + k).join(', ')).filter(s, s != ''),
    variables.spec_migManager_metrics.filter(k, !(k in ['localhost','port','service','tls'])).map(k, 'migManager.metrics.' + k),
    variables.spec_migManager_metrics_service.filter(k, !(k in ['annotations','enabled','labels'])).map(k, 'migManager.metrics.service.' + k),
    variables.spec_migManager_metrics_tls.filter(k, !(k in ['secretName'])).map(k, 'migManager.metrics.tls.' + k),
    variables.spec_migManager_networkPolicy.filter(k, !(k in ['enabled','from'])).map(k, 'migManager.networkPolicy.' + k),
    variables.spec_migManager_rbac.filter(k, !(k in ['create'])).map(k, 'migManager.rbac.' + k),
    variables.spec_migManager_serviceAccount.filter(k, !(k in ['annotations','create','name'])).map(k, 'migManager.serviceAccount.' + k),
    variables.spec_namespace.filter(k, !(k in ['create'])).map(k, 'namespace.' + k),
    variables.spec_nfd.filter(k, !(k in ['enabled','nodefeaturerules'])).map(k, 'nfd.' + k),
    variables.spec_operator.filter(k, !(k in ['admissionPolicy','affinity','annotations','args','cleanup','cleanupCRD','defaultRuntime','enabled','env','extraArgs','fullnameOverride','global','hostNetwork','image','imagePullPolicy','imagePullSecrets','initContainer','labels','logFormat','logLevel','logging','metrics','nameOverride','namespaceOverride','networkPolicy','nodeSelector','outrigger-common','podAnnotations','podLabels','priorityClassName','rbac','replicas','repository','resources','runtimeClass','serviceAccount','tolerations','upgradeCRD','use_ocp_driver_toolkit','validator','version'])).map(k, 'operator.' + k),
    variables.spec_operator_admissionPolicy.filter(k, !(k in ['create'])).map(k, 'operator.admissionPolicy.' + k),
    variables.spec_operator_cleanup.filter(k, !(k in ['enabled','timeoutSeconds'])).map(k, 'operator.cleanup.' + k),
    variables.spec_operator_image.filter(k, !(k in ['pullPolicy','repository','tag'])).map(k, 'operator.image.' + k),
    variables.spec_operator[?'imagePullSecrets'].optMap(l, type(l) == list ? l : dyn([])).orValue(dyn([])).filter(i, type(i) == map).map(i, i.filter(k, !(k in ['name'])).map(k, 'operator.imagePullSecrets[].' + k).join(', ')).filter(s, s != ''),
    variables.spec_operator_logging.filter(k, !(k in ['develMode','level','timeEncoding'])).map(k, 'operator.logging.' + k),
    variables.spec_operator_metrics.filter(k, !(k in ['localhost','port','service','serviceMonitor','tls'])).map(k, 'operator.metrics.' + k),
    variables.spec_operator_metrics_service.filter(k, !(k in ['annotations','enabled','labels'])).map(k, 'operator.metrics.service.' + k),
    variables.spec_operator_metrics_serviceMonitor.filter(k, !(k in ['additionalLabels','enabled','honorLabels','interval','metricRelabelings','relabelings','scrapeTimeout','tlsConfig'])).map(k, 'operator.metrics.serviceMonitor.' + k),
    variables.spec_operator_metrics_tls.filter(k, !(k in ['secretName'])).map(k, 'operator.metrics.tls.' + k),
    variables.spec_operator_networkPolicy.filter(k, !(k in ['enabled','from'])).map(k, 'operator.networkPolicy.' + k),
    variables.spec_operator_rbac.filter(k, !(k in ['create'])).map(k, 'operator.rbac.' + k),
    variables.spec_operator_serviceAccount.filter(k, !(k in ['annotations','create','name'])).map(k, 'operator.serviceAccount.' + k),
    variables.spec_orchestrator.filter(k, !(k in ['enabled'])).map(k, 'orchestrator.' + k),
    variables.spec_platform.filter(k, !(k in ['openshift'])).map(k, 'platform.' + k),
    variables.spec[?'pools'].optMap(l, type(l) == list ? l : dyn([])).orValue(dyn([])).filter(i, type(i) == map).map(i, i.filter(k, !(k in ['name','nodeSelector','values'])).map(k, 'pools[].' + k).join(', ')).filter(s, s != ''),
    variables.spec_psa.filter(k, !(k in ['enabled'])).map(k, 'psa.' + k),
    variables.spec_sim.filter(k, !(k in ['admissionPolicy','args','enabled','env','extraArgs','fullnameOverride','global','hostNetwork','image','imagePullPolicy','imagePullSecrets','logFormat','logLevel','metrics','models','nameOverride','namespaceOverride','networkPolicy','nodeSelector','nri','outrigger-common','podAnnotations','podLabels','pools','priorityClassName','rbac','repository','resources','securityContext','serviceAccount','tolerations','updateStrategy','version'])).map(k, 'sim.' + k),
    variables.spec_sim_admissionPolicy.filter(k, !(k in ['create'])).map(k, 'sim.admissionPolicy.' + k),
    variables.spec_sim_image.filter(k, !(k in ['pullPolicy','repository','tag'])).map(k, 'sim.image.' + k),
    variables.spec_sim[?'imagePullSecrets'].optMap(l, type(l) == list ? l : dyn([])).orValue(dyn([])).filter(i, type(i) == map).map(i, i.filter(k, !(k in ['name'])).map(k, 'sim.imagePullSecrets[].' + k).join(', ')).filter(s, s != ''),
    variables.spec_sim_metrics.filter(k, !(k in ['localhost','port','service','tls'])).map(k, 'sim.metrics.' + k),
    variables.spec_sim_metrics_service.filter(k, !(k in ['annotations','enabled','labels'])).map(k, 'sim.metrics.service.' + k),
    variables.spec_sim_metrics_tls.filter(k, !(k in ['secretName'])).map(k, 'sim.metrics.tls.' + k),
    variables.spec_sim_networkPolicy.filter(k, !(k in ['enabled','from'])).map(k, 'sim.networkPolicy.' + k),
    variables.spec_sim_nri.filter(k, !(k in ['enabled'])).map(k, 'sim.nri.' + k),
    variables.spec_sim[?'pools'].optMap(l, type(l) == list ? l : dyn([])).orValue(dyn([])).filter(i, type(i) == map).map(i, i.filter(k, !(k in ['driverVersion','fabric','gpus','imexChannels','latency','mig','model','name','nodeSelector'])).map(k, 'sim.pools[].' + k).join(', ')).filter(s, s != ''),
    variables.spec_sim_rbac.filter(k, !(k in ['create'])).map(k, 'sim.rbac.' + k),
    variables.spec_sim_serviceAccount.filter(k, !(k in ['annotations','create','name'])).map(k, 'sim.serviceAccount.' + k),
    variables.spec_tags.filter(k, !(k in ['optional'])).map(k, 'tags.' + k),
    variables.spec_toolkit.filter(k, !(k in ['acceptCDIAnnotations','acceptVisibleDevicesEnvvar','acceptVisibleDevicesVolumeMounts','affinity','args','cdi','enabled','env','extraArgs','fullnameOverride','global','hostNetwork','image','imagePullPolicy','imagePullSecrets','installDir','kubeletRootDir','logFormat','logLevel','metrics','mode','nameOverride','namespaceOverride','networkPolicy','nodeSelector','nvidiaDevRoot','nvidiaDriverRoot','operator','outrigger-common','podAnnotations','podLabels','podSecurityContext','priorityClassName','procRoot','rbac','repository','resources','runtime','runtimeClass','securityContext','serviceAccount','startupTaint','sysRoot','tolerations','toolkit','updateStrategy','version'])).map(k, 'toolkit.' + k),
    variables.spec_toolkit_cdi.filter(k, !(k in ['enabled','nriPluginEnabled'])).map(k, 'toolkit.cdi.' + k),
    variables.spec_toolkit_image.filter(k, !(k in ['pullPolicy','repository','tag'])).map(k, 'toolkit.image.' + k),
    variables.spec_toolkit[?'imagePullSecrets'].optMap(l, type(l) == list ? l : dyn([])).orValue(dyn([])).filter(i, type(i) == map).map(i, i.filter(k, !(k in ['name'])).map(k, 'toolkit.imagePullSecrets[].' + k).join(', ')).filter(s, s != ''),
    variables.spec_toolkit_metrics.filter(k, !(k in ['localhost','port','service','tls'])).map(k, 'toolkit.metrics.' + k),
    variables.spec_toolkit_metrics_service.filter(k, !(k in ['annotations','enabled','labels'])).map(k, 'toolkit.metrics.service.' + k),
    variables.spec_toolkit_metrics_tls.filter(k, !(k in ['secretName'])).map(k, 'toolkit.metrics.tls.' + k),
    variables.spec_toolkit_networkPolicy.filter(k, !(k in ['enabled','from'])).map(k, 'toolkit.networkPolicy.' + k),
    variables.spec_toolkit_rbac.filter(k, !(k in ['create'])).map(k, 'toolkit.rbac.' + k),
    variables.spec_toolkit_runtime.filter(k, !(k in ['config','configure','dropInConfig','enableCDI','engine','name','restartMode','setAsDefault','socket'])).map(k, 'toolkit.runtime.' + k),
    variables.spec_toolkit_runtimeClass.filter(k, !(k in ['create'])).map(k, 'toolkit.runtimeClass.' + k),
    variables.spec_toolkit_serviceAccount.filter(k, !(k in ['annotations','create','name'])).map(k, 'toolkit.serviceAccount.' + k),
    variables.spec_validator.filter(k, !(k in ['affinity','args','cuda','driver','enabled','env','global','hostNetwork','image','imagePullPolicy','imagePullSecrets','nameOverride','namespaceOverride','nodeSelector','outrigger-common','plugin','podAnnotations','podLabels','priorityClassName','repository','resources','startupTaint','timeoutSeconds','tolerations','toolkit','version','vfioPCI','vgpuDevices','vgpuManager'])).map(k, 'validator.' + k),
    variables.spec_validator_driver.filter(k, !(k in ['enabled','env','nodes','report','runtimeClassName'])).map(k, 'validator.driver.' + k),
    variables.spec_validator_image.filter(k, !(k in ['pullPolicy','repository','tag'])).map(k, 'validator.image.' + k),
    variables.spec_validator[?'imagePullSecrets'].optMap(l, type(l) == list ? l : dyn([])).orValue(dyn([])).filter(i, type(i) == map).map(i, i.filter(k, !(k in ['name'])).map(k, 'validator.imagePullSecrets[].' + k).join(', ')).filter(s, s != ''),
    variables.spec_validator_plugin.filter(k, !(k in ['enabled','env','nodes','resource','runtimeClassName'])).map(k, 'validator.plugin.' + k)].filter(l, l.size() > 0).map(l, l.join(', '))
{{- end -}}
