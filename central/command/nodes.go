package command

import (
	"github.com/ironyard/ironyard/central/api"
	"github.com/ironyard/ironyard/central/daemon"
	"github.com/ironyard/ironyard/central/dispatch"
)

// nodeFlags say what an installation wants of its nodes otherwise than by default.
type nodeFlags struct {
	DefaultResourceClass  string `help:"Default resource class of new nodes." env:"CENTRAL_DEFAULT_RESOURCE_CLASS" placeholder:"CLASS" group:"Nodes"`
	DefaultConductorGroup string `help:"Default conductor group of new nodes." env:"CENTRAL_DEFAULT_CONDUCTOR_GROUP" placeholder:"GROUP" group:"Nodes"`
	MaxConcurrentDeploy   int    `help:"Maximum number of concurrent deploys in the whole fleet, as a fuse against mistakes. A further request gets 503 and may be repeated. 0: no limit." default:"0" env:"CENTRAL_MAX_CONCURRENT_DEPLOY" placeholder:"N" group:"Nodes"`
	MaxConcurrentClean    int    `help:"Maximum number of concurrent undeploys and cleanings in the whole fleet. 0: no limit." default:"0" env:"CENTRAL_MAX_CONCURRENT_CLEAN" placeholder:"N" group:"Nodes"`
	KeepAvailable         bool   `help:"Refuse to delete nodes in the state available, unless they are in maintenance." env:"CENTRAL_KEEP_AVAILABLE" group:"Nodes"`
}

func (f *nodeFlags) set(c *daemon.Config) {
	c.Nodes = api.NodeSettings{DefaultResourceClass: f.DefaultResourceClass, DefaultConductorGroup: f.DefaultConductorGroup, KeepAvailable: f.KeepAvailable,
		Limits: dispatch.Limits{Deploys: f.MaxConcurrentDeploy, Cleans: f.MaxConcurrentClean}}
}
