package events

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// message ties a schema to the Go code that reads and writes it.
type message struct {
	name    string // of the schema and the samples
	goType  string
	request bool // read strictly
	read    func([]byte) (any, error)
	write   func(any) []byte
}

func request[T any](name string, decode func([]byte) (T, *Error)) message {
	return message{
		name: name, goType: reflect.TypeFor[T]().Name(), request: true,
		read: func(b []byte) (any, error) {
			v, e := decode(b)
			if e != nil {
				return nil, e
			}
			return v, nil
		},
		write: func(v any) []byte {
			b, err := json.Marshal(v)
			if err != nil {
				return []byte(err.Error())
			}
			return b
		},
	}
}

type appender interface{ Append(dst []byte) []byte }

func answer[T appender](name string, parse func([]byte) (T, error)) message {
	return message{
		name: name, goType: reflect.TypeFor[T]().Name(),
		read:  func(b []byte) (any, error) { return parse(b) },
		write: func(v any) []byte { return v.(T).Append(nil) },
	}
}

func event[T EventMessage](name string) message {
	return answer(name, func(b []byte) (T, error) {
		v, err := ParseEvent(b)
		t, ok := v.(T)
		if err == nil && !ok {
			err = InvalidArgument("type", "another event", "")
		}
		return t, err
	})
}

