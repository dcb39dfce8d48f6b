package registry

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"slices"
	"strings"
)

// Pipeline reads a pipeline identity.
func (d *Directory) Pipeline(ctx context.Context, org, id string) (Pipeline, error) {
	p, _, err := d.pipelines.get(ctx, pipelineKey(org, id))
	return p, err
}

// Pipelines lists an org's pipeline identities in the order of their making.
func (d *Directory) Pipelines(ctx context.Context, org string) ([]Pipeline, error) {
	all, err := d.pipelines.list(ctx, org+".*")
	slices.SortFunc(all, func(a, b Pipeline) int { return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.ID, b.ID)) })
	return all, err
}

// CreatePipeline writes a new identity and the record that leads from its token
// to it, and marks the org: from then on its decisions are kept. The mark is
// written last and even where it is set, so that a removal of another identity
// that has not seen this one cannot take it away.
func (d *Directory) CreatePipeline(ctx context.Context, p Pipeline) error {
	if err := d.pipelines.create(ctx, pipelineKey(p.Org, p.ID), p); err != nil {
		return err
	}
	if err := d.pipelineTokens.create(ctx, pipelineTokenKey(p.TokenHash), pipelineToken{p.Org, p.ID}); err != nil {
		return err
	}
	for {
		o, revision, err := d.orgs.get(ctx, p.Org)
		if err != nil {
			return err
		}
		o.Pipelines = true
		if err = d.orgs.update(ctx, o.Name, o, revision); !errors.Is(err, ErrConflict) {
			return err
		}
	}
}

// RemovePipeline ends an identity; with the last one the org's decisions are
// kept no more.
func (d *Directory) RemovePipeline(ctx context.Context, p Pipeline) error {
	if err := d.pipelineTokens.remove(ctx, pipelineTokenKey(p.TokenHash)); err != nil {
		return err
	}
	if err := d.pipelines.remove(ctx, pipelineKey(p.Org, p.ID)); err != nil {
		return err
	}
	o, revision, err := d.orgs.get(ctx, p.Org)
	if err != nil {
		return err
	}
	left, err := d.Pipelines(ctx, p.Org)
	if err != nil || len(left) > 0 || !o.Pipelines {
		return err
	}
	o.Pipelines = false
	if err = d.orgs.update(ctx, o.Name, o, revision); errors.Is(err, ErrConflict) {
		return nil // a new identity was made meanwhile
	}
	return err
}

// PipelineToken finds the pipeline identity that a token belongs to, by its
// hash, always fresh.
func (d *Directory) PipelineToken(ctx context.Context, hash string) (org, id string, err error) {
	t, _, err := d.pipelineTokens.get(ctx, pipelineTokenKey(hash))
	if err != nil {
		return "", "", err
	}
	p, err := d.Pipeline(ctx, t.Org, t.Pipeline)
	if err != nil {
		return "", "", err
	}
	if subtle.ConstantTimeCompare([]byte(p.TokenHash), []byte(hash)) != 1 {
		return "", "", ErrNotFound
	}
	return p.Org, p.ID, nil
}
