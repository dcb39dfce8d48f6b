package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"tallystick/pkg/events"
)

func (e *environment) adminCommand() *cobra.Command {
	return group("admin", "People who administer one org",
		"  tallystick admin add --org acme --name ada --reason 'runs the night shift'\n"+
			"  TALLY_TOKEN=tly_… tallystick agent list --org acme --url nats://…   # as that admin",
		e.adminAdd(), e.adminList(), e.adminSet(), e.adminNamed("remove", events.AdminAdminRemove,
			"Remove an admin, from its next request on; an org's last one stays", e.showAdmin),
		e.adminNamed("rotate", events.AdminAdminRotate, "Replace an admin's token; the old one ends", e.showAdminToken))
}

type adminRow struct {
	Admin     string `json:"admin"`
	Org       string `json:"org"`
	Name      string `json:"name"`
	Role      string `json:"role"`
	Active    bool   `json:"active"`
	Token     string `json:"token"`
	CreatedAt string `json:"created_at"`
	TokenHint string `json:"token_hint"`
}

func (a adminRow) state() string {
	if a.Active {
		return "active"
	}
	return "removed"
}

// showAdminToken shows a fresh token: the only time that anybody sees it.
func (e *environment) showAdminToken(body []byte) error {
	a, err := decode[adminRow](body)
	if err != nil {
		return err
	}
	t := newTable(e.out)
	t.row("admin", a.Admin)
	t.row("org", a.Org)
	t.row("name", a.Name)
	t.row("role", a.Role)
	t.row("token", a.Token)
	if err := t.flush(); err != nil {
		return err
	}
	e.note("The token is shown this once: only its hash is stored.")
	return nil
}

func (e *environment) showAdmin(body []byte) error {
	a, err := decode[adminRow](body)
	if err != nil {
		return err
	}
	t := newTable(e.out, "ADMIN", "NAME", "ROLE", "STATE")
	t.row(a.Admin, a.Name, a.Role, a.state())
	return t.flush()
}

func checkRole(role string) error {
	if !slices.Contains(events.Roles(), role) {
		return usagef("--role %q: want admin, viewer or auditor", role)
	}
	return nil
}

func (e *environment) adminAdd() *cobra.Command {
	var org, name, role string
	c := &cobra.Command{
		Use: "add --org ORG --name NAME", Short: "Add an admin and print its token once; again: a fresh token",
		Example: "  tallystick admin add --org acme --name audit --role viewer -o json > audit.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkRole(role); err != nil {
				return err
			}
			return e.admin(cmd, events.AdminAdminAdd, "", map[string]any{"org": org, "name": name, "role": role}, e.showAdminToken)
		},
	}
	f := c.Flags()
	f.StringVar(&org, "org", "", "`ORG`")
	f.StringVar(&name, "name", "", "`NAME` for people, one admin each")
	f.StringVar(&role, "role", events.RoleAdmin, "admin; viewer who only looks; or auditor who reads the ledger and its checkpoints alone")
	require(c, "org", "name")
	return c
}

func (e *environment) adminList() *cobra.Command {
	var org string
	c := &cobra.Command{
		Use: "list --org ORG", Short: "List an org's admins", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.admin(cmd, events.AdminAdminList, "", map[string]any{"org": org}, func(body []byte) error {
				list, err := decode[struct{ Admins []adminRow }](body)
				if err != nil {
					return err
				}
				t := newTable(e.out, "ADMIN", "NAME", "ROLE", "STATE", "TOKEN", "CREATED")
				for _, a := range list.Admins {
					t.row(a.Admin, a.Name, a.Role, a.state(), a.TokenHint, a.CreatedAt)
				}
				return t.flush()
			})
		},
	}
	c.Flags().StringVar(&org, "org", "", "`ORG`")
	require(c, "org")
	return c
}

func (e *environment) adminSet() *cobra.Command {
	var org, admin, role string
	c := &cobra.Command{
		Use: "set --org ORG --admin ADMIN --role ROLE", Short: "Promote or demote an admin; an org's last one stays",
		Args: oneOrFlag(&admin, "admin"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkRole(role); err != nil {
				return err
			}
			return e.admin(cmd, events.AdminAdminSet, "", map[string]any{"org": org, "admin": admin, "role": role}, e.showAdmin)
		},
	}
	f := c.Flags()
	f.StringVar(&org, "org", "", "`ORG`")
	f.StringVar(&admin, "admin", "", "`ADMIN` id")
	f.StringVar(&role, "role", "", "admin, viewer or auditor")
	require(c, "org", "role")
	return c
}

func (e *environment) adminNamed(use, verb, short string, show func([]byte) error) *cobra.Command {
	var org, admin string
	c := &cobra.Command{
		Use: use + " --org ORG --admin ADMIN", Short: short, Args: oneOrFlag(&admin, "admin"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.admin(cmd, verb, "", map[string]any{"org": org, "admin": admin}, show)
		},
	}
	f := c.Flags()
	f.StringVar(&org, "org", "", "`ORG`")
	f.StringVar(&admin, "admin", "", "`ADMIN` id")
	require(c, "org")
	return c
}
