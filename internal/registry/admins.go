package registry

import (
	"context"
	"crypto/subtle"
	"errors"
	"slices"
	"time"
)

// Admin is a person, or a tool, that administers one org. A removed one stays
// on record, not active.
type Admin struct {
	Org       string    `json:"org"`
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Role      string    `json:"role"` // one of events.Roles
	Active    bool      `json:"active"`
	CreatedAt time.Time `json:"created_at"`

	// TokenHash says which token is the admin's; any other has ended.
	TokenHash string `json:"token_hash"`
	TokenHint string `json:"token_hint"`
}

// orgAdmins are all admins of an org in one record, so that what must hold of
// them together, such as that one is left, holds under concurrent changes.
type orgAdmins struct {
	Admins []Admin `json:"admins"`
}

// Admins lists an org's admins in the order of their making.
func (d *Directory) Admins(ctx context.Context, org string) ([]Admin, error) {
	all, _, err := d.admins.get(ctx, org)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return all.Admins, err
}

// adminChangesMax is how often a change of admins is tried against others.
const adminChangesMax = 64

// ChangeAdmins changes an org's admins by compare-and-set: change gets a copy
// and is called again where somebody else was quicker. What it answers nil for
// without a difference is not written.
func (d *Directory) ChangeAdmins(ctx context.Context, org string, change func([]Admin) ([]Admin, error)) error {
	var err error
	for range adminChangesMax {
		all, revision, getErr := d.admins.get(ctx, org)
		if getErr != nil && !errors.Is(getErr, ErrNotFound) {
			return getErr
		}
		changed, changeErr := change(slices.Clone(all.Admins))
		if changeErr != nil || slices.Equal(changed, all.Admins) {
			return changeErr
		}
		if getErr != nil {
			err = d.admins.create(ctx, org, orgAdmins{changed})
		} else {
			err = d.admins.update(ctx, org, orgAdmins{changed}, revision)
		}
		if !errors.Is(err, ErrConflict) && !errors.Is(err, ErrExists) {
			return err
		}
	}
	return err
}

// AddAdminToken writes the record that leads from a token to its admin. It
// leads nowhere unless the admin's own record names the same hash.
func (d *Directory) AddAdminToken(ctx context.Context, hash, org, admin string) error {
	return d.tokens.create(ctx, hash, tokenRecord{Org: org, Admin: admin})
}

// RemoveToken forgets a token that has ended.
func (d *Directory) RemoveToken(ctx context.Context, hash string) error {
	return d.tokens.remove(ctx, hash)
}

// AdminToken finds the active admin whose token it is, by its hash: always
// fresh, so that a removed admin does not come in again.
func (d *Directory) AdminToken(ctx context.Context, hash string) (org, admin, role string, err error) {
	t, _, err := d.tokens.get(ctx, hash)
	if err != nil {
		return "", "", "", err
	}
	if t.Admin == "" {
		return "", "", "", ErrNotFound
	}
	a, err := d.admin(ctx, t.Org, t.Admin)
	if err != nil {
		return "", "", "", err
	}
	if subtle.ConstantTimeCompare([]byte(a.TokenHash), []byte(hash)) != 1 {
		return "", "", "", ErrNotFound
	}
	return t.Org, a.ID, a.Role, nil
}

// AdminRole is the role of an org's active admin, "" where there is no such
// one: always fresh.
func (d *Directory) AdminRole(ctx context.Context, org, id string) (string, error) {
	a, err := d.admin(ctx, org, id)
	if errors.Is(err, ErrNotFound) {
		return "", nil
	}
	return a.Role, err
}

func (d *Directory) admin(ctx context.Context, org, id string) (Admin, error) {
	admins, err := d.Admins(ctx, org)
	if err != nil {
		return Admin{}, err
	}
	i := slices.IndexFunc(admins, func(a Admin) bool { return a.ID == id && a.Active })
	if i < 0 {
		return Admin{}, ErrNotFound
	}
	return admins[i], nil
}
