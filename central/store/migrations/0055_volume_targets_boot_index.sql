CREATE UNIQUE INDEX volume_targets_boot_index ON volume_targets (boot_index, node)
