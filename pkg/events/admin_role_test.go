package events

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A verb is in the admin's role, or it concerns the installation: a new one
// must be put somewhere. A viewer only looks.
func TestRoleVerbs(t *testing.T) {
	t.Parallel()
	installation := []string{AdminOrgCreate, AdminOrgSet, AdminRebuild, AdminLedgerCorrect, AdminEvidencePut, AdminAcceptLoss}
	for _, verb := range adminVerbs() {
		if in := slices.Contains(RoleVerbs(RoleAdmin), verb); in == slices.Contains(installation, verb) {
			t.Errorf("%s is in both or in none: %v", verb, in)
		}
	}
	for _, verb := range RoleVerbs(RoleViewer) {
		if !slices.Contains(RoleVerbs(RoleAdmin), verb) {
			t.Errorf("a viewer may %s and an admin may not", verb)
		}
		switch verb {
		case AdminOrgShow, AdminPoolShow, AdminAgentList, AdminAgentShow, AdminAdminList, AdminPipelineList, AdminPrincipalList,
			AdminPrincipalShow, AdminPrincipalBalance, AdminLedger, AdminCheckpoint, AdminReconcile,
			AdminReportMake, AdminReportList, AdminReportGet, AdminEvidenceGet, AdminEvidenceList:
		default:
			t.Errorf("a viewer may %s", verb)
		}
	}
	if diff := cmp.Diff([]string{AdminLedger, AdminCheckpoint, AdminReportList, AdminReportGet, AdminEvidenceGet, AdminEvidenceList}, RoleVerbs(RoleAuditor)); diff != "" {
		t.Errorf("an auditor reads entries, checkpoints, reports and evidence: %s", diff)
	}
	for _, role := range []string{"", "owner", "Admin"} {
		if verbs := RoleVerbs(role); len(verbs) != 0 {
			t.Errorf("role %q may %v", role, verbs)
		}
	}
}

func TestCheckReason(t *testing.T) {
	t.Parallel()
	for _, v := range []string{"", "because", "für Käthe 😀", strings.Repeat("x", 256), `"quoted" \ {}`} {
		if e := CheckReason(v); e != nil {
			t.Errorf("%q: %v", v, e)
		}
	}
	for _, v := range []string{strings.Repeat("x", 257), strings.Repeat("é", 129), "a\tb", "a\nb", "a\x00", "\x7f", "\u0085", "\xff"} {
		if e := CheckReason(v); e == nil || e.Code != CodeInvalidArgument || e.Field != HeaderReason {
			t.Errorf("%q: %v", v, e)
		}
	}
}

// RequestOrg reads what the verb will read: no second org hides behind the
// first, whatever else the body holds.
func TestRequestOrg(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"org":"acme"}`: "acme", `{"pool":{"org":"rival"},"org":"acme","x":[{"org":"rival"}]}`: "acme", `{}`: "", `{"ORG":"acme"}`: "",
		`{"o\u0072g":"acme"}`: "acme",
	} {
		if org, e := RequestOrg([]byte(body)); e != nil || org != want {
			t.Errorf("%s: %q %v", body, org, e)
		}
	}
	for _, body := range []string{
		``, `[]`, `null`, `{"org":"acme"`, `{"org":"acme","org":"rival"}`, `{"org":"acme","o\u0072g":"rival"}`, `{"org":"acme"}{"org":"rival"}`,
		`{"org":null}`, `{"org":"*"}`, `{"org":"admin"}`, `{"org":1}`, "{\"org\":\"acme\",\"x\":\"\xff\"}",
	} {
		if org, e := RequestOrg([]byte(body)); e == nil {
			t.Errorf("%s: %q", body, org)
		}
	}
}
