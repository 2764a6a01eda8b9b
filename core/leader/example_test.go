package leader_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/redlatch/redlatch/core/leader"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// A service leads until it gets the signal to stop.
func ExampleRun() {
	ctx, stop := context.WithCancel(context.Background()) // signal.NotifyContext in a service
	locker := lock.New(memstore.New())                    // redisstore.New(client) in a fleet
	defer func() { _ = locker.Close(context.Background()) }()

	err := leader.Run(ctx, locker, "leader:billing", func(ctx context.Context, term uint64) error {
		fmt.Println("leads, with a term:", term > 0)
		stop()
		<-ctx.Done() // work until then
		return ctx.Err()
	})
	if errors.Is(err, context.Canceled) {
		fmt.Println("resigned")
	}
	// Output:
	// leads, with a term: true
	// resigned
}

// Hooks see every change; Lost sees it at once, although the func may still run.
func ExampleWithHooks() {
	ctx := context.Background()
	locker := lock.New(memstore.New())
	defer func() { _ = locker.Close(ctx) }()

	hooks := leader.Hooks{
		Elected:  func(name string, _ uint64) { fmt.Println(name, "elected") },
		Resigned: func(name string, _ uint64, err error) { fmt.Println(name, "resigned:", err) },
		Lost:     func(name string, _ uint64, cause error) { fmt.Println(name, "lost:", cause) },
	}
	_ = leader.Run(ctx, locker, "leader:billing", func(context.Context, uint64) error {
		return errors.New("no more bills")
	}, leader.WithName("billing"), leader.WithHooks(hooks))
	// Output:
	// billing elected
	// billing resigned: no more bills
}

func ExampleWho() {
	ctx := context.Background()
	locker := lock.New(memstore.New())
	defer func() { _ = locker.Close(ctx) }()

	_ = leader.Run(ctx, locker, "leader:billing", func(ctx context.Context, _ uint64) error {
		who, err := leader.Who(ctx, locker, "leader:billing")
		fmt.Println("it is this process:", who.ID == locker.ID(), err)
		return err
	})
	who, _ := leader.Who(ctx, locker, "leader:billing")
	fmt.Println("nobody leads:", who == leader.Leader{})
	// Output:
	// it is this process: true <nil>
	// nobody leads: true
}
