package cli

import "github.com/spf13/cobra"

func (e *environment) upCommand() *cobra.Command          { return &cobra.Command{Use: "up"} }
func (e *environment) demoCommand() *cobra.Command        { return &cobra.Command{Use: "demo"} }
func (e *environment) credentialsCommand() *cobra.Command { return &cobra.Command{Use: "credentials"} }