func messages() []message {
	return []message{
		request(VerbReserve, DecodeReserve),
		request(VerbSettle, DecodeSettle),
		request(VerbRelease, DecodeRelease),
		request(VerbExtend, DecodeExtend),
		request(VerbCharge, DecodeCharge),
		request(VerbBalance, DecodeBalance),
		request(VerbReservation, DecodeReservationQuery),
		request(VerbWhoami, DecodeWhoami),
		request(VerbRegister, DecodeRegister),
		request(VerbRevoke, DecodeRevoke),
		request("org_create", DecodeOrgCreate),
		request("org_set", DecodeOrgSet),
		request("org_show", DecodeOrgShow),
		request("pool_create", DecodePoolCreate),
		request("pool_set", DecodePoolSet),
		request("pool_name", DecodePoolName),
		request("pool_show", DecodePoolShow),
		request("agent_register", DecodeAgentRegister),
		request("agent_list", DecodeAgentList),
		request("agent_show", DecodeAgentShow),
		request("agent_revoke", DecodeAgentRevoke),
		request("agent_rotate", DecodeAgentRotate),
		request("admin_add", DecodeAdminAdd),
		request("admin_list", DecodeAdminList),
		request("admin_set", DecodeAdminSet),
		request("admin_name", DecodeAdminName),
		request("pipeline_create", DecodePipelineCreate),
		request("pipeline_list", DecodePipelineList),
		request("pipeline_remove", DecodePipelineRemove),
		request("principal_create", DecodePrincipalCreate),
		request("principal_set", DecodePrincipalSet),
		request("principal_list", DecodePrincipalList),
		request("principal_name", DecodePrincipalName),
		request("operator_settle", DecodeOperatorSettle),
		request("operator_release", DecodeOperatorRelease),
		request("ledger_read", DecodeLedgerRead),
		request("ledger_checkpoint", DecodeLedgerCheckpoint),
		request("org_filter", DecodeOrgFilter),
		request("ledger_correct", DecodeLedgerCorrect),
		request("evidence_put", DecodeEvidencePut),
		request("evidence_get", DecodeEvidenceGet),
		request("evidence_list", DecodeEvidenceList),
		request("report_make", DecodeReportMake),
		request("report_list", DecodeReportList),
		request("report_get", DecodeReportGet),
		answer("reserve_answer", ParseReserveAnswer),
		answer("charge_answer", ParseChargeAnswer),
		answer("settle_answer", ParseSettleAnswer),
		answer("release_answer", ParseReleaseAnswer),
		answer("balance_answer", ParseBalanceAnswer),
		answer("reservation_answer", ParseReservationAnswer),
		answer("reservations_answer", ParseReservationsAnswer),
		answer("whoami_answer", ParseWhoamiAnswer),
		answer("register_answer", ParseRegisterAnswer),
		answer("revoke_answer", ParseRevokeAnswer),
		answer("accepted", ParseAccepted),
		answer("error", func(b []byte) (*Error, error) { return ParseError(b), nil }),
		answer("org_create_answer", ParseOrgCreateAnswer),
		answer("org_answer", ParseOrgAnswer),
		answer("pool_answer", ParsePoolAnswer),
		answer("pool_show_answer", ParsePoolShowAnswer),
		answer("agent_register_answer", ParseAgentRegisterAnswer),
		answer("agent_list_answer", ParseAgentListAnswer),
		answer("agent_show_answer", ParseAgentShowAnswer),
		answer("agent_rotate_answer", ParseAgentRotateAnswer),
		answer("admin_token_answer", ParseAdminTokenAnswer),
		answer("admin_list_answer", ParseAdminListAnswer),
		answer("admin_answer", ParseAdminAnswer),
		answer("pipeline_create_answer", ParsePipelineCreateAnswer),
		answer("pipeline_list_answer", ParsePipelineListAnswer),
		answer("pipeline_remove_answer", ParsePipelineRemoveAnswer),
		answer("principal_answer", ParsePrincipalAnswer),
		answer("principal_list_answer", ParsePrincipalListAnswer),
		answer("principal_balance_answer", ParsePrincipalBalanceAnswer),
		answer("ledger_line", ParseLedgerLine),
		answer("ledger_read_answer", ParseLedgerReadAnswer),
		answer("ledger_checkpoint_answer", ParseLedgerCheckpointAnswer),
		answer("reconcile_answer", ParseReconcileAnswer),
		answer("ledger_correct_answer", ParseLedgerCorrectAnswer),
		answer("rebuild_answer", ParseRebuildAnswer),
		answer("evidence_put_answer", ParseEvidencePutAnswer),
		answer("evidence_get_answer", ParseEvidenceGetAnswer),
		answer("evidence_list_answer", ParseEvidenceListAnswer),
		answer("report_answer", ParseReportAnswer),
		answer("report_list_answer", ParseReportListAnswer),
		answer("report_get_answer", ParseReportGetAnswer),
		answer("accept_loss_answer", ParseAcceptLossAnswer),
		answer("ledger_entry", ParseLedgerEntry),
		event[ReservationExpired](EventReservationExpired),
		event[Drift](EventDrift),
		event[SettleUnmatched](EventSettleUnmatched),
		event[Denials](EventDenials),
		event[LedgerHead](EventLedgerHead),
		event[PartitionRebuilt](EventPartitionRebuilt),
		event[ReportReady](EventReportReady),
		event[LedgerRefilled](EventLedgerRefilled),
		event[LedgerHalted](EventLedgerHalted),
		event[LedgerConfigDrift](EventLedgerConfigDrift),
	}
}

// Every type that is decoded or appended anywhere in the package is a row of
// messages, so that none is without schema, samples and channel.
func TestEveryMessageIsRegistered(t *testing.T) {
	t.Parallel()
	known := []string{"", "UnknownEvent", "EventMessage"}
	for _, m := range messages() {
		known = append(known, m.goType)
	}
	known = append(known, "Error")
	for _, file := range sourceFiles(t) {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			var name string
			switch {
			case f.Recv != nil && f.Name.Name == "Append":
				name = typeName(f.Recv.List[0].Type)
			case f.Recv == nil && strings.HasPrefix(f.Name.Name, "Decode"):
				name = typeName(f.Type.Results.List[0].Type)
			}
			if !slices.Contains(known, name) {
				t.Errorf("%s: add %s to messages()", f.Name.Name, name)
			}
		}
	}
}

func sourceFiles(t *testing.T) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	var out []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, f)
	}
	if len(out) < 20 {
		t.Fatalf("only %d source files found", len(out))
	}
	return out
}

func typeName(e ast.Expr) string {
	switch v := e.(type) {
	case *ast.Ident:
		return v.Name
	case *ast.StarExpr:
		return typeName(v.X)
	}
	return ""
}
