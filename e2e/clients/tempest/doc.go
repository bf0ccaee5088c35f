// Package tempest runs OpenStack's black-box suite of the bare metal API,
// ironic-tempest-plugin, unchanged, against central with a fleet of fake machines,
// where a Keystone says who asks. It may import central's configuration and ops; it
// runs with IRONYARD_TEMPEST=1 (make tempest), as it takes minutes and many packages.
//
// Everything listens on loopback and ends with the test.
package tempest
