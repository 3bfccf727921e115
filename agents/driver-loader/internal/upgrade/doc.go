// Package upgrade upgrades the driver of a node that has work: it waits for a grant, moves
// the work away, has the driver swapped, and makes the node schedulable again, whether that
// succeeded or not.
//
// Next derives the next Action from a Journal and an Observation, and After the next Journal
// from how it went; both are pure. Upgrade is the loop around them. The states, labels and
// annotations are those of NVIDIA's upgrade controller.
//
// The agent wires it so:
//
//	client, err := kube.New(kube.Config{Node: node, Agent: "driver-loader", Log: log})
//	…
//	up := upgrade.New(upgrade.Config{
//		Client:    client,
//		Events:    kube.NewEvents(client),
//		Driver:    loader, // swaps, validates and rolls back
//		Desired:   func(s upgrade.State) (upgrade.Desired, error) { … loader.Target(s.Active()) … },
//		Moved:     loader.Again,
//		DaemonSet: namespace + "/driver-loader",
//		Board:     kube.Object{API: "v1", Resource: "configmaps", Namespace: namespace, Name: upgrade.BoardName},
//		Journal:   filepath.Join(store, "upgrade.json"),
//		Log:       log,
//	})
//	go events.Run(ctx)
//	err = up.Run(ctx)
//
// While a driver is loaded that is not the desired one, only the methods of Driver change it: the
// loader itself loads a driver on a node that has none, which is that of Journal.Driver, and does
// nothing while Journal.State is Changing.
//
// The role of the agent needs
//
//	nodes                          get, list, watch, patch
//	configmaps (own namespace)     list, watch; of BoardName only
//	events (namespace default)     create
//
// and in all namespaces
//
//	pods                           list
//	pods/eviction                  create
//	resourceclaims                 get
package upgrade
