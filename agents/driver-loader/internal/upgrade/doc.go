// Package upgrade upgrades the driver of a node with running work. It waits for a grant, moves the
// work away, lets the loader swap the driver, and makes the node schedulable again, even after a
// failure.
//
// Next derives the next Action from a Journal and an Observation, and After derives the next Journal
// from the Result. Both are pure. Upgrade is the loop around them. The states, labels and annotations
// have the names of NVIDIA's upgrade controller.
//
// The agent wires it in this way:
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
// While a driver is loaded that is not the desired one, only the methods of Driver change it. On a
// node without a driver, the loader loads the driver that Journal.Driver returns. While
// Journal.State.Changing returns true, the loader does nothing.
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
