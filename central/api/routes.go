package api

// list names the resources that the API consists of, one line each.
func (s *Server) list() []Resource {
	return append([]Resource{
		s.v1Resource(),
		s.nodes(),
		s.nodeStates(),
		s.nodeManagement(),
		s.nodeAdjust(),
		s.nodeRAID(),
		s.nodeIndicators(),
		s.nodeMedia(),
		s.nodeBIOS(),
		s.nodeFirmware(),
		s.nodeVendor(),
		s.nodeTraits(),
		s.nodePorts(),
		s.nodeHistory(),
		s.nodeInventory(),
		s.ports(),
		s.portgroups(),
		s.nodeVIFs(),
		s.nodeChildren(),
		s.shards(),
		s.events(),
		s.volumes(),
		s.chassis(),
		s.allocations(),
		s.nodeAllocation(),
		s.deployTemplates(),
		s.runbooks(),
		s.drivers(),
		s.driverVendor(),
		s.conductors(),
		s.auditRecords(),
		s.notifications(),
	}, s.ramdisk()...)
}
