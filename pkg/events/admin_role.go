package events

import (
	"slices"
	"unicode"
	"unicode/utf8"
)

// Roles of an org's admins.
const (
	RoleAdmin   = "admin"
	RoleViewer  = "viewer"
	RoleAuditor = "auditor"
)

// Roles lists them.
func Roles() []string { return []string{RoleAdmin, RoleViewer, RoleAuditor} }

// ByOperator is who acts with the installation's own token; admins act as
// their id. ByRegistrar is the registrar's own doing, such as a policy that it
// applies again and that nobody is on record for.
const (
	ByOperator  = "operator"
	ByRegistrar = "registrar"
)

// MaxReasonBytes bounds HeaderReason.
const MaxReasonBytes = 256

// CheckReason explains what is wrong with a HeaderReason, or gives nil; an
// empty one is none.
func CheckReason(v string) *Error {
	if len(v) > MaxReasonBytes || !utf8.ValidString(v) || slices.ContainsFunc([]rune(v), unicode.IsControl) {
		return InvalidArgument(HeaderReason, "the reason must be at most 256 bytes of UTF-8 without control characters", "")
	}
	return nil
}

// RoleVerbs are the verbs that a role gives inside the admin's own org. What
// concerns an installation, org_create, org_set and rebuild, is in no role.
//
// An auditor reads what happened, and nothing of who and what there is.
func RoleVerbs(role string) []string {
	auditor := []string{AdminLedger, AdminCheckpoint}
	viewer := []string{
		AdminOrgShow, AdminPoolShow, AdminAgentList, AdminAgentShow, AdminAdminList, AdminPipelineList,
		AdminPrincipalList, AdminPrincipalShow, AdminPrincipalBalance, AdminReconcile,
	}
	viewer = append(viewer, auditor...)
	switch role {
	case RoleAuditor:
		return auditor
	case RoleViewer:
		return viewer
	case RoleAdmin:
		return append(viewer, AdminPoolCreate, AdminPoolSet, AdminPoolFreeze, AdminPoolUnfreeze, AdminPoolClose, AdminAgentRegister,
			AdminAgentRevoke, AdminAgentRotate, AdminAdminAdd, AdminAdminSet, AdminAdminRemove, AdminAdminRotate, AdminPipelineCreate, AdminPipelineRemove,
			AdminPrincipalCreate, AdminPrincipalSet,
			AdminSettle, AdminRelease)
	}
	return nil
}

// RequestOrg gives the org that an operator's request names, "" where it names
// none, reading as strictly as the verb will.
func RequestOrg(data []byte) (org string, refused *Error) {
	r, refused := begin(data)
	if refused != nil {
		return "", refused
	}
	for m := r.object(""); m.next(); {
		if string(m.name) == "org" {
			org = m.org()
			continue
		}
		r.skip(m.field())
	}
	return org, r.finish()
}
