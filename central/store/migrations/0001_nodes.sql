-- Text is never NULL and times are microseconds since 1970, 0 for none, so that
-- every column sorts and pages alike on every engine.
CREATE TABLE nodes (
    uuid TEXT NOT NULL,
    revision BIGINT NOT NULL DEFAULT 1,
    created_at BIGINT NOT NULL DEFAULT 0,

    -- Intent: what operators asked for.
    updated_at BIGINT NOT NULL DEFAULT 0,
    name TEXT NOT NULL DEFAULT '',
    driver TEXT NOT NULL DEFAULT '',
    conductor_group TEXT NOT NULL DEFAULT '',
    resource_class TEXT NOT NULL DEFAULT '',
    owner TEXT NOT NULL DEFAULT '',
    lessee TEXT NOT NULL DEFAULT '',
    description TEXT NOT NULL DEFAULT '',
    shard TEXT NOT NULL DEFAULT '',
    parent_node TEXT NOT NULL DEFAULT '',
    chassis_uuid TEXT NOT NULL DEFAULT '',
    allocation_uuid TEXT NOT NULL DEFAULT '',
    instance_uuid TEXT NOT NULL DEFAULT '',
    instance_name TEXT NOT NULL DEFAULT '',
    interfaces TEXT NOT NULL DEFAULT '',
    driver_info TEXT NOT NULL DEFAULT '',
    properties TEXT NOT NULL DEFAULT '',
    instance_info TEXT NOT NULL DEFAULT '',
    extra TEXT NOT NULL DEFAULT '',
    network_data TEXT NOT NULL DEFAULT '',
    target_raid_config TEXT NOT NULL DEFAULT '',
    automated_clean BOOLEAN,
    disable_power_off BOOLEAN NOT NULL DEFAULT FALSE,
    console_enabled BOOLEAN NOT NULL DEFAULT FALSE,
    protected BOOLEAN NOT NULL DEFAULT FALSE,
    protected_reason TEXT NOT NULL DEFAULT '',
    retired BOOLEAN NOT NULL DEFAULT FALSE,
    retired_reason TEXT NOT NULL DEFAULT '',
    maintenance_set BOOLEAN NOT NULL DEFAULT FALSE,
    maintenance_why TEXT NOT NULL DEFAULT '',
    fault_acked BIGINT NOT NULL DEFAULT 0,
    generation BIGINT NOT NULL DEFAULT 0,
    accepted_state TEXT NOT NULL DEFAULT '',
    accepted_target TEXT NOT NULL DEFAULT '',
    accepted_at BIGINT NOT NULL DEFAULT 0,
    accepted_error TEXT NOT NULL DEFAULT '',
    power_generation BIGINT NOT NULL DEFAULT 0,
    power_target TEXT NOT NULL DEFAULT '',
    inspection_started_at BIGINT NOT NULL DEFAULT 0,

    -- Observation: what racks reported.
    observed_generation BIGINT NOT NULL DEFAULT -1,
    observed_epoch BIGINT NOT NULL DEFAULT 0,
    observed_seq BIGINT NOT NULL DEFAULT 0,
    observed_state TEXT NOT NULL DEFAULT '',
    observed_target TEXT NOT NULL DEFAULT '',
    observed_at BIGINT NOT NULL DEFAULT 0,
    observed_error TEXT NOT NULL DEFAULT '',
    observed_step TEXT NOT NULL DEFAULT '',
    observed_owner TEXT NOT NULL DEFAULT '',
    power_state TEXT NOT NULL DEFAULT '',
    power_at BIGINT NOT NULL DEFAULT 0,
    power_observed_generation BIGINT NOT NULL DEFAULT 0,
    fault_number BIGINT NOT NULL DEFAULT 0,
    observed_fault TEXT NOT NULL DEFAULT '',
    fault_why TEXT NOT NULL DEFAULT '',
    inspection_finished_at BIGINT NOT NULL DEFAULT 0,
    driver_internal_info TEXT NOT NULL DEFAULT '',
    raid_config TEXT NOT NULL DEFAULT '',
    boot_mode TEXT NOT NULL DEFAULT '',
    secure_boot BOOLEAN,
    health TEXT NOT NULL DEFAULT '',

    -- Effective: which of the two holds. A report counts from the generation that
    -- it is about.
    provision_state TEXT GENERATED ALWAYS AS
        (CASE WHEN observed_generation >= generation THEN observed_state ELSE accepted_state END) STORED,
    target_provision_state TEXT GENERATED ALWAYS AS
        (CASE WHEN observed_generation >= generation THEN observed_target ELSE accepted_target END) STORED,
    provision_updated_at BIGINT GENERATED ALWAYS AS
        (CASE WHEN observed_generation >= generation THEN observed_at ELSE accepted_at END) STORED,
    last_error TEXT GENERATED ALWAYS AS
        (CASE WHEN observed_generation >= generation THEN observed_error ELSE accepted_error END) STORED,
    target_power_state TEXT GENERATED ALWAYS AS
        (CASE WHEN power_observed_generation >= power_generation THEN '' ELSE power_target END) STORED,
    maintenance BOOLEAN GENERATED ALWAYS AS
        (maintenance_set OR fault_number > fault_acked) STORED,
    maintenance_reason TEXT GENERATED ALWAYS AS
        (CASE WHEN fault_number > fault_acked THEN fault_why ELSE maintenance_why END) STORED,
    fault TEXT GENERATED ALWAYS AS
        (CASE WHEN fault_number > fault_acked THEN observed_fault ELSE '' END) STORED,

    CONSTRAINT nodes_pkey PRIMARY KEY (uuid)
)
