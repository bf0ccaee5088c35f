# make demo   two machines go from powered off to running; does its own set-up
# make test   everything there is to test; does its own set-up
# make help   the rest
SHELL := /bin/sh
GO ?= go
CACHE ?= $(CURDIR)/.cache
export IRONYARD_CACHE := $(CACHE)
# One set of flags for all that is built here, by vet, staticcheck and the tests too: Go compiles each package
# anew for each set.
export CGO_ENABLED := 0
export GOFLAGS := $(filter-out -trimpath,$(shell $(GO) env GOFLAGS)) -trimpath
# The tools that judge the code are dependencies of a module of their own.
TOOL := $(GO) tool -modfile=ops/tools/go.mod
FUZZTIME ?= 5s
CHAOS ?= 10m
CHAOS_SEED ?=

.PHONY: help demo check test build lint unit unraced race versions e2e attack hardware recordings boot tempest python-agent kickstart sushy-tools chaos fuzz bench docs grammar clean packages-build packages-rack packages-test packages-hardware packages-bench packages-tempest packages-python-agent

help:
	@echo "make demo    boot two virtual machines from nothing to a running system (root; Debian)"
	@echo "make check   lint and unit: before each commit, five minutes, and seven where nothing is cached"
	@echo "make test    lint, all unit tests (under the race detector where it can watch), grammar, fuzz seeds and the virtual rack (root; Debian)"
	@echo "make build   the four programs, into bin/"
	@echo "make unit    go test ./...: minutes less than make test"
	@echo "make e2e     the virtual rack's tests alone"
	@echo "make attack  the attackers' tests whole, with a table of who reached what; the quick part is in make e2e (root)"
	@echo "make hardware  disks that fail, lie and come late, whole, the ramdisk's boots, partition images, volumes, media, rescues, a deploy on arm64, firmware told by a BMC, a page in a browser and each request to a BMC of IPMI and to a PDU of SNMP that comes to grief: about an hour (docs/disks.md)"
	@echo "make recordings  what the redfish driver reads of real BMCs, from recorded answers (RECORDINGS=FOLDER)"
	@echo "make boot    each pair of boot and deploy interface on firmware, and a rescue by each, with its time: more than an hour"
	@echo "make versions  programs of two versions beside each other, in either order: some minutes"
	@echo "make tempest OpenStack's black-box suite of the API, with a real Keystone: some minutes (docs/clients.md)"
	@echo "make python-agent  ironic-python-agent on virtual machines, and playbooks that deploy them: half an hour and more (docs/clients.md)"
	@echo "make kickstart  the kickstarts that rackd serves, judged by pykickstart's validator (docs/installers.md)"
	@echo "make sushy-tools  the redfish driver on the machine of OpenStack's emulator (docs/hardware.md)"
	@echo "make chaos   a small fleet with everything breaking at random, for CHAOS=10m; then clocks that step and hosts that pause; CHAOS_SEED=N repeats a run"
	@echo "make lint    gofmt, vet, staticcheck, unread errors, open bodies, dead code, the import table"
	@echo "make bench   what is claimed about speed, measured: some 90 minutes (docs/benchmarks.md)"
	@echo "make fuzz    each fuzz test for FUZZTIME=$(FUZZTIME)"
	@echo "make docs    the generated pages"

packages-build packages-rack packages-test packages-hardware packages-bench packages-tempest packages-python-agent:
	@ops/setup/packages.sh $(@:packages-%=%)

build: packages-build
	@mkdir -p bin
	$(GO) build -o bin/ ./central ./rackd ./ops/ironyard
	$(GO) build -ldflags '-s -w' -o bin/agent ./agent

demo: packages-rack build
	bin/ironyard demo --cache $(CACHE)

# The race detector watches all tests that it can, so each runs once here. make unit runs them without it.
# Most packages are installed beside lint, which needs only those of a build. The other parts are run one by one: each keeps the processors busy.
test: packages-build
	@$(MAKE) --no-print-directory -j 2 packages-test lint STATICCHECKED='$(RACED)'
	@$(MAKE) --no-print-directory -j 1 unraced race grammar e2e
	@if [ -z "$$COCKROACH_URL$$COCKROACH_BINARY" ]; then echo "not run: the store's suite on a real CockroachDB (set COCKROACH_URL or COCKROACH_BINARY)"; fi
	@echo "make test: all parts passed"

check: lint unit

# Staticcheck compiles all tests, too. In make test that is the compiling of race (STATICCHECKED), and the rest is judged apart. It collects
# garbage twice as often as other programs unless it is told.
STATICCHECK = GOGC=300 $$($(TOOL) -n staticcheck) -checks all,-ST1000,-ST1003,-ST1020,-ST1021,-ST1022

