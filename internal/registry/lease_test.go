package registry_test

import (
	"testing"
	"time"
)

func TestLease(t *testing.T) {
	t.Parallel()
	d := newWorld(t).dir
	now := time.Unix(1_800_000_000, 0)
	for _, step := range []struct {
		what, holder string
		at           time.Duration
		want         bool
	}{
		{"free", "a", 0, true},
		{"taken", "b", 1, false},
		{"renewed", "a", 2, true},
		{"still taken", "b", 11, false},
		{"ended, taken over", "b", 12, true},
		{"the late one may not renew", "a", 13, false},
	} {
		at := now.Add(step.at * time.Second)
		got, err := d.TakeLease(t.Context(), "rebuild", step.holder, at, at.Add(10*time.Second))
		if err != nil || got != step.want {
			t.Errorf("%s: %v, %v", step.what, got, err)
		}
	}
	for _, holder := range []string{"a", "b"} { // not the late one's to give back
		if err := d.EndLease(t.Context(), "rebuild", holder); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := d.TakeLease(t.Context(), "rebuild", "c", now, now.Add(time.Second)); err != nil || !got {
		t.Errorf("given back: %v, %v", got, err)
	}
}
