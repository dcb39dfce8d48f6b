// Package client is how a Go agent asks Tallystick for money.
//
//	c, err := client.Connect(ctx, client.Config{URL: url, Token: token})
//	...
//	defer c.Close()
//	err = c.Hold(ctx, "job-42", reserve, func(ctx context.Context, h *client.Hold) error {
//		answer, err := callModel(ctx)  // spend only here
//		h.Spent(answer.Cost)           // what it really was
//		return err
//	})
//
// Three rules of the package:
//
//   - A denial is a value: [Client.Reserve] answers with Outcome "denied" and
//     a reason, and no error. Errors are *events.Error (use errors.As), or the
//     context's.
//   - Every verb that changes something takes an idempotency key, and every
//     repetition inside this package uses the same one, so a lost answer costs
//     a repetition and never money. Choose keys that the caller's own retry
//     finds again: a job id, not a random number.
//   - Nothing is allowed because something failed. When Tallystick is out of
//     reach, calls return an error of code "unavailable" or the context's
//     error, and the outcome is unknown until the same key is asked again.
//
// The direct door ([Client.Reserve] and friends) is request and answer, and
// fails at once when no worker is there. [Client.Durable] gives the same
// methods through the durable door: the command is stored first, survives a
// restart of everything, and the decision arrives when it is made.
package client
