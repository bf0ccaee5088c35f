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
	Auth          []string `help:"Authentication strategies, tried in order: noauth (every caller is an administrator), http_basic, oidc, keystone. May be repeated." enum:"noauth,http_basic,oidc,keystone" default:"noauth" env:"CENTRAL_AUTH" group:"Access"`
	Htpasswd      string   `help:"http_basic: file of users with bcrypt hashes, as 'htpasswd -B' writes it. Each user is an administrator. The file is read again when it changes." type:"path" env:"CENTRAL_HTPASSWD" group:"Access"`
	AuthCA        string   `help:"PEM file of the authorities for the certificates of the issuer and of Keystone. Default: the system's." name:"auth-ca" type:"existingfile" placeholder:"FILE" env:"CENTRAL_AUTH_CA" group:"Access"`
	Policy        string   `help:"YAML or JSON file that replaces default policy rules, with Ironic's names and oslo.policy's expressions. The file is read again when it changes." type:"path" env:"CENTRAL_POLICY" group:"Access"`
	NoSelfService bool     `help:"Forbid project administrators to enrol and delete nodes of their own." env:"CENTRAL_NO_SELF_SERVICE" group:"Access"`

	OIDCIssuer   string   `help:"oidc: URL of the issuer, exactly as in the tokens." name:"oidc-issuer" env:"CENTRAL_OIDC_ISSUER" placeholder:"URL" group:"Access"`
	OIDCAudience string   `help:"oidc: audience that tokens must have." name:"oidc-audience" env:"CENTRAL_OIDC_AUDIENCE" group:"Access"`
	OIDCKeys     string   `help:"oidc: URL of the issuer's keys (JWKS). Default: the one in its discovery document." name:"oidc-keys" env:"CENTRAL_OIDC_KEYS" placeholder:"URL" group:"Access"`
	OIDCUser     string   `help:"oidc: claim with the user's name." name:"oidc-user-claim" default:"preferred_username" env:"CENTRAL_OIDC_USER_CLAIM" group:"Access"`
	OIDCProject  string   `help:"oidc: claim with the project. It is compared with the owner and the lessee of nodes." name:"oidc-project-claim" default:"project_id" env:"CENTRAL_OIDC_PROJECT_CLAIM" group:"Access"`
	OIDCSystem   string   `help:"oidc: claim that is 'all' for callers with system scope. It has no effect if grants are set." name:"oidc-system-claim" default:"system_scope" env:"CENTRAL_OIDC_SYSTEM_CLAIM" group:"Access"`
	OIDCRoles    string   `help:"oidc: claim with roles or groups. Dots lead into objects, as in realm_access.roles." name:"oidc-roles-claim" default:"roles" env:"CENTRAL_OIDC_ROLES_CLAIM" group:"Access"`
	OIDCGrant    []string `help:"oidc: role for callers that have a given value among their roles or groups. May be repeated. Without grants the values are the roles." name:"oidc-grant" env:"CENTRAL_OIDC_GRANTS" sep:";" placeholder:"VALUE=system|project:ROLE" group:"Access"`

	KeystoneURL           string        `help:"keystone: its URL." name:"keystone-url" env:"CENTRAL_KEYSTONE_URL" placeholder:"URL" group:"Access"`
	KeystonePublicURL     string        `help:"keystone: URL to tell clients. Default: the same." name:"keystone-public-url" env:"CENTRAL_KEYSTONE_PUBLIC_URL" placeholder:"URL" group:"Access"`
	KeystoneUser          string        `help:"keystone: account with permission to validate tokens." name:"keystone-user" default:"ironic" env:"CENTRAL_KEYSTONE_USER" group:"Access"`
	KeystoneUserDomain    string        `help:"keystone: domain of the account." name:"keystone-user-domain" default:"Default" env:"CENTRAL_KEYSTONE_USER_DOMAIN" group:"Access"`
	KeystonePasswordFile  string        `help:"keystone: file with the password of the account." name:"keystone-password-file" type:"existingfile" placeholder:"FILE" env:"CENTRAL_KEYSTONE_PASSWORD_FILE" group:"Access"`
	KeystoneProject       string        `help:"keystone: project of the account. Empty: system scope." name:"keystone-project" env:"CENTRAL_KEYSTONE_PROJECT" group:"Access"`
	KeystoneProjectDomain string        `help:"keystone: the project's domain." name:"keystone-project-domain" default:"Default" env:"CENTRAL_KEYSTONE_PROJECT_DOMAIN" group:"Access"`
	KeystoneRemember      time.Duration `help:"keystone: time for which a validated token is not checked again. A revoked token works for as long." name:"keystone-remember" default:"5m" env:"CENTRAL_KEYSTONE_REMEMBER" group:"Access"`
	ServiceProject        string        `help:"Name of the project whose role 'service' has system scope, such as Nova's. Empty: none." env:"CENTRAL_SERVICE_PROJECT" group:"Access"`
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
		return out, errors.New("--keystone-remember cannot be negative")
	}
	if a.KeystonePasswordFile != "" {
		text, err := secretfile.Read(a.KeystonePasswordFile, log)
		if err != nil {
			return out, fmt.Errorf("--keystone-password-file: %w", err)
		}
		out.Keystone.Password = strings.TrimSpace(string(text))
	}
	return out, nil
}