lint:
	@out=$$(gofmt -l central rackd agent protocol ops e2e dashboards); [ -z "$$out" ] || { echo "gofmt: $$out"; exit 1; }
	ops/tools/vet.sh
	$(STATICCHECKED) $(STATICCHECK) ./...
	$(STATICCHECK) $$(ops/tools/unraced.sh | cut -d ' ' -f 2-)
	ops/tools/deadcode.sh
	$(GO) test ./ops/lint

# lint has vetted everything, with more than go test's share of vet. Many tests wait for leases and beats to run
# out: two packages a processor keep it busy. Under the race detector they would be too late for bounds of theirs.
unit:
	$(GO) test -vet=off -p $$((2 * $$(nproc))) ./...

# unraced.sh names the tests that the race detector leaves out, by //go:build !race: what measures memory or counts much.
unraced:
	$(GO) test -vet=off $$($(GO) list ./... | grep -E '/ironyard/($(UNRACED))$$')
	$(GO) test -vet=off $$(ops/tools/unraced.sh)

# These run nothing here that could race: the first runs go list, the others wait for IRONYARD_E2E or IRONYARD_TEMPEST.
UNRACED := ops/lint|e2e/(bench|model|scenario|clients|clients/pythonagent|clients/tempest)

# The race detector is C. Three packages at once: many of them wait half of the time. It does not watch inside SQLite, which is C
# translated to Go and starts nothing at once: the store's users take a quarter of the time so (decision 149).
RACED := CGO_ENABLED=1 GOFLAGS="$(GOFLAGS) -race -gcflags=modernc.org/...=-race=false"
race:
	$(RACED) $(GO) test -vet=off -p 3 $$($(GO) list ./... | grep -vE '/ironyard/($(UNRACED))$$')

grammar:
	cd central/store/crdbgrammar && $(GO) test ./...

# The packages that look for IRONYARD_E2E (ops/lint holds this list to them), those that take longest first.
# Four at once: faults, places, fleet and snmp mostly wait, and the virtual machines of the others compute.
E2E := e2e/faults e2e/faults/places e2e/scenario ops/virtual/fleet rackd/netboot rackd/driver/snmp e2e/clients e2e/consoles rackd/bootmedium rackd/paramdisk rackd/netboot/mediaweb e2e/attack rackd/driver/irmc rackd/driver/ilo rackd/driver/ilo/ribcl rackd/driver/wol e2e/disks e2e/links ops/ramdisk ops/uki central/retention e2e/model ops/virtual/testimage ops/virtual/machine ops/virtual/ipmisim rackd/driver/libvirt rackd/driver/ssh rackd/driver/ucs rackd/driver/ansible rackd/configdrive rackd/iscsi rackd/driver/iscsideploy rackd/ociimage ops/command agent/container dashboards ops/virtual/vbmc e2e/clients/pythonagent

e2e: packages-test build
	IRONYARD_E2E=1 $(GO) test -vet=off -timeout 30m -count 1 -p 4 $(E2E:%=./%)

# make e2e runs all but what takes long, and prints the table when a line is over.
attack: packages-test
	IRONYARD_E2E=1 IRONYARD_ATTACK=long $(GO) test -vet=off -timeout 30m -count 1 -v ./e2e/attack
	ops/setup/fuzz.sh $(FUZZTIME)

# make e2e runs what needs no long wait.
hardware: packages-hardware build
	bin/ironyard ramdisk build --kernel cloud --cache $(CACHE)/kernel $(CACHE)/ramdisk
	IRONYARD_E2E=1 IRONYARD_HARDWARE=1 $(GO) test -vet=off -timeout 30m -count 1 -v ./e2e/disks ./ops/ramdisk ./ops/virtual/machine ./ops/virtual/testimage ./e2e/iscsi ./rackd/bootmedium ./rackd/imagecache
	IRONYARD_E2E=1 IRONYARD_HARDWARE=1 $(GO) test -vet=off -timeout 75m -count 1 -v -run "ByIPMI|Medi|HTTPBoot|Rescue|OwnerDies|LongHeartbeat|ByISCSI|Partition|Ramdisk|Volume|SecureBoot|IPv6|DualStack|Networks|ProgramOverPXE|ShimAndGRUB|ARM64|Parameters" ./e2e/scenario
	bin/ironyard ramdisk build --arch arm64 --kernel cloud --uki --cache $(CACHE)/kernel $(CACHE)/arm64
	IRONYARD_E2E=1 IRONYARD_HARDWARE=1 $(GO) test -vet=off -timeout 60m -count 1 -v -run "Volumes|Loaders|BootsItsDisk|FirmwareBesideDnsmasq|FirmwareOfARM64|UNDI|IPv6|DualStack|LoadsTheProgram" ./rackd/netboot
	IRONYARD_E2E=1 IRONYARD_HARDWARE=1 $(GO) test -vet=off -timeout 10m -count 1 -v -run InABrowser ./e2e/consoles
	IRONYARD_E2E=1 IRONYARD_HARDWARE=1 $(GO) test -vet=off -timeout 30m -count 1 -parallel 4 -run TestDriverConforms ./ops/virtual/ipmisim
	IRONYARD_E2E=1 IRONYARD_HARDWARE=1 $(GO) test -vet=off -timeout 30m -count 1 -v -run TestConformance ./rackd/driver/ipmi ./rackd/driver/snmp ./rackd/driver/redfish

