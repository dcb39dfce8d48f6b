package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"tallystick/pkg/events"
)

func (e *environment) pipelineCommand() *cobra.Command {
	return group("pipeline", "Identities that read an org's decisions",
		"  tallystick pipeline create nightly --org acme\n  tallystick pipeline list --org acme\n  tallystick pipeline remove 5b1c… --org acme",
		e.pipelineCreate(), e.pipelineList(), e.pipelineRemove())
}

func (e *environment) pipelineCreate() *cobra.Command {
	var org, name string
	c := &cobra.Command{
		Use: "create NAME --org ORG", Short: "Make a pipeline identity and print its token once",
		Long: `Makes an identity that may fetch and acknowledge its org's decisions, and nothing more. From then on the decisions of
the org's durable commands are kept for 24 hours.`,
		Example: "  tallystick pipeline create nightly --org acme -o json > pipeline.json",
		Args:    oneOrFlag(&name, "name"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.admin(cmd, events.AdminPipelineCreate, "", events.PipelineCreate{Org: org, Name: name}, func(body []byte) error {
				p, err := decode[events.PipelineCreateAnswer](body)
				if err != nil {
					return err
				}
				t := newTable(e.out)
				t.row("pipeline", p.Pipeline)
				t.row("org", p.Org)
				t.row("name", p.Name)
				t.row("consumer", p.Consumer)
				t.row("token", p.Token)
				if err := t.flush(); err != nil {
					return err
				}
				e.note("The token is shown this once: only its hash is stored.")
				return nil
			})
		},
	}
	c.Flags().StringVar(&org, "org", "", "`ORG`")
	c.Flags().StringVar(&name, "name", "", "`NAME` for people")
	require(c, "org")
	return c
}

func (e *environment) pipelineList() *cobra.Command {
	var org string
	c := &cobra.Command{
		Use: "list --org ORG", Short: "List an org's pipeline identities", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.admin(cmd, events.AdminPipelineList, "", events.PipelineList{Org: org}, func(body []byte) error {
				list, err := decode[events.PipelineListAnswer](body)
				if err != nil {
					return err
				}
				t := newTable(e.out, "PIPELINE", "NAME", "CONSUMER", "TOKEN", "CREATED")
				for _, p := range list.Pipelines {
					t.row(p.Pipeline, p.Name, p.Consumer, p.TokenHint, p.CreatedAt)
				}
				return t.flush()
			})
		},
	}
	c.Flags().StringVar(&org, "org", "", "`ORG`")
	require(c, "org")
	return c
}

func (e *environment) pipelineRemove() *cobra.Command {
	var org, pipeline string
	c := &cobra.Command{
		Use: "remove PIPELINE --org ORG", Short: "End a pipeline identity: its token and its consumer",
		Args: oneOrFlag(&pipeline, "pipeline"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.admin(cmd, events.AdminPipelineRemove, "", events.PipelineRemove{Org: org, Pipeline: pipeline}, func([]byte) error {
				fmt.Fprintf(e.out, "pipeline %s is removed\n", pipeline)
				return nil
			})
		},
	}
	c.Flags().StringVar(&org, "org", "", "`ORG`")
	c.Flags().StringVar(&pipeline, "pipeline", "", "`PIPELINE` id")
	require(c, "org")
	return c
}
