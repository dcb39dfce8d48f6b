// Package client is how a Go agent asks Tallystick for money.
//
//	c, err := client.Connect(ctx, client.Config{URL: url, Token: token, JournalDir: dir})
//	...
//	defer c.Close()
//	most := map[string]int64{"usd_microcents": 20_000_000}
//	err = c.WithBudget(ctx, most, func(ctx context.Context, h *client.Hold) error {
//		if err := h.Dispatched(); err != nil { // from here on money may be gone
//			return err
//		}
//		answer, err := callModel(ctx) // spend only here
//		if err != nil {
//			return err // cost unknown: the whole reservation is charged
//		}
//		h.Spent(answer.Cost) // what it really was
//		return nil
//	}, client.WithKey("job-42"), client.WithWait(client.WaitPolicy{Max: time.Minute}))
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
// [Client.WithBudget] (and [Client.Hold], the same with a key and a whole
// request) resolves what it has reserved however the function ends. With
// Config.JournalDir that also holds when the process dies: each hold is a file
// there, written and synced before the reserve, before the paid call and before
// the settle go out. The next Connect delivers what is left: a settle under its
// own key, unknown cost for a call that was dispatched, a release for one that
// was not. So call [Hold.Dispatched] before the paid call and nowhere else.
// Afterwards the key is used up, and a new run of the job needs a new one.
//
// [Client.ReserveWait] waits until there is room. [Client.Register] makes a
// child, and [Client.Child] connects as it.
//
// The direct door ([Client.Reserve] and friends) is request and answer, and
// fails at once when no worker is there. [Client.Durable] gives the same
// methods through the durable door: the command is stored first, survives a
// restart of everything, and the decision arrives when it is made.
package client
