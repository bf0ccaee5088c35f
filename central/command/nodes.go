package command

import (
	"github.com/ironyard/ironyard/central/api"
	"github.com/ironyard/ironyard/central/daemon"
	"github.com/ironyard/ironyard/central/dispatch"
)

// nodeFlags say what an installation wants of its nodes otherwise than by default.
type nodeFlags struct {
	DefaultResourceClass  string `help:"Resource class of new nodes that are given none." env:"CENTRAL_DEFAULT_RESOURCE_CLASS" placeholder:"CLASS" group:"Nodes"`
	DefaultConductorGroup string `help:"Conductor group of new nodes that are given none." env:"CENTRAL_DEFAULT_CONDUCTOR_GROUP" placeholder:"GROUP" group:"Nodes"`
	MaxConcurrentDeploy   int    `help:"How many nodes may be deployed at once, in the whole fleet; a request for one more gets 503 and may come back. A fuse against mistakes. 0: no bound." default:"0" env:"CENTRAL_MAX_CONCURRENT_DEPLOY" placeholder:"N" group:"Nodes"`
	MaxConcurrentClean    int    `help:"How many nodes may be undeployed or cleaned at once, likewise." default:"0" env:"CENTRAL_MAX_CONCURRENT_CLEAN" placeholder:"N" group:"Nodes"`
	KeepAvailable         bool   `help:"Let nobody delete nodes in available, unless they are in maintenance." env:"CENTRAL_KEEP_AVAILABLE" group:"Nodes"`
}

func (f *nodeFlags) set(c *daemon.Config) {
	c.Nodes = api.NodeSettings{DefaultResourceClass: f.DefaultResourceClass, DefaultConductorGroup: f.DefaultConductorGroup, KeepAvailable: f.KeepAvailable,
		Limits: dispatch.Limits{Deploys: f.MaxConcurrentDeploy, Cleans: f.MaxConcurrentClean}}
}
