package join

import "time"

// Where central takes requests; both are POST with JSON.
const (
	EnrolPath = "/v1/ironyard/enrol"
	RenewPath = "/v1/ironyard/enrol/renew"
)

// CentralName is the name in the certificates that the fleet's authority makes for
// central, wherever central runs.
const CentralName = "central.ironyard.internal"

// MaxBody bounds a request and an answer.
const MaxBody = 256 << 10

// Request asks to become a member.
type Request struct {
	Token  string `json:"token"` // its id
	Secret string `json:"secret"`
	// Name is the rackd's where the token leaves it open.
	Name string `json:"name,omitempty"`
	// CSR is a certificate request, PEM. Only its key counts: subject and names are
	// central's to say.
	CSR string `json:"csr"`
	// UserKey is the public half of the NATS user key that the joiner made.
	UserKey string `json:"user_key"`
	// RouteCSR is a server's, for the key that it shows to the others of its cluster.
	RouteCSR string `json:"route_csr,omitempty"`
}

// Renewal asks for a certificate and credentials that last longer.
type Renewal struct {
	// Certificate is the member's present one, PEM.
	Certificate string `json:"certificate"`
	CSR         string `json:"csr"`
	// RouteCSR is as a Request's. The key stays while the member belongs: others of its
	// cluster know it.
	RouteCSR string `json:"route_csr,omitempty"`
	// Challenge is the one in central's refusal of this renewal without one. Only a renewal
	// with a challenge is granted, so a renewal that was recorded is worth nothing.
	Challenge string `json:"challenge,omitempty"`
	// Signature of Statement by the present certificate's key, in base64: reading a
	// certificate is not enough to renew it.
	Signature string `json:"signature"`
}

// Statement is what a renewal signs. Without a challenge it is as centrals before
// challenges read it.
func (r Renewal) Statement() []byte {
	if r.Challenge == "" {
		return []byte("ironyard renewal\x00" + r.Certificate + "\x00" + r.CSR)
	}
	return []byte("ironyard renewal 2\x00" + r.Challenge + "\x00" + r.Certificate + "\x00" + r.CSR + "\x00" + r.RouteCSR)
}

// Grant is what a member gets.
type Grant struct {
	Member string `json:"member"` // its id
	Scope  Scope  `json:"scope"`
	// Certificate is the member's and Authority that of the fleet, PEM.
	Certificate string    `json:"certificate"`
	Authority   string    `json:"authority"`
	Expires     time.Time `json:"expires"`
	// RouteCertificate is a server's for the key of its RouteCSR, PEM.
	RouteCertificate string `json:"route_certificate,omitempty"`
	// RenewSeconds is when to renew next, where there will soon be something new; 0: as usual.
	RenewSeconds int `json:"renew_s,omitempty"`
	// UserJWT says what the member may do on the bus: a rackd at its site's servers, a
	// site's server at the hub.
	UserJWT string `json:"user_jwt,omitempty"`
	// Servers are the addresses of the site's NATS servers, Hubs those of the hub's;
	// members that are to come are among them.
	Servers []string `json:"servers,omitempty"`
	Hubs    []string `json:"hubs,omitempty"`
	// Keys is a rackd's key file, as seal.ParseKeyring reads it.
	Keys string `json:"keys,omitempty"`
	// Trust is what a NATS server must know; nil for a rackd.
	Trust *Trust `json:"trust,omitempty"`
}

// Trust is what a NATS server goes by when others connect to it.
type Trust struct {
	Operator string `json:"operator"` // JWT
	// System is the system account's JWT, Site and Rackds are those of a site's two
	// accounts; a hub learns of sites' accounts from central.
	System string `json:"system"`
	Site   string `json:"site,omitempty"`
	Rackds string `json:"rackds,omitempty"`
	// ClusterPassword is what servers of one cluster show each other: a certificate of
	// the fleet, which rackds have too, is not enough there.
	ClusterPassword string `json:"cluster_password"`
	// ClusterPasswordBefore is shown to servers that may not have the new one yet. It is
	// never accepted. Empty when all have it.
	ClusterPasswordBefore string `json:"cluster_password_before,omitempty"`
	// RouteKeys are the hex SHA-256 of the public keys (SubjectPublicKeyInfo) of the
	// cluster's servers: others get no route. Empty: not all servers have such a key.
	RouteKeys []string `json:"route_keys,omitempty"`
}

// Failure is the answer when a request is refused.
type Failure struct {
	Error string `json:"error"`
	// Challenge, if not empty, is what a renewal must sign, too, to be granted.
	Challenge string `json:"challenge,omitempty"`
}
