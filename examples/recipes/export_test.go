package recipes_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/examples/recipes"
)

func TestThreeExportsOfATenantRunAtOnce(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			began, finish := make(chan struct{}), make(chan struct{})
			export := func(context.Context) error {
				began <- struct{}{}
				<-finish
				return nil
			}
			fleet := []*lock.Locker{process(t, store), process(t, store)}
			var running sync.WaitGroup
			start := func(tenant string, n int) {
				for i := range n {
					running.Go(func() {
						if err := recipes.Export(t.Context(), fleet[i%len(fleet)], tenant, export); err != nil {
							t.Errorf("%s: %v", tenant, err)
						}
					})
				}
				for range n {
					await(t, "an export begins", began)
				}
			}
			start("a", 3)
			for i, locker := range fleet {
				if err := recipes.Export(t.Context(), locker, "a", export); !errors.Is(err, lock.ErrBusy) {
					t.Errorf("a fourth export, in process %d: %v", i, err)
				}
			}
			start("b", 3) // another tenant has its own three
			close(finish)
			running.Wait()
			finish = make(chan struct{})
			start("a", 3)
			close(finish)
			running.Wait()
		})
	}
}
