// Package replicas holds the tests of what several replicas of central on one
// PostgreSQL and one bus must hold, whatever happens to one of them or to the database:
// no request that was answered 2xx is lost, none is carried out twice, every event is
// applied once, and a request that cannot be accepted says so (503) and changes nothing.
//
// It has no code of its own and may import all of central and protocol. The replicas are
// processes (the test binary itself), so that they can be killed as such; the rackd and
// the clients are the test's.
package replicas