# What is read of real BMCs, from their recorded answers: RECORDINGS is a folder with a NAME.jsonl.gz for each, a resource a line, or with a
# folder NAME for each, as DMTF's Redfish-Mockup-Creator writes them.
recordings:
	@[ -d "$(RECORDINGS)" ] || { echo "give RECORDINGS=FOLDER"; exit 2; }
	IRONYARD_RECORDINGS="$(abspath $(RECORDINGS))" $(GO) test -vet=off -count 1 -v -run Recorded ./rackd/driver/redfish

# Each pair of boot and deploy interface that firmware here can show, and a rescue by each boot interface, with its time.
boot: packages-hardware build
	IRONYARD_E2E=1 IRONYARD_BOOT=1 $(GO) test -vet=off -timeout 150m -count 1 -v -run "TestEveryPairBoots|TestInstallerFails|TestContainerFails|TestOwnerDiesDuringAContainer|TestVolumeOfAnILOByCHAP|TestTimeToTheRamdisk" ./e2e/scenario

versions:
	IRONYARD_VERSIONS=1 $(GO) test -vet=off -timeout 10m -count 1 -v ./e2e/versions

# With IRONYARD_OPENSTACK_ROOT the programs are those of the Debian in that folder.
tempest:
	@[ -n "$$IRONYARD_OPENSTACK_ROOT" ] || ops/setup/packages.sh tempest
	IRONYARD_TEMPEST=1 $(GO) test -timeout 30m -count 1 -v ./e2e/clients/tempest

python-agent: packages-test packages-python-agent build
	bin/ironyard ramdisk build --kernel cloud --cache $(CACHE)/kernel $(CACHE)/ramdisk
	e2e/clients/pythonagent/ramdisk.sh $(CACHE)/python-agent $(CACHE)
	IRONYARD_E2E=1 IRONYARD_CACHE=$(CACHE) IRONYARD_PYTHON_AGENT=$(CACHE)/python-agent $(GO) test -timeout 3h -count 1 -v ./e2e/clients/pythonagent

# pykickstart is in none of Debian 12's packages: IRONYARD_PYKICKSTART is a checkout of its repository.
kickstart:
	@[ -d "$$IRONYARD_PYKICKSTART" ] || { echo "set IRONYARD_PYKICKSTART to a checkout of pykickstart, whose validator judges the kickstarts that rackd serves"; exit 1; }
	$(GO) test -vet=off -count 1 -v -run TestKickstartsAreValid ./rackd/daemon

# sushy-tools is in none of Debian 12's packages: IRONYARD_SUSHY_TOOLS is a checkout of its repository. Its libraries are Debian's.
sushy-tools:
	@[ -d "$$IRONYARD_SUSHY_TOOLS" ] || { echo "set IRONYARD_SUSHY_TOOLS to a checkout of sushy-tools, and install python3-flask, python3-webob, python3-tenacity and python3-bcrypt"; exit 1; }
	$(GO) test -vet=off -count 1 -v -run TestSushyTools ./rackd/driver/redfish

chaos: packages-test
	IRONYARD_E2E=1 IRONYARD_CHAOS=$(CHAOS) IRONYARD_CHAOS_SEED=$(CHAOS_SEED) $(GO) test -timeout 0 -count 1 -v -run 'TestChaos|TestHostPaused|TestBusLosses|TestZombie' ./e2e/faults
	IRONYARD_E2E=1 IRONYARD_CHAOS=$(CHAOS) $(GO) test -timeout 0 -count 1 -v -run TestClocksStep ./e2e/faults
	IRONYARD_E2E=1 IRONYARD_CHAOS=$(CHAOS) $(GO) test -timeout 0 -count 1 -v -run 'TestEveryPlace|TestBadBMCs|TestBadIPMI' ./e2e/faults/places

fuzz:
	ops/setup/fuzz.sh $(FUZZTIME)

bench: packages-bench
	$(GO) test -run '^$$' -bench . -skip Ramdisk -benchtime 1s -timeout 60m ./central/... ./rackd/... ./agent/... ./protocol/... ./e2e/bench/...
	IRONYARD_BENCH_MIB=2048 $(GO) test -run '^$$' -bench Ramdisk -benchtime 1x -timeout 90m -v ./e2e/bench

docs:
	UPDATE_DOCS=1 $(GO) test -count 1 ./protocol/provision ./protocol/permit ./rackd/daemon ./rackd/drivers ./rackd/conductor ./central/metrics ./central/api ./ops/site ./e2e/fields

clean:
	rm -rf bin .cache
