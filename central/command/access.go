package command

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/ironyard/ironyard/central/auth"
	"github.com/ironyard/ironyard/central/daemon"
	"github.com/ironyard/ironyard/protocol/secretfile"
)

// access is who may use the API.
type access struct {
	Auth          []string `help:"How callers say who they are, asked in order: noauth (everybody administers), http_basic, oidc, keystone; may be repeated." enum:"noauth,http_basic,oidc,keystone" default:"noauth" env:"CENTRAL_AUTH" group:"Access"`
	Htpasswd      string   `help:"http_basic: file of users, bcrypt only, as 'htpasswd -B' writes it. All administer. Read again when it changes." type:"path" env:"CENTRAL_HTPASSWD" group:"Access"`
	AuthCA        string   `help:"Authorities, PEM, of the issuer's and Keystone's certificates. Default: the system's." name:"auth-ca" type:"existingfile" placeholder:"FILE" env:"CENTRAL_AUTH_CA" group:"Access"`
	Policy        string   `help:"File that replaces default rules, YAML or JSON, with Ironic's names and oslo.policy's expressions. Read again when it changes." type:"path" env:"CENTRAL_POLICY" group:"Access"`
	NoSelfService bool     `help:"Projects' administrators may not enrol and delete nodes of their own." env:"CENTRAL_NO_SELF_SERVICE" group:"Access"`

	OIDCIssuer   string   `help:"oidc: URL of the issuer, as tokens name it." name:"oidc-issuer" env:"CENTRAL_OIDC_ISSUER" placeholder:"URL" group:"Access"`
	OIDCAudience string   `help:"oidc: the audience that tokens must be made for." name:"oidc-audience" env:"CENTRAL_OIDC_AUDIENCE" group:"Access"`
	OIDCKeys     string   `help:"oidc: URL of the issuer's keys (JWKS). Default: what its discovery document says." name:"oidc-keys" env:"CENTRAL_OIDC_KEYS" placeholder:"URL" group:"Access"`
	OIDCUser     string   `help:"oidc: claim with the user's name." name:"oidc-user-claim" default:"preferred_username" env:"CENTRAL_OIDC_USER_CLAIM" group:"Access"`
	OIDCProject  string   `help:"oidc: claim with the project, which nodes' owner and lessee are compared with." name:"oidc-project-claim" default:"project_id" env:"CENTRAL_OIDC_PROJECT_CLAIM" group:"Access"`
	OIDCSystem   string   `help:"oidc: claim that says 'all' for callers of the system; without effect where there are grants." name:"oidc-system-claim" default:"system_scope" env:"CENTRAL_OIDC_SYSTEM_CLAIM" group:"Access"`
	OIDCRoles    string   `help:"oidc: claim with roles or groups; dots lead into objects: realm_access.roles." name:"oidc-roles-claim" default:"roles" env:"CENTRAL_OIDC_ROLES_CLAIM" group:"Access"`
	OIDCGrant    []string `help:"oidc: role for who has a value among their roles or groups; may be repeated. Without any, the values are roles themselves." name:"oidc-grant" env:"CENTRAL_OIDC_GRANTS" sep:";" placeholder:"VALUE=system|project:ROLE" group:"Access"`

	KeystoneURL           string        `help:"keystone: its URL." name:"keystone-url" env:"CENTRAL_KEYSTONE_URL" placeholder:"URL" group:"Access"`
	KeystonePublicURL     string        `help:"keystone: the URL that clients are told. Default: the same." name:"keystone-public-url" env:"CENTRAL_KEYSTONE_PUBLIC_URL" placeholder:"URL" group:"Access"`
	KeystoneUser          string        `help:"keystone: account that may validate tokens." name:"keystone-user" default:"ironic" env:"CENTRAL_KEYSTONE_USER" group:"Access"`
	KeystoneUserDomain    string        `help:"keystone: its domain." name:"keystone-user-domain" default:"Default" env:"CENTRAL_KEYSTONE_USER_DOMAIN" group:"Access"`
	KeystonePasswordFile  string        `help:"keystone: file with its password." name:"keystone-password-file" type:"existingfile" placeholder:"FILE" env:"CENTRAL_KEYSTONE_PASSWORD_FILE" group:"Access"`
	KeystoneProject       string        `help:"keystone: project that it acts in; empty: it acts on the system." name:"keystone-project" env:"CENTRAL_KEYSTONE_PROJECT" group:"Access"`
	KeystoneProjectDomain string        `help:"keystone: the project's domain." name:"keystone-project-domain" default:"Default" env:"CENTRAL_KEYSTONE_PROJECT_DOMAIN" group:"Access"`
	KeystoneRemember      time.Duration `help:"keystone: how long a token counts as good without asking again, and so how long a revoked one works." name:"keystone-remember" default:"5m" env:"CENTRAL_KEYSTONE_REMEMBER" group:"Access"`
	ServiceProject        string        `help:"Name of the project whose role 'service' acts on the system, such as Nova's; empty: none." env:"CENTRAL_SERVICE_PROJECT" group:"Access"`
}

func (a *access) config(log *slog.Logger) (daemon.Access, error) {
	out := daemon.Access{Strategies: a.Auth, Htpasswd: a.Htpasswd, CAFile: a.AuthCA, PolicyFile: a.Policy, ServiceProject: a.ServiceProject, NoSelfService: a.NoSelfService,
		OIDC: auth.OIDCConfig{Issuer: a.OIDCIssuer, Audience: a.OIDCAudience, KeysURL: a.OIDCKeys,
			Claims: auth.Claims{User: a.OIDCUser, Project: a.OIDCProject, System: a.OIDCSystem, Roles: a.OIDCRoles}},
		Keystone: auth.KeystoneConfig{URL: a.KeystoneURL, PublicURL: a.KeystonePublicURL, Username: a.KeystoneUser, UserDomain: a.KeystoneUserDomain,
			Project: a.KeystoneProject, ProjectDomain: a.KeystoneProjectDomain, Remember: a.KeystoneRemember}}
	for _, text := range a.OIDCGrant {
		g, err := auth.ParseGrant(text)
		if err != nil {
			return out, err
		}
		out.OIDC.Claims.Grants = append(out.OIDC.Claims.Grants, g)
	}
	if a.KeystoneRemember < 0 {
		return out, errors.New("keystone-remember cannot be negative")
	}
	if a.KeystonePasswordFile != "" {
		text, err := secretfile.Read(a.KeystonePasswordFile, log)
		if err != nil {
			return out, fmt.Errorf("password for Keystone: %w", err)
		}
		out.Keystone.Password = strings.TrimSpace(string(text))
	}
	return out, nil
}
